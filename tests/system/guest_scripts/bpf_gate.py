"""Sends frames in memory through a gate stage. Told a JSON object of experiments, each a list of steps:

{"admission": ...} loads or replaces the rule, {"lengths": [...]} sends zeros, {"frames": [...]} sends frames written
in hexadecimal digits, `times` over, {"sleep_ns": n} waits and {"hold_ns": n} holds the link from now on. Prints for
each experiment [time in ns, length, passed] of every frame, what was left of those that were written, the times that
holding ended, and the counters.
"""

import json
import sys
import time
from typing import Any

from owlt.emulator.kernel.gate import Admission, GateStage, Marking
from tests.system.guest_scripts.bpf_run import run


def experiment(steps: list[dict[str, Any]]) -> dict[str, Any]:
    """One stage, from its loading to its end."""
    stage: Any = None
    frames, left, held, read_back = [], [], [], True
    for step in steps:
        if "admission" in step:
            marking = step["admission"].get("marking")
            rule = Admission(**step["admission"] | {"marking": Marking(**marking) if marking else None})
            if stage is None:
                stage = GateStage.load(rule)
            else:
                stage.replace(rule)
            read_back &= stage.read_back() == rule
        if "hold_ns" in step:
            held.append(time.monotonic_ns() + step["hold_ns"])
            stage.hold_until(held[-1])
        if "sleep_ns" in step:
            time.sleep(step["sleep_ns"] / 1e9)
        for length in step.get("lengths", []):
            frames.append([time.monotonic_ns(), length, run(stage, bytes(length))[0]])
        for frame in map(bytes.fromhex, step.get("frames", []) * step.get("times", 1)):
            begun_ns = time.monotonic_ns()
            passed, after, _ = run(stage, frame)
            frames.append([begun_ns, len(frame), passed])
            left.append(after.hex())
    told = {"frames": frames, "left": left, "held": held, "counters": stage.counters(), "read_back": read_back}
    stage.close()
    return told


print(json.dumps({name: experiment(steps) for name, steps in json.loads(sys.argv[1]).items()}))
