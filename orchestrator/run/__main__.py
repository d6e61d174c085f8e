"""The worker as a program: `python -m owlt.orchestrator.run RIG_DIRECTORY [--template | --lab INVENTORY:RIG]`.

It does the task in its working directory; with --template, its guest is copied, and each copy does its own task. With
--lab, its rig is that of an inventory.
"""

import gc
import sys

if __name__ == "__main__":
    gc.disable()  # what is imported stays: looking for garbage in it takes a tenth of the time of the imports
    from owlt.orchestrator.run.worker import main

    gc.freeze()
    gc.enable()

    if "--lab" in sys.argv:
        from owlt.orchestrator.profiles.inventory import lab_rig
        from owlt.orchestrator.rigs.lab.raising import raising

        sys.exit(main(sys.argv[1], as_template=False, raise_rig=raising(lab_rig(sys.argv[3])[1])))
    sys.exit(main(sys.argv[1], as_template="--template" in sys.argv[2:]))
