"""The files of a results directory beside the records, checked as they are read: plan, sources, journal.

Only keys that readers need are named here; other keys are ignored. The planner's own model of the plan is
`orchestrator.planning.plan`. Certificates are read in `results.certificates`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator
from pydantic_core import to_jsonable_python

from owlt.inputs.mistake import Mistake, MistakeError, Place
from owlt.results.plain_files import MOST_BYTES, FileName, digest_of_values, read_json
from owlt.results.record import NOT_DELIVERED, RECORD_NAME, Permutation, RunRecord, load_record
from owlt.results.upgrades import (
    MOST_PLAN_BYTES,
    PLAN_STEPS,
    NewerVersion,
    Steps,
    upgraded,
)

PLAN_NAME = "plan.json"
JOURNAL_NAME = "journal.jsonl"
CERTIFICATES = "certificates"
MACHINES = "machines"
"""The directory that has, by machine, the digest of each file that the packets depend on."""
FAILURE_NAME = "analysis-failed.txt"
"""Beside a run that could not be analysed: the reason in the first line, then the traceback."""
DIGEST_LENGTH = 16


class ReportError(MistakeError):
    """A results directory from which no report can be made."""


class DamagedFile(ReportError):
    """A file that cannot be read by any version of owlt."""


@contextmanager
def _stating_problems_of(path: Path) -> Iterator[None]:
    """Raise DamagedFile or ReportError, which name the file, instead of what reading and checking it raises; a
    FileNotFoundError stays."""
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as problem:
        raise DamagedFile(f"{path}: damaged ({problem.strerror})") from None
    except NewerVersion as newer:
        raise ReportError(
            Mistake(
                f"a newer version of owlt wrote it ({newer})",
                fix="make the report with that version",
                where=Place(str(path)),
            )
        ) from None
    except ValidationError as problem:
        first = problem.errors()[0]
        if not first["loc"]:
            raise DamagedFile(f"{path}: damaged ({first['msg']})") from None
        where = ".".join(map(str, first["loc"]))
        raise ReportError(
            Mistake(
                f"{where}: {first['msg']}",
                fix="make the report with the version of owlt that wrote it",
                where=Place(str(path)),
            )
        ) from None
    except ValueError as problem:
        raise DamagedFile(f"{path}: damaged ({problem})") from None


def read_reported_record(directory: Path) -> RunRecord:
    """The record in the directory of a run. Keys that this version does not know are ignored. Raises as
    `_FromFile.read` does."""
    with _stating_problems_of(directory / RECORD_NAME):
        return load_record(directory, ignore_unknown=True)


class _FromFile(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")

    upgrades: ClassVar[Steps] = {}
    """Upgrades of files of older schema versions; {}: the file has no version."""
    most_bytes: ClassVar[int] = MOST_BYTES

    @classmethod
    def read(cls, path: Path) -> Self:
        """The value in a JSON file, upgraded if an older version of owlt wrote it.

        Raises FileNotFoundError if the file does not exist, DamagedFile if it cannot be read, ReportError, naming file
        and key, if a newer version of owlt wrote it or a key is missing.
        """
        with _stating_problems_of(path):
            values = read_json(path, cls.most_bytes)
            return cls.model_validate(upgraded(values, cls.upgrades) if cls.upgrades else values)


class PlannedRun(_FromFile):
    """One planned repetition."""

    run_id: FileName
    permutation: Permutation
    channel_key: str
    repetition: int
    order: int
    seed: int
    is_baseline: bool = False
    """Whether it is one of the runs that show drift."""


class _Batch(_FromFile):
    runs: tuple[PlannedRun, ...]


class Repetitions(_FromFile):
    """Adaptive repetitions: their bounds, and the width of the median's interval at which they end, in percent."""

    at_least: int
    at_most: int
    until_interval_percent: float


class Sweep(_FromFile):
    """The sweep, as far as a report names it.

    Where `channel` names profiles, rate, delay and packet error rate that are None are each channel's own.
    """

    name: str
    title: str = ""
    seed: int
    implementations: tuple[str, ...]
    repetitions: int | Repetitions
    channel: tuple[str, ...] | None = None
    rate: tuple[str, ...] | None = None
    delay: tuple[str, ...] | None = None
    packet_error_rate: tuple[float, ...] | None = None
    together: tuple[dict[str, Any], ...] = ()
    """Axes that vary together, with their values."""
    parameters: dict[str, dict[str, Any]] = {}
    """Of implementations, by name: the parameters that it gives or varies."""
    assertions: tuple[dict[str, Any], ...] = ()
    """As `reports.assertions` reads them."""
    queue_packets: int | None = None
    certify: bool = True

    def gives(self, axis: str) -> bool:
        """Whether the sweep has values of rate, delay or packet error rate, alone or together with other axes."""
        return getattr(self, axis) is not None or any(axis in axes for axes in self.together)

    @property
    def channel_names(self) -> tuple[str, ...]:
        """The names of the channels in their order; () where rate, delay and packet error rate make them."""
        return tuple(dict.fromkeys(re.sub(r".*/|\.ya?ml$", "", name) for name in self.channel or ()))


class Step(_FromFile):
    """What changes with a channel, and when, in the written form."""

    at: str
    forward: dict[str, Any] = {}
    reverse: dict[str, Any] = {}


class Timeline(_FromFile):
    """How a channel changes; `loop_after` None: its last step is held."""

    steps: tuple[Step, ...]
    loop_after: str | None = None


class WrittenChannel(_FromFile):
    """A specified channel in the written form; a link's keys without a value are omitted."""

    forward: dict[str, Any] = {}
    reverse: dict[str, Any] = {}
    bypass: bool = False
    timeline: Timeline | None = None


ENDPOINTS = "-m owlt.agents."
"""The option with which Python starts an endpoint of owlt."""
OWN_VERSION = "version('owlt')"
"""In the command that states the version of what is all owlt's own."""


class Limits(_FromFile):
    """Limits beyond which an implementation is not launched: its runs there are unsupported."""

    largest_file_bytes: int | None = None
    slowest_rate_bps: float | None = None
    longest_one_way_delay_s: float | None = None


class KnownLimit(_FromFile):
    """Why an implementation is known to fail beyond all the limits that are given, although it is launched."""

    why: str
    fails_with: tuple[str, ...] = ("part_of_file", "no_file", "time_limit")
    """Reason codes of such a failure; in a plan of an older version, the default."""
    file_bytes_above: float | None = None
    one_way_delay_s_above: float | None = None
    packet_error_rate_above: float | None = None

    def covers(self, code: str | None, point: Permutation) -> bool:
        """Whether a run at a point of the grid lies there, and failed in this way."""
        bounds = (
            (self.file_bytes_above, point.file_size_bytes or 0),
            (self.one_way_delay_s_above, point.delay_ns / 1e9),
            (self.packet_error_rate_above, point.packet_error_rate),
        )
        return code in self.fails_with and all(bound is None or value > bound for bound, value in bounds)


class _Command(_FromFile):
    """What a profile starts on a host, in words; a word that is no text is not of a program's name."""

    command: tuple[Any, ...] = ()


Origin = Literal["own", "endpoint", "other"]


class Profile(_FromFile):
    """The part of an implementation's profile that a report shows."""

    sender: _Command = _Command()
    version_command: tuple[Any, ...] = ()
    description: str = ""
    limits: Limits = Limits()
    not_repeatable: str | None = None
    known_limits: tuple[KnownLimit, ...] = ()
    digest: str = ""
    """Of all keys in the plan."""

    @model_validator(mode="before")
    @classmethod
    def _with_digest(cls, values: Any) -> Any:
        if not isinstance(values, dict):
            return values
        return {**values, "digest": digest_of_values(to_jsonable_python(values))[:DIGEST_LENGTH]}

    @property
    def origin(self) -> Origin:
        """Whether all of it is owlt's own, owlt's endpoint around an engine of others, or a program of others."""
        if not " ".join(map(str, self.sender.command[1:3])).startswith(ENDPOINTS):
            return "other"
        return "own" if any(OWN_VERSION in str(word) for word in self.version_command) else "endpoint"

    def known_failure(self, record: RunRecord) -> str:
        """The known limit that explains a failed run; "" if there is none, if the implementation did not fail, or if a
        side was not launched."""
        code, point = record.reason_code, record.permutation
        if record.outcome not in NOT_DELIVERED or not (record.sender.command and record.receiver.command):
            return ""
        return next((limit.why for limit in self.known_limits if limit.covers(code, point)), "")


class Plan(_FromFile):
    """plan.json: the sweep, every run of it, and its channels by their keys."""

    upgrades: ClassVar[Steps] = PLAN_STEPS
    most_bytes: ClassVar[int] = MOST_PLAN_BYTES

    schema_version: Literal[7]
    sweep: Sweep
    implementations: dict[str, Profile]
    """By name, in the order of the sweep; a variant for each value of a parameter that it varies."""
    channels: dict[str, WrittenChannel]
    batches: tuple[_Batch, ...]

    @model_validator(mode="after")
    def _require_every_channel(self) -> Self:
        if missing := sorted({run.channel_key for run in self.runs} - set(self.channels)):
            raise ValueError(f"runs are on the channel {missing[0]}, which is not among its channels")
        return self

    @property
    def runs(self) -> list[PlannedRun]:
        """All runs in their order."""
        return [run for batch in self.batches for run in batch.runs]

    @property
    def is_by_repetition(self) -> bool:
        """Whether all runs of a repetition come before those of the next; older versions mixed them."""
        in_order = sorted((run for run in self.runs if not run.is_baseline), key=lambda run: run.order)
        repetitions = [run.repetition for run in in_order]
        return repetitions == sorted(repetitions)

    def place(self, permutation: Permutation, implementations: Sequence[str]) -> tuple[float, ...]:
        """Where a permutation stands in tables: channel by channel, the implementations side by side in this order."""
        channels = self.sweep.channel_names
        return (
            channels.index(permutation.channel_name) if permutation.channel_name in channels else len(channels),
            math.inf if permutation.rate_bps is None else permutation.rate_bps,
            permutation.delay_ns,
            permutation.load,
            permutation.packet_error_rate,
            implementations.index(permutation.implementation),
        )


class Source(_FromFile):
    """A directory that a combined one is made of."""

    directory: str
    label: str
    sweep: str
    seed: int
    runs: int
    duplicates: int = 0
    """Runs that an earlier directory has with the same seed and result; they are not counted again."""
    apart: dict[str, tuple[str, ...]] = {}
    """Implementations that are not pooled with those of an earlier directory, and why."""


class Sources(_FromFile):
    """sources.json of a combined directory."""

    sources: tuple[Source, ...]


class Event(_FromFile):
    """A line of journal.jsonl: something happened, at a time of this world's clock, in seconds since 1970."""

    at_s: float
