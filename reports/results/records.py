"""The files of a results directory that a report reads, checked: the plan, a run's record, a channel's certificate.

Only keys that a report needs are named here; other keys are ignored.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator
from pydantic_core import to_jsonable_python

from owlt.captures.accounting.derived_files import NewerVersion, Steps, digest_of_values, upgraded
from owlt.captures.files.plain_files import MOST_BYTES, FileName, read_json
from owlt.inputs.mistake import Mistake, MistakeError, Place
from owlt.reports.results.upgrades import CERTIFICATE_STEPS, MOST_PLAN_BYTES, PLAN_STEPS, RECORD_STEPS
from owlt.reports.style.units import duration_text, size_text

DIGEST_LENGTH = 16
Outcome = Literal["completed", "incomplete", "corrupt", "unsupported", "failed", "timed_out", "quarantined", "aborted"]


class ReportError(MistakeError):
    """A results directory from which no report can be made."""


class DamagedFile(ReportError):
    """A file that cannot be read by any version of owlt."""


class _FromFile(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")

    upgrades: ClassVar[Steps] = {}
    """Upgrades of files of older schema versions; {}: the file has no version."""
    most_bytes: ClassVar[int] = MOST_BYTES
    may_be_infinite: ClassVar[bool] = False
    """Whether a number may be infinite, such as an unlimited rate."""

    @classmethod
    def read(cls, path: Path) -> Self:
        """The value in a JSON file, upgraded if an older version of owlt wrote it.

        Raises FileNotFoundError if the file does not exist, DamagedFile if it cannot be read, ReportError, naming file
        and key, if a newer version of owlt wrote it or a key is missing.
        """
        try:
            values = read_json(path, cls.most_bytes, cls.may_be_infinite)
            return cls.model_validate(upgraded(values, cls.upgrades) if cls.upgrades else values)
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


class Permutation(_FromFile):
    """One point of the grid: a box in a plot. `rate_bps` None is an unlimited channel.

    Of a channel that has a name, rate, delay and packet error rate are those of its forward link at the beginning.
    """

    implementation: str
    file_size_bytes: int | None = None
    """None if data is sent for a duration."""
    duration_ns: int | None = None
    """None if a file is sent."""
    channel_name: str = ""
    rate_bps: float | None
    delay_ns: int
    packet_error_rate: float

    @property
    def load(self) -> int:
        """The size of the file in bytes, or the duration in ns: a sweep has one of them."""
        return self.duration_ns if self.duration_ns is not None else self.file_size_bytes or 0

    @property
    def load_text(self) -> str:
        """What is sent, in words: "100 kB", or for how long: "600 s"."""
        return size_text(self.load) if self.duration_ns is None else duration_text(self.duration_ns)


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


class Check(_FromFile):
    """One quantity of one direction. `low` and `high` enclose what the channel may be, given what was measured."""

    direction: str
    quantity: str
    """With its unit at the end, after a comma, if it has one."""
    verdict: Literal["ok", "failed", "not measured"]
    specified: float | None = None
    measured: float | None = None
    low: float | None = None
    high: float | None = None
    count: int = 0
    reason: str = ""
    detectable_low: float | None = None
    """With `detection_probability` the sample finds this value and any below wrong; `detectable_high`: any above."""
    detectable_high: float | None = None
    detection_probability: float | None = None
    aim_low: float | None = None
    """What the sample was to find wrong, where its size was chosen for that."""
    aim_high: float | None = None

    @property
    def falls_short(self) -> bool:
        """Whether the sample finds less wrong than it was to."""
        low, high = self.detectable_low, self.detectable_high
        return self.verdict != "not measured" and (
            (self.aim_low is not None and (low is None or low < self.aim_low * (1 - 1e-6)))
            or (self.aim_high is not None and (high is None or high > self.aim_high * (1 + 1e-6)))
        )


class Certificate(_FromFile):
    """certificates/KEY.json: what a channel was measured to be before its first run.

    `alpha` is the highest probability with which a channel that meets its specification fails.
    """

    upgrades: ClassVar[Steps] = CERTIFICATE_STEPS
    may_be_infinite: ClassVar[bool] = True

    schema_version: Literal[2]
    verdict: Literal["ok", "failed", "incomplete"]
    checks: tuple[Check, ...]
    kernel: str
    alpha: float


NOT_DELIVERED = ("failed", "timed_out", "incomplete", "corrupt")
"""Outcomes that an implementation is responsible for; except "completed", the others are due to rig or profile."""


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

    def known_failure(self, record: Record) -> str:
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


class Side(_FromFile):
    """What ran on one host: the rate its card was set to, if it does not pace itself; commands it left behind."""

    command: tuple[str, ...] = ()
    """(): it was not launched."""
    card_rate_bps: float | None = None
    left_running: tuple[str, ...] = ()


class HostTcp(_FromFile):
    """The TCP state of one host's kernel: totals of the run's sockets (struct tcp_info, linux/tcp.h), and the increases
    of the host's counters, by their names in nstat.

    `problem` is the reason if there are none. `others_retransmitted` segments in the counters are not of the run.
    `dsack`: this host reports duplicates to the other.
    """

    problem: str = ""
    sockets: tuple[dict[str, bool | int | str | None], ...] = ()
    counters: dict[str, int] = {}
    others_retransmitted: int = 0
    dsack: bool = False
    period_ns: int = 0


class MachineDelay(_FromFile):
    """Time that the machine, not the protocol, may have added to a session (docs/measures.md); None: not measured."""

    session_ns: int
    overdue_ns: int | None = None
    waited_ns: int | None = None
    dispatches: int | None = None


class Record(Permutation):
    """record.json: how a run ended. Times are ns since 1970 of the rig's clock, virtual or not."""

    upgrades: ClassVar[Steps] = RECORD_STEPS

    schema_version: Literal[9]
    run_id: FileName
    title: str
    protocol: str
    repetition: int
    order: int
    seed: int
    clock: str
    rig: str
    outcome: Outcome
    reason_code: str | None = None
    """A short code for the reason; None: completed."""
    reason: str = ""
    attempt: int = 1
    """Counts from 1."""
    earlier_attempts: tuple[str, ...] = ()
    """Why each earlier attempt was repeated, oldest first."""
    suspect: tuple[str, ...] = ()
    started_at_ns: int | None = None
    ended_at_ns: int | None = None
    file_delivered_at_ns: int | None = None
    received_bytes: int | None = None
    """What the receiver of a run for a duration reports."""
    sender: Side = Side()
    receiver: Side = Side()
    parameters: dict[str, int | float | str] = {}
    advertised: dict[str, float | None] = {}
    """`rate_bps` (None: unlimited), `one_way_delay_s` and `rtt_s`, as they were given to the implementation."""
    versions: dict[str, str] = {}
    kernel_hz: int | None = None
    channel_key: str = ""
    certificate: Literal["ok", "failed", "incomplete", ""] = ""
    session: dict[str, Any] = {}
    """What belongs to the run in the captures (captures.frames.session); {}: it ended before that was known."""
    host_refusals: dict[str, dict[str, int]] = {}
    """Packets that a program wanted to send and its host did not, by role and counter; {}: not known."""
    tcp: dict[Literal["sender", "receiver"], HostTcp] = {}
    """Of a run over TCP."""
    provenance: dict[str, str] = {}
    """Digests of what the packets depend on, by group; {}: not known."""
    machine: str = ""
    """The name of the machine that performed it; "": the one on which the sweep was started."""
    machine_delay: MachineDelay | None = None
    """None on the clock exact, which the machine cannot delay."""

    @property
    def permutation(self) -> Permutation:
        """The point of the grid that the run repeats."""
        return Permutation(**{name: getattr(self, name) for name in Permutation.model_fields})
