"""Whether the hosts of a lab rig are as the playbook provisions them: what Ansible's check mode would change."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from owlt.orchestrator.checks.doctor import Requirement
from owlt.orchestrator.profiles.inventory import LabRig

_TASK = re.compile(r"^(?P<kind>TASK|RUNNING HANDLER) \[(?:\w+ : )?(?P<name>.*?)\] \*+$")
_RESULT = re.compile(r"^(?P<kind>changed|fatal): \[(?P<host>[^\]\s]+)\S*\](?P<text>.*)$")
_RECAP = re.compile(r"^(?P<host>\S+) +: ok=\d+ ", re.MULTILINE)
SHOWN = 5


@dataclass(frozen=True)
class Difference:
    """A task that would change a host, or that failed there with a `problem`."""

    host: str
    task: str
    problem: str = ""


def read_differences(output: str) -> list[Difference]:
    """The differences in the output of `ansible-playbook --check`, each task of a host once.

    A handler that would run follows from a task that is among them.
    """
    found: dict[tuple[str, str], Difference] = {}
    task, is_handler = "", False
    for line in output.splitlines():
        if heading := _TASK.match(line):
            task, is_handler = heading["name"], heading["kind"] == "RUNNING HANDLER"
        elif (result := _RESULT.match(line)) and not (is_handler and result["kind"] == "changed"):
            problem = result["text"].strip() if result["kind"] == "fatal" else ""
            found.setdefault((result["host"], task), Difference(result["host"], task, problem))
    return list(found.values())


def check_settings(rig: LabRig, output: str) -> Iterator[Requirement]:
    """For each host, whether the playbook in check mode would change nothing."""
    differences = read_differences(output)
    reached = set(_RECAP.findall(output))
    for entry in rig.hosts:
        if not entry.provision:
            yield Requirement(
                f"{entry.name}: settings", True, "not compared: owlt_provision is false", f"the {entry.role}"
            )
            continue
        own = [each for each in differences if each.host == entry.name]
        texts = [f"{each.task} ({each.problem[:200]})" if each.problem else each.task for each in own]
        if entry.name not in reached:
            texts = texts or [f"ansible-playbook did not reach it: {last_line(output)}"]
        more = f", and {len(texts) - SHOWN} more" if len(texts) > SHOWN else ""
        detail = f"differs: {'; '.join(texts[:SHOWN])}{more}" if texts else "as provisioned"
        fix = "run: owlt rig provision; --check shows each difference" if texts else ""
        yield Requirement(f"{entry.name}: settings", not texts, detail, f"the {entry.role}", fix)


def last_line(output: str) -> str:
    """The last line with text."""
    return next((line.strip() for line in reversed(output.splitlines()) if line.strip()), "it printed nothing")
