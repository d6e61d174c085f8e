"""The time account of a run: the sums over its critical path, kept beside its captures as time.json.

The sums add up to the session time exactly.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from owlt.captures.accounting.derived_files import CAPTURES, DerivedFile, load, load_or_make, load_or_match
from owlt.captures.accounting.summary import account_both, conclude, read_both
from owlt.captures.frames.session import Host
from owlt.captures.inspection.causes import What, causes
from owlt.captures.inspection.critical_path import CriticalPath, Kind, Phase
from owlt.captures.inspection.inspection import Case, path_of
from owlt.captures.inspection.packet_tables import fates_of, packet_table
from owlt.captures.protocols.ladder import rungs
from owlt.captures.protocols.messages import without_collections
from owlt.captures.protocols.view import read_sent

TIME = "time.json"
MOST_CAUSES = 5
"""The largest number of causes that are kept; the largest causes are kept."""
SCHEMA_VERSION = 1
"""Incremented whenever a field or its meaning changes."""


_Time = Annotated[int, Field(ge=0)]


class Spent(BaseModel):
    """How long one kind took in one phase. `host` waited or processed, or its packets were in the channel."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    phase: Phase
    kind: Kind
    host: Host
    total_ns: _Time


class StoredCause(BaseModel):
    """A cause as values, as `captures.inspection.causes.Cause` has them."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    what: What
    host: Host
    phase: Phase
    message: str
    count: int
    total_ns: _Time


class TimeAccount(DerivedFile):
    """Where the time of a session went. `spent` sums to `session_ns`, which is from its first to its last packet.

    `delivered_ns` is the time from the first packet to the delivery of the file, and `least_ns` the lower bound of the
    channel, as in `CriticalPath`; None if not known. `causes` are the largest causes, the largest first.
    """

    schema_version: int = SCHEMA_VERSION
    session_ns: Annotated[int, Field(gt=0)]
    delivered_ns: int | None
    least_ns: _Time | None
    spent: list[Spent]
    causes: Annotated[list[StoredCause], Field(max_length=MOST_CAUSES)]

    @model_validator(mode="after")
    def _require_sum(self) -> Self:
        if sum(each.total_ns for each in self.spent) != self.session_ns:
            raise ValueError("`spent` does not sum to `session_ns`")
        return self

    @classmethod
    def of(cls, path: CriticalPath) -> TimeAccount:
        """The account of a session."""
        found = [each for each in causes(path) if each.parts[0] is not path.late_start]
        return cls(
            session_ns=path.length_ns,
            delivered_ns=None if path.delivered_ns is None else path.delivered_ns - path.begin_ns,
            least_ns=path.least_ns,
            spent=[
                Spent(phase=phase, kind=kind, host=host, total_ns=total_ns)
                for (phase, kind, host), total_ns in path.spent_ns.items()
            ],
            causes=[
                StoredCause(
                    what=cause.what,
                    host=cause.host,
                    phase=cause.phase,
                    message=cause.message,
                    count=cause.count,
                    total_ns=cause.total_ns,
                )
                for cause in found[:MOST_CAUSES]
            ],
        )

    def total_ns(self, kinds: Iterable[Kind], phases: Iterable[Phase] | None = None, host: Host | None = None) -> int:
        """The time of some kinds, in some phases and of one host, or of all."""
        chosen, within = set(kinds), None if phases is None else set(phases)
        return sum(
            each.total_ns
            for each in self.spent
            if each.kind in chosen and (within is None or each.phase in within) and host in (None, each.host)
        )


class NoTime(ValueError):
    """A session has no time, because it has fewer than two packets."""


def load_or_account(run_dir: Path, case: Case) -> TimeAccount:
    """The account of the run in `run_dir`: the kept account if captures, case and code have not changed since, else a
    new one, which is then kept.

    Raises NoTime, NoDissection, NotACapture, ValueError if the dissector's options are not known, OSError.
    """
    arguments = [
        case.session.model_dump(mode="json"),
        list(case.dissector),
        [repr(link) for link in (case.forward_link, case.reverse_link)],
        [repr(wait) for wait in case.waits],
        [case.file_delivered_at_ns, case.prompt_ns, case.has_failed],
    ]
    with without_collections():
        return load_or_make(run_dir / TIME, TimeAccount, arguments, lambda: TimeAccount.of(_path(run_dir, case)))


def load_account(run_dir: Path) -> TimeAccount | None:
    """The kept account, without checking whether it is current; None if it is missing, damaged, or of another
    version."""
    stored = load(run_dir / TIME, TimeAccount)
    return stored if stored and stored.schema_version == SCHEMA_VERSION else None


def _path(run_dir: Path, case: Case) -> CriticalPath:
    """The critical path of a run, without the results of `inspect` that it does not need."""
    crossing = load_or_match(run_dir, *read_both(*(run_dir / name for name in CAPTURES)), case.session)
    sent, answered = read_sent(crossing, case.session, case.dissector)
    accounts = account_both(crossing, case.expected)
    fates = fates_of(packet_table(crossing, accounts))
    summary = conclude(crossing, accounts, case.transfer(case.file_size_bytes))
    path = path_of(rungs(sent, answered, crossing, fates), summary, case)
    if path is None:
        raise NoTime("its session has fewer than two packets")
    return path
