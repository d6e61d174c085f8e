"""Suites of fault and interoperability tests: cases of aimed faults with what is expected, as YAML in profiles/suites/.

A case is one short transfer. Its verdict follows from the record of its run; a fault that hit nothing is no test.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal
from xml.etree import ElementTree

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from owlt import PACKAGE
from owlt.agents.contract import pairs
from owlt.agents.contract.implementation import Implementation, Parameter
from owlt.emulator.channel.aimed_fault import Fault
from owlt.inputs.axis_values import Size
from owlt.inputs.mistake import Invalid, Mistake, Place, did_you_mean, got
from owlt.inputs.validation import mistakes_in
from owlt.orchestrator.errors import NotFound, ProfileError
from owlt.orchestrator.planning.plan import faults_of
from owlt.orchestrator.profiles.load import read_document
from owlt.results.record import Outcome, RunRecord

SUITES = PACKAGE / "profiles" / "suites"
Expected = Literal["delivered", "ends"]
Verdict = Literal["passed", "failed", "inconclusive", "not applicable"]
_MET: Mapping[Expected, tuple[Outcome, ...]] = {
    "delivered": (Outcome.COMPLETED,),
    "ends": (Outcome.COMPLETED, Outcome.FAILED, Outcome.INCOMPLETE),
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


class SuiteCase(BaseModel):
    """One test: what it is for, the section of the specification, the faults, and what is expected."""

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)

    purpose: Annotated[str, Field(description="what the implementation has to do")]
    reference: Annotated[str, Field(description="section of the specification")]
    faults: Annotated[tuple[Fault, ...], BeforeValidator(lambda written: _faults(written))] = ()
    expected: Annotated[
        Expected, Field(description="delivered: the file; ends: both programs end by themselves within the time limit")
    ]
    parameters: Annotated[
        dict[str, Parameter], Field(description="parameters of the implementation; without them, the case is left out")
    ] = {}


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


def in_case(implementation: Implementation, case: SuiteCase) -> Implementation | None:
    """The implementation with the parameters of a case, of both sides of a pair; None if it does not have them."""
    changes: dict[str, Parameter] = {}
    for name, value in case.parameters.items():
        has = [each for each in implementation.parameters if each in (name, f"sender.{name}", f"receiver.{name}")]
        if not has:
            return None
        changes |= dict.fromkeys(has, value)
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
    expected: Expected
    observed: str
    verdict: Verdict
    run: Path | None = None


def finding_of(name: str, case: SuiteCase, record: RunRecord | None, run: Path | None) -> Finding:
    """The verdict on a case by the record of its run; None: the implementation does not have its parameters."""
    faults = tuple(f"{fault.direction}: {fault.text}: {fault.action.text}" for fault in case.faults)
    observed, verdict = _observed(case, record)
    return Finding(name, case.purpose, case.reference, faults, case.expected, observed, verdict, run)


def _observed(case: SuiteCase, record: RunRecord | None) -> tuple[str, Verdict]:
    if record is None:
        return f"it does not have the parameters {', '.join(case.parameters)}", "not applicable"
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
