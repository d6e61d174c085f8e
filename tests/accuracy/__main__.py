"""Prints the table of `make accuracy`, draws the figure of bit errors, and ends with one line that counts it all.

python -m tests.accuracy [OUT_DIRECTORY]. Exit status 1: something is not as asked, or a wrong channel was not caught.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from owlt.emulator.certification.certificate import Certificate, Check
from owlt.orchestrator.kernel.kernel import find_kernel
from tests.accuracy.channels import CASES, WRONG, Case
from tests.accuracy.figure import draw_hit_frames
from tests.system.conftest import Guest

SCRIPT = Path(__file__).with_name("in_guest.py")
FAMILY_ALPHA = 0.001
"""With what probability anything fails, in one go, though all is as asked."""
CASES_PER_GUEST = 4
PATIENCE_S = 900
CURVE = {
    "bit_error_rates": [1e-6, 1e-5, 1e-4],
    "lengths_bytes": [64, 128, 256, 512, 1024, 1514, 2048, 4096, 6000, 9000],
    "packets": 4000,
    "events": 10,
}


@dataclass(frozen=True)
class Row:
    """A check of a case, and whether it is what it has to be."""

    case: Case
    check: Check
    as_wanted: bool


def main(out: Path) -> int:
    """Measure all, print all; return the exit status."""
    out.mkdir(parents=True, exist_ok=True)
    cpus = len(os.sched_getaffinity(0))
    alpha = FAMILY_ALPHA / (len(CASES) + len(WRONG) + 1)
    with ThreadPoolExecutor(cpus) as pool:
        curve = pool.submit(in_guest, "curve", json.dumps(CURVE))
        parts = [
            part[start : start + CASES_PER_GUEST]
            for part in (CASES, WRONG)
            for start in range(0, len(part), CASES_PER_GUEST)
        ]
        done = list(pool.map(lambda part: certified(part, alpha), parts))
        points = curve.result()
    found = {case.name: certificate for batch in done for case, certificate in batch}
    rows = [row for case in CASES for row in judged(case, found[case.name])]
    caught = [(case, caught_in(case, found[case.name])) for case in WRONG]
    print_table(rows)
    print_caught(caught)
    outside = draw_hit_frames(points, alpha, out / "bit-errors.svg")
    print(f"figure: {out / 'bit-errors.svg'}: {len(points)} points, {len(outside)} outside: {outside or 'none'}")
    (out / "accuracy.json").write_text(json.dumps({name: each.to_wire() for name, each in found.items()}, indent=1))
    counts = Counter(row.check.verdict for row in rows)
    wrong = [row for row in rows if not row.as_wanted]
    missed = [case.name for case, quantities in caught if not quantities]
    print(
        f"accuracy: {len(CASES)} channels, {len(rows)} checks at a family-wise {1 - FAMILY_ALPHA:.1%}: "
        f"{counts['ok']} ok, {counts['failed']} failed, {counts['not measured']} not measurable, "
        f"{len(wrong)} not as wanted; {len(WRONG) - len(missed)} of {len(WRONG)} wrong channels caught; "
        f"{len(points) - len(outside)} of {len(points)} lengths on the curve of bit errors"
    )
    return 1 if wrong or missed or outside else 0


def certified(cases: list[Case], alpha: float) -> list[tuple[Case, Certificate]]:
    """What a guest of their own found of some cases."""
    asked = [
        {"name": case.name, "channel": case.channel, "truth": case.truth, "options": case.options} for case in cases
    ]
    told = in_guest(json.dumps(asked), str(alpha))
    return [(case, Certificate.from_wire(line["certificate"])) for case, line in zip(cases, told, strict=True)]


def in_guest(*arguments: str) -> list[Any]:
    """What the script printed, a value a line."""
    found = find_kernel()
    if found is None:
        raise SystemExit("accuracy: no virtual-time kernel is built; next: make setup")
    with tempfile.TemporaryDirectory() as directory:
        done = Guest(Path(directory), found).run(SCRIPT, *arguments, timeout_s=PATIENCE_S)
    if done.returncode:
        raise SystemExit(f"accuracy: the guest failed: {done.stderr}")
    return [json.loads(line) for line in done.stdout.splitlines()]


def judged(case: Case, certificate: Certificate) -> Iterator[Row]:
    """Every check of a certificate; what cannot be measured is wanted only where the case says so."""
    for check in certificate.checks:
        unseen = check.verdict == "not measured" and check.quantity.startswith(case.unseen or ("\0",))
        yield Row(case, check, check.verdict == "ok" or unseen)


def caught_in(case: Case, certificate: Certificate) -> list[str]:
    """The quantities that failed as they had to; none if one that had to did not, in either direction."""
    failed = [check for check in certificate.checks if check.verdict == "failed"]
    wanted = [
        [check for check in failed if check.quantity.startswith(quantity) and check.direction == direction]
        for quantity in case.caught
        for direction in ("forward", "reverse")
    ]
    return sorted({check.quantity for checks in wanted for check in checks}) if all(wanted) else []


def print_table(rows: list[Row]) -> None:
    """A line a check: asked, measured, the interval of what it may be, and how many were counted."""
    print(f"{'channel':32} {'way':7} {'quantity':48} {'asked':>18} {'measured':>18} {'from':>18} {'to':>18} {'n':>8}")
    for row in rows:
        check = row.check
        numbers = " ".join(f"{number(value):>18}" for value in (check.specified, check.measured, check.low, check.high))
        verdict = "" if check.verdict == "ok" else f"  {check.verdict}: {check.reason}"
        mark = "" if row.as_wanted else "  <-- NOT AS WANTED"
        print(f"{row.case.name:32} {check.direction:7} {check.quantity:48} {numbers} {check.count:>8}{verdict}{mark}")


def print_caught(caught: list[tuple[Case, list[str]]]) -> None:
    """A line a wrong channel."""
    for case, quantities in caught:
        print(f"wrong on purpose: {case.name:32} {'caught: ' + '; '.join(quantities) if quantities else 'NOT CAUGHT'}")


def number(value: float | None) -> str:
    """As precise as it is."""
    if value is None:
        return "-"
    return f"{value:,.0f}" if value == int(value) and abs(value) < 1e15 else f"{value:.7g}"


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1] if len(sys.argv) > 1 else "results/accuracy")))
