"""The case of a recorded run: its session, dissector, file and outcome, as the analysis of its captures needs them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from owlt.captures.accounting.derived_files import CAPTURES
from owlt.captures.files.plain_files import names_in, require_plain
from owlt.captures.frames.session import Session
from owlt.captures.inspection.inspection import Case
from owlt.inputs.axes import base_name
from owlt.inputs.mistake import Mistake, Place
from owlt.orchestrator.errors import OwltError, ResultsConflict
from owlt.orchestrator.planning.plan import read_plan_values
from owlt.orchestrator.profiles.catalogue import find_implementation
from owlt.orchestrator.results.analysis import duration_s, expected_of, steady_rate_bps
from owlt.orchestrator.results.disturbance import described
from owlt.orchestrator.results.record import RunRecord, read_record, refusals_text


def case_of_run(directory: Path) -> tuple[RunRecord, Case]:
    """The record of a run and its case, without its channel's links.

    Raises OwltError if its captures are not there, OSError.
    """
    record = read_record(directory)
    missing = [name for name in CAPTURES if name not in names_in(directory)]
    if missing or not record.session:
        why = f"there is no {' and no '.join(missing)}" if missing else "it ended before its session was known"
        raise OwltError(
            Mistake(f"cannot be analysed, for {why}", "a run that kept its captures", where=Place(str(directory)))
        )
    for name in CAPTURES:
        require_plain(directory / name)
    return record, Case(
        session=Session.model_validate(record.session),
        dissector=_dissector(directory, record),
        file_size_bytes=record.file_size_bytes if record.duration_ns is None else record.received_bytes,
        duration_s=duration_s(record),
        file_delivered_at_ns=record.file_delivered_at_ns,
        rate_bps=steady_rate_bps(record),
        expected=expected_of(record),
        outcome=record.outcome.value,
        reason=record.reason,
        beside=[*described(record.clock, record.machine_delay), *_refused(record)],
    )


def _refused(record: RunRecord) -> list[tuple[str, str]]:
    """The packets that the hosts refused to send, as a name and a value; [] if they sent everything."""
    text = refusals_text(record.host_refusals)
    return [("not sent, because the host had no room", text)] if text else []


def _dissector(directory: Path, record: RunRecord) -> Sequence[str]:
    """The planned implementation's; if the plan is missing or damaged, that of the current profile of the same name."""
    planned: Sequence[str] = ()
    with suppress(OSError, ResultsConflict, LookupError, TypeError):
        plan = read_plan_values(directory.parent.parent)
        planned = plan["implementations"][record.implementation]["dissector"]
    return planned or find_implementation(base_name(record.implementation)).dissector
