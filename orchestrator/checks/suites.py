"""Suites of fault and interoperability tests: cases of aimed faults and commands with what is expected, as YAML in
profiles/suites/.

A case is one short transfer. Its verdict follows from its run. A fault that hits no packet tests nothing, nor does a
command to a program that has exited.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal
from xml.etree import ElementTree

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from owlt import PACKAGE
from owlt.agents.contract import pairs
from owlt.agents.contract.implementation import ROLES, Implementation, Parameter, Role
from owlt.emulator.channel.aimed_fault import Fault
from owlt.inputs.axis_values import Delay, Size
from owlt.inputs.mistake import Invalid, Mistake, Place, did_you_mean, got
from owlt.inputs.quantities import format_delay
from owlt.inputs.sweep import CommandName, GivenCommand
from owlt.inputs.validation import mistakes_in
from owlt.orchestrator.checks.fault_cases import SentPacket, sent_packets
from owlt.orchestrator.errors import NotFound, ProfileError
from owlt.orchestrator.hosts.printable import SHELL_BASE
from owlt.orchestrator.planning.plan import faults_of
from owlt.orchestrator.profiles.load import read_document
from owlt.results.record import Outcome, RunRecord

SUITES = PACKAGE / "profiles" / "suites"
Expected = Literal["delivered", "ends", "cancelled"]
Verdict = Literal["passed", "failed", "inconclusive", "not applicable"]
_MET: Mapping[Expected, tuple[Outcome, ...]] = {
    "delivered": (Outcome.COMPLETED,),
    "ends": (Outcome.COMPLETED, Outcome.FAILED, Outcome.INCOMPLETE),
    "cancelled": (Outcome.FAILED, Outcome.INCOMPLETE),
}
"""The outcomes of runs with which an expectation is met."""


CaseName = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,59}$")]
"""It is a part of the names of runs."""


def _faults(written: Any) -> tuple[Fault, ...]:
    """The faults of a case. Raises Invalid, with keys below `faults`."""
    try:
        return faults_of(written)
    except Invalid as wrong:
        raise Invalid(*(replace(each, where=Place(key=each.where.key[1:])) for each in wrong.mistakes)) from None


STILL_SENDING_NS = 50_000_000
"""How long after it was suspended a side may still send its last packets."""


class CaseCommand(BaseModel):
    """A command of its profile that a side gets during the transfer."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    side: Annotated[Role, Field(description="which side gets it")]
    after: Annotated[Delay, Field(description="when it gets it, from the first packet of the transfer, with its unit")]
    command: Annotated[CommandName, Field(description="suspend, resume or cancel")]

    @property
    def text(self) -> str:
        """In words, such as "sender: suspend after 60 ms"."""
        return f"{self.side}: {self.command} after {format_delay(self.after)}"

    def given(self, first_packet_ns: int) -> GivenCommand:
        """The command as a sweep has it; `first_packet_ns`: from the launch."""
        at = format_delay(first_packet_ns + self.after)
        return GivenCommand.model_validate({"side": self.side, "at": at, "command": self.command})


class SuiteCase(BaseModel):
    """One test: what it is for, the section of the specification, the faults and commands, and what is expected."""

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)

    purpose: Annotated[str, Field(description="what the implementation has to do")]
    reference: Annotated[str, Field(description="section of the specification")]
    faults: Annotated[tuple[Fault, ...], BeforeValidator(lambda written: _faults(written))] = ()
    commands: Annotated[
        tuple[CaseCommand, ...],
        Field(description="commands of the profile that a side gets; without them, the case is left out"),
    ] = ()
    expected: Annotated[
        Expected,
        Field(
            description="delivered: the file; ends: both programs end by themselves within the time limit; cancelled: "
            "both end by themselves, without the file"
        ),
    ]
    parameters: Annotated[
        dict[str, Parameter], Field(description="parameters of the implementation; without them, the case is left out")
    ] = {}


UNDISTURBED = SuiteCase(purpose="the file is delivered", reference="", expected="delivered")
"""A transfer without faults and commands."""


class Suite(BaseModel):
    """The tests of a protocol."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    title: str
    source: Annotated[str, Field(description="the specification, and where the tests come from")]
    protocol: Annotated[str, Field(description="protocol of the implementations that it is for")]
    file_size: Annotated[Size, Field(description="size of the file, with its unit")]
    cases: dict[CaseName, SuiteCase]


def find_suite(name: str, protocol: str) -> Suite:
    """The suite of that name, or in the file of that path; "": that of the protocol.

    Raises NotFound, ProfileError with every mistake in the file, or for a suite of another protocol.
    """
    known = {path.stem: path for path in sorted(SUITES.glob("*.yaml"))}
    path = Path(name) if name.endswith((".yaml", ".yml")) else known.get(name or protocol.lower())
    if path is None:
        problem = f"suite {name!r}: not found" if name else f"there is no suite for {protocol}"
        fix = did_you_mean(name, known, f"suites: {', '.join(known)}; or the path of a file of your own")
        raise NotFound(Mistake(problem, fix=fix))
    document = read_document(path)
    try:
        suite = Suite.model_validate(document.value)
    except ValidationError as problem:
        raise ProfileError(*map(document.positions.located, mistakes_in(problem, Suite))) from None
    if protocol and suite.protocol != protocol:
        expected, where = f"{protocol}, the protocol of the implementation", Place(key=("protocol",))
        raise ProfileError(document.positions.located(Mistake(got(suite.protocol), expected, where=where)))
    return suite


def missing_in(implementation: Implementation, case: SuiteCase) -> tuple[str, ...]:
    """What a case needs and the profile of an implementation, or those of a pair, do not have."""
    parameters = {each.rpartition(".")[2] for each in implementation.parameters} | set(implementation.parameters)
    commands = dict.fromkeys((each.side, each.command) for each in case.commands)
    without = [key for key in commands if getattr(implementation.of(key[0]).side(key[0]), key[1]) is None]
    return (
        *(f"the parameter {name}" for name in case.parameters if name not in parameters),
        *(f"the command {command} of the {role}" for role, command in without),
    )


def in_case(implementation: Implementation, case: SuiteCase) -> Implementation | None:
    """The implementation with the parameters of a case, of both sides of a pair; None if something is missing in its
    profile, or a pair cannot have them."""
    if missing_in(implementation, case):
        return None
    changes: dict[str, Parameter] = {}
    for name, value in case.parameters.items():
        names = (name, f"sender.{name}", f"receiver.{name}")
        changes |= dict.fromkeys((each for each in implementation.parameters if each in names), value)
    try:
        return pairs.with_parameters(implementation, changes) if changes else implementation
    except pairs.CannotPair:
        return None


@dataclass(frozen=True)
class Finding:
    """The verdict on a case, with what was observed. `run` is the directory of its run, None if there is none."""

    case: str
    purpose: str
    reference: str
    faults: tuple[str, ...]
    commands: tuple[str, ...]
    expected: Expected
    observed: str
    verdict: Verdict
    run: Path | None = None


def finding_of(name: str, case: SuiteCase, record: RunRecord, run: Path | None) -> Finding:
    """The verdict on a case by its run and the record of it."""
    observed, verdict = _observed(case, record)
    if verdict == "passed" and case.commands:
        observed, verdict = _as_commanded(case, record, run, observed)
    return _finding(name, case, observed, verdict, run)


def without_run(name: str, case: SuiteCase, why: str, verdict: Verdict) -> Finding:
    """A case that was not performed."""
    return _finding(name, case, why, verdict, None)


def _finding(name: str, case: SuiteCase, observed: str, verdict: Verdict, run: Path | None) -> Finding:
    faults = tuple(f"{fault.direction}: {fault.text}: {fault.action.text}" for fault in case.faults)
    commands = tuple(command.text for command in case.commands)
    return Finding(name, case.purpose, case.reference, faults, commands, case.expected, observed, verdict, run)


def _as_commanded(case: SuiteCase, record: RunRecord, run: Path | None, observed: str) -> tuple[str, Verdict]:
    """The verdict on a case with commands whose outcome is the expected one."""
    suspends = any(each.command == "suspend" for each in case.commands)
    if problems := not_suspended(case, sent_packets(run)) if suspends and run is not None else []:
        return "; ".join([observed, *problems]), "failed"
    if record.suspect:
        return "; ".join([observed, *record.suspect]), "inconclusive"
    ended_badly = [
        f"the {role} {'had not ended' if side.stopped else 'was ended by a signal'}"
        for role in ROLES
        for side in [getattr(record, role)]
        if case.expected == "cancelled" and (side.stopped or (side.exit_status or 0) not in range(SHELL_BASE))
    ]
    return ("; ".join([observed, *ended_badly]), "failed") if ended_badly else (observed, "passed")


def not_suspended(case: SuiteCase, sent: Sequence[SentPacket]) -> list[str]:
    """How the packets of a run show that a side was not suspended as in its case: a sender sent, or the file was
    delivered meanwhile."""
    problems = []
    for side, begin_ns, end_ns in _suspensions(case, sent[0].at_ns if sent else 0):
        own = [packet for packet in sent if packet.place.direction == "forward" and begin_ns <= packet.at_ns < end_ns]
        if side == "sender" and own:
            problems.append(f"packets that the sender sent while it was suspended: {len(own)}")
        elif case.expected == "delivered" and sent and begin_ns <= sent[-1].at_ns < end_ns:
            problems.append(f"the transfer ended while the {side} was suspended")
    return problems


def _suspensions(case: SuiteCase, first_packet_ns: int) -> Iterator[tuple[Role, float, float]]:
    """Each side that is suspended, from when on it sends nothing, and when it gets its next command."""
    for role in ROLES:
        own = sorted((each for each in case.commands if each.side == role), key=lambda each: each.after)
        for command, following in zip(own, [*own[1:], None], strict=False):
            if command.command == "suspend":
                end_ns = math.inf if following is None else first_packet_ns + following.after
                yield role, first_packet_ns + command.after + STILL_SENDING_NS, end_ns


def _observed(case: SuiteCase, record: RunRecord) -> tuple[str, Verdict]:
    outcome = f"{record.outcome}{f': {record.reason}' if record.reason else ''}"
    if record.outcome in (Outcome.ABORTED, Outcome.UNSUPPORTED, Outcome.QUARANTINED):
        return outcome, "inconclusive"
    if case.faults and record.faults is None:
        return f"{outcome}; the run ended before its faults began", "inconclusive"
    if record.faults and record.faults.failure:
        return f"{outcome}; the faults broke off: {record.faults.failure}", "inconclusive"
    missed = [each.fault for each in record.faults.faults if not each.hits] if record.faults else []
    if missed:
        return f"{outcome}; no packet was hit by: {', '.join(missed)}", "inconclusive"
    return outcome, "passed" if record.outcome in _MET[case.expected] else "failed"


def junit(implementation: str, suite: Suite, findings: Sequence[Finding]) -> bytes:
    """The findings as JUnit XML, which CI servers read."""
    counts = {verdict: sum(each.verdict == verdict for each in findings) for verdict in ("failed", "inconclusive")}
    skipped = sum(each.verdict == "not applicable" for each in findings)
    root = ElementTree.Element(
        "testsuite",
        name=f"{implementation}: {suite.title}",
        tests=str(len(findings)),
        failures=str(counts["failed"]),
        errors=str(counts["inconclusive"]),
        skipped=str(skipped),
    )
    elements = {"failed": "failure", "inconclusive": "error", "not applicable": "skipped"}
    for each in findings:
        case = ElementTree.SubElement(root, "testcase", classname=implementation, name=each.case)
        if each.verdict != "passed":
            ElementTree.SubElement(case, elements[each.verdict], message=_xml_text(each.observed))
    written: bytes = ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)
    return written


def _xml_text(text: str) -> str:
    """The text without characters that XML cannot have."""
    return "".join(char if char.isprintable() else "?" for char in text)
