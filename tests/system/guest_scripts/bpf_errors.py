"""Sends frames in memory through error stages. Told a JSON object of experiments, each a list of [process, lengths]:

the first process is loaded, each further one replaces it. Prints for each the frames that were hit, as
[number, flipped bits, passed], with the counters and the process read back after the last.
"""

import json
import sys
from typing import Any

from owlt.emulator.kernel.bpf_stages import ErrorProcess, ErrorStage
from tests.system.guest_scripts.bpf_run import flipped, run


def process_of(asked: dict[str, Any]) -> ErrorProcess:
    """A process as JSON has it."""
    return ErrorProcess(**{**asked, "positions": tuple(asked.get("positions", ()))})


def experiment(steps: list[Any]) -> dict[str, Any]:
    """One stage, from its loading to its end."""
    stage, hits = None, []
    for asked, lengths in steps:
        if stage is None:
            stage = ErrorStage.load(process_of(asked))
        else:
            stage.replace(process_of(asked))
        for number, length in enumerate(lengths):
            frame = bytes(number * 7 + place & 255 for place in range(length))
            passed, left, _ = run(stage, frame)
            if left != frame or not passed:
                hits.append([number, flipped(frame, left), passed])
    assert stage is not None
    told = {"hits": hits, "counters": stage.counters(), "read_back": stage.read_back() == process_of(asked)}
    stage.close()
    return told


print(json.dumps({name: experiment(steps) for name, steps in json.loads(sys.argv[1]).items()}))
