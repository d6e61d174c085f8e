"""`owlt conform`: the fault and interoperability tests of a protocol, with a verdict for each."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from owlt.orchestrator.commands.fault_tests import PerformCases, case_runs, empty_directory
from owlt.orchestrator.commands.output import Printer
from owlt.orchestrator.commands.usage import Guests, Implementation, Json, complete_implementation

if TYPE_CHECKING:
    from owlt.agents.contract import implementation as contract
    from owlt.orchestrator.checks.suites import Finding, Suite, SuiteCase

CONFORMANCE = Path("results", "conformance")
PAGE, JUNIT = "index.html", "junit.xml"


def conform(
    name: Implementation,
    suite: Annotated[
        str, typer.Option(metavar="SUITE", help="Name of a suite or path of its file; default: the protocol's.")
    ] = "",
    against: Annotated[
        str,
        typer.Option(
            metavar="OTHER",
            help="Another implementation: NAME sends to it, then receives from it.",
            autocompletion=complete_implementation,
        ),
    ] = "",
    guests: Guests = None,
    as_json: Json = False,
) -> None:
    """Perform the fault and interoperability tests of a protocol.

    Certain packets are lost, duplicated or reordered; a side cancels, or is suspended and resumed. Each test is one
    short transfer in the virtual rig. Runs, page and JUnit XML stay in results/conformance/NAME.

    Exit status: 0 if all tests are passed, 1 if not.
    """
    from owlt.orchestrator.checks.suites import find_suite
    from owlt.orchestrator.profiles.catalogue import find_implementation

    printer = Printer(as_json)
    names = [f"{name}-to-{against}", f"{against}-to-{name}"] if against else [name]
    implementations = [find_implementation(each) for each in names]
    tests = find_suite(suite, implementations[0].protocol)
    words = [name, *(["--suite", suite] if suite else []), *(["--against", against] if against else [])]
    again = shlex.join(["owlt", "conform", *words])
    open_tests, found = 0, {}
    for implementation in implementations:
        results = empty_directory(CONFORMANCE, implementation.name)
        with case_runs(printer, again, guests) as perform:
            findings = _findings(perform, implementation, tests, results)
        found[implementation.name] = findings
        open_tests += sum(each.verdict in ("failed", "inconclusive") for each in findings)
        _write(implementation.name, tests, findings, results, again)
        rows = ((each.case, each.verdict, each.observed) for each in findings)
        printer.table(("test", "verdict", "observed"), rows)
        printer.text(f"{implementation.name}: {_summary(findings)}")
        printer.note(f"report: {results / PAGE}")
    printer.json({"suite": tests.title, "findings": {key: list(map(asdict, each)) for key, each in found.items()}})
    raise typer.Exit(1 if open_tests else 0)


def _summary(findings: list[Finding]) -> str:
    counts = {verdict: sum(each.verdict == verdict for each in findings) for verdict in ("passed", "failed")}
    others = [
        f"{count} {verdict}"
        for verdict in ("inconclusive", "not applicable")
        if (count := sum(each.verdict == verdict for each in findings))
    ]
    return ", ".join([f"{counts['passed']} of {len(findings)} tests passed", f"{counts['failed']} failed", *others])


def _findings(
    perform: PerformCases, implementation: contract.Implementation, suite: Suite, results: Path
) -> list[Finding]:
    """The verdict on each case: cases with the same parameters are performed as one plan."""
    from owlt.orchestrator.checks.suites import in_case, missing_in, without_run

    groups: dict[tuple[tuple[str, contract.Parameter], ...], dict[str, SuiteCase]] = {}
    variants = {}
    found: dict[str, Finding] = {}
    for case_name, case in suite.cases.items():
        key, variant = tuple(case.parameters.items()), in_case(implementation, case)
        if variant is None:
            missing = ", ".join(missing_in(implementation, case)) or "parameters that both sides can have"
            why = f"its profile does not have {missing}"
            found[case_name] = without_run(case_name, case, why, "not applicable")
        else:
            variants[key] = variant
            groups.setdefault(key, {})[case_name] = case
    for number, (key, cases) in enumerate(groups.items(), start=1):
        found |= _performed(perform, variants[key], suite, cases, results / str(number))
    return [found[case_name] for case_name in suite.cases]


def _performed(
    perform: PerformCases,
    implementation: contract.Implementation,
    suite: Suite,
    cases: Mapping[str, SuiteCase],
    results: Path,
) -> dict[str, Finding]:
    """The verdicts of cases with the same parameters. Times of commands count from the first packet, whose time after
    the launch is that of a run without commands."""
    from owlt.orchestrator.checks.fault_cases import PLAIN_CHANNEL, first_packet_ns, plan_of_cases
    from owlt.orchestrator.checks.suites import UNDISTURBED, finding_of, without_run
    from owlt.results.record import Outcome, read_record
    from owlt.results.recorded_runs import run_directory

    def performed(part: Path, of: Mapping[str, SuiteCase], first_ns: int = 0) -> dict[str, Path]:
        faults = {name: case.faults for name, case in of.items()}
        given = {name: [each.given(first_ns) for each in case.commands] for name, case in of.items() if case.commands}
        name, settings = f"conform-{implementation.name}", {"commands": given}
        plan = plan_of_cases(name, implementation, PLAIN_CHANNEL, suite.file_size, faults, settings=settings)
        perform(plan, part)
        return {run.permutation.channel_name: run_directory(part, run.run_id) for run in plan.runs}

    commanded = {name: case for name, case in cases.items() if case.commands}
    others = {name: case for name, case in cases.items() if not case.commands}
    plain = next((name for name, case in others.items() if not case.faults), "without-commands")
    runs = performed(results, {plain: UNDISTURBED, **others} if commanded else others)
    found = {name: finding_of(name, case, read_record(runs[name]), runs[name]) for name, case in others.items()}
    if commanded:
        base = read_record(runs[plain])
        if base.outcome is not Outcome.COMPLETED:
            why = f"without commands, the transfer {base.outcome}: {base.reason}"
            return found | {name: without_run(name, case, why, "inconclusive") for name, case in commanded.items()}
        first_ns = first_packet_ns(runs[plain])
        runs = performed(results.with_name(f"{results.name}-commands"), commanded, first_ns)
        found |= {name: finding_of(name, case, read_record(runs[name]), runs[name]) for name, case in commanded.items()}
    return found


def _write(name: str, suite: Suite, findings: list[Finding], results: Path, again: str) -> None:
    """The page and the JUnit XML."""
    from owlt.inputs.quantities import format_size
    from owlt.installation import own_version
    from owlt.orchestrator.checks.fault_cases import PLAIN_CHANNEL_TEXT, ladder_lines
    from owlt.orchestrator.checks.suites import junit
    from owlt.reports.rendering import new_environment

    results.mkdir(parents=True, exist_ok=True)
    (results / JUNIT).write_bytes(junit(name, suite, findings))
    open_cases = [
        (each, ladder_lines(each.run), again)
        for each in findings
        if each.verdict in ("failed", "inconclusive") and each.run is not None
    ]
    page = (
        new_environment()
        .get_template("conformance.html")
        .render(
            title=f"{name}: {suite.title}",
            lines=[_summary(findings)],
            suite=suite,
            findings=findings,
            open_cases=open_cases,
            file_size=format_size(suite.file_size),
            channel=PLAIN_CHANNEL_TEXT,
            version=own_version(),
        )
    )
    (results / PAGE).write_text(page)
