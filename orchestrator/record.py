"""How a run ended, whatever happened: the record, written last and atomically.

A record is the truth about a run; everything else beside it can be made again from what it names.
Numbers read from packets are not here but in the capture summary.
"""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from orchestrator.errors import ResultsConflict
from orchestrator.whole_file import write_whole

SCHEMA_VERSION = 2
RECORD_NAME = "record.json"
UNKNOWN = "unknown"
"""The version of a build that does not tell it; what follows says why."""


class Outcome(StrEnum):
    """How a run ended."""

    COMPLETED = "completed"
    """The receiver's file has the hash of the sender's."""
    INCOMPLETE = "incomplete"
    """The receiver has a part of the file and nothing else: what is missing is behind its end, or zeros."""
    CORRUPT = "corrupt"
    """The receiver's file has bytes that were not sent so, or more than were sent."""
    UNSUPPORTED = "unsupported"
    """The build said that it cannot do this permutation (exit 127)."""
    FAILED = "failed"
    """A side did not come up or gave up, and nothing of the file came; or it flooded its output."""
    TIMED_OUT = "timed_out"
    """The deadline passed, in the time of the rig's clock, or the guest hung."""
    ABORTED = "aborted"
    """The rig, not the build, was at fault: host lost, channel refused, capture failed."""


NOT_DELIVERED = (Outcome.FAILED, Outcome.TIMED_OUT, Outcome.INCOMPLETE, Outcome.CORRUPT)
"""Outcomes that a build can be known for; the others but COMPLETED are the rig's, or the profile's."""


class Side(BaseModel):
    """What ran on one host."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    command: list[str] = []
    exit_status: int | None = None
    """None: it never started, or was still running when it was stopped."""
    stopped: bool = False
    card_rate_bps: float | None = None
    """What its host's interface was set to because the build does not pace itself."""
    left_running: list[str] = []
    """Commands of what it had started and left behind when it ended; ended with it."""


class HostTcp(BaseModel):
    """What the kernel's TCP on one host says of the run, from before the launch until the channel was empty.

    `sockets` are the run's own, their totals by name (struct tcp_info, linux/tcp.h). `counters` is by how much those of
    the host's network namespace have grown, as `nstat -az` names them; those that have not are left out. They include
    the orchestrator's own SSH connection: exact are those of what only losses bring about (retransmissions, timeouts,
    duplicates) where `others_retransmitted` is 0; segment counts and DelayedACKs are at most so many.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    problem: str = ""
    """Why there are no numbers; then all else is empty."""
    sockets: list[dict[str, bool | int | str | None]] = []
    counters: dict[str, int] = {}
    others_retransmitted: int = 0
    """The segments that sockets that are not of the run sent again; they are in the counters."""
    dsack: bool = False
    """Whether this host tells the other what came twice (net.ipv4.tcp_dsack)."""
    period_ns: int = 0
    """Between the samples in `tcp-sender.csv`; 0: none were taken."""


class Withheld(BaseModel):
    """What the machine withheld from a run while its session lasted, from its first packet to its last.

    `orchestrator.disturbance` decides how much is too much.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    session_ns: int
    overdue_ns: int | None = None
    """How long some packet was in the emulator for longer than the channel explains; None where the channel varies."""
    waited_ns: int | None = None
    """How long the rig's threads were ready to run and waited for a processor, all together. None: a virtual clock, or
    the machine's kernel does not count it."""
    dispatches: int | None = None
    """How often one of them was put on a processor."""


class RunRecord(BaseModel):
    """One run. Times are nanoseconds of the rig's clock since 1970; on a virtual clock they are virtual."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    schema_version: int = SCHEMA_VERSION
    run_id: str
    sweep: str
    implementation: str
    title: str
    protocol: str
    file_size_bytes: int
    channel_name: str = ""
    """The profile that the channel comes from; "": it is made of delay, rate and packet error rate."""
    channel_key: str = ""
    """The channel's certificate is `certificates/KEY.json` of the results directory."""
    delay_ns: int
    rate_bps: float | None
    """None: unlimited."""
    packet_error_rate: float
    repetition: int
    order: int
    seed: int
    clock: str
    rig: str
    outcome: Outcome
    reason: str = ""
    attempt: int = 1
    """Counts from 1; runs are repeated by the rules in `orchestrator.retries`."""
    earlier_attempts: list[str] = []
    """Why each earlier attempt was repeated, oldest first; what they left is in `attempts/RUN/N/`."""
    alone: bool = False
    """Performed in a guest of its own, booted with the run's seed, because the guest that the plan gives it was
    interrupted repeatedly: its packets are repeatable, but not those of a sweep without interruptions."""
    suspect: list[str] = []
    started_at_ns: int | None = None
    ended_at_ns: int | None = None
    file_whole_at_ns: int | None = None
    file_sha256: str | None = None
    received_sha256: str | None = None
    sender: Side = Side()
    receiver: Side = Side()
    parameters: dict[str, int | float | str] = {}
    """Of the implementation, as they were in this run."""
    not_repeatable: str = ""
    """Why the build does not send the same packets again for the same seed on the clock exact; "": it does."""
    told: dict[str, float | None] = {}
    """What the build was told: rate (None: unlimited), delay, round trip. The channel's unless the sweep says else."""
    session: dict[str, Any] = {}
    """What belongs to the run in the captures: addresses, ports, groups."""
    channel: dict[str, Any] | None = None
    """As the kernel had it, read back, in its written form."""
    certificate: str = ""
    """The verdict on the channel before its first run: "ok", "failed", "incomplete"; "" if nobody measured it."""
    timeline: dict[str, float] = {}
    """Of a channel that changes with time: how many steps were applied, and how late the latest was, in ns."""
    emulator_statistics: dict[str, Any] = {}
    captures: dict[str, Any] = {}
    """tcpdump's own counters of each capture point."""
    tcp: dict[str, HostTcp] = {}
    """By role, of a run whose session has TCP ports."""
    withheld: Withheld | None = None
    """None on the exact clock, from which a machine can withhold nothing, and of a run without packets."""
    versions: dict[str, str] = {}
    kernel_hz: int | None = None


def write_record(record: RunRecord, directory: Path) -> Path:
    """Write `record.json` into the run's directory: there is a whole record or none."""
    return write_whole(directory / RECORD_NAME, record.model_dump_json(indent=2) + "\n")


class DamagedRecord(ResultsConflict):
    """A record that cannot be read, whichever version of owlt wrote it."""


def read_record(directory: Path) -> RunRecord:
    """The record in a run's directory.

    Raises DamagedRecord when it cannot be read, ResultsConflict when another version of owlt wrote it,
    FileNotFoundError when there is none.
    """
    path = directory / RECORD_NAME
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise
    except OSError as problem:
        raise DamagedRecord(f"{path}: damaged ({problem.strerror})") from problem
    try:
        return RunRecord.model_validate_json(content)
    except ValidationError as problem:
        errors = problem.errors()
        where = ".".join(map(str, errors[0]["loc"]))
        wrong = f"{f'{where}: ' if where else ''}{errors[0]['msg']}"
        is_newer = all(error["type"] == "extra_forbidden" for error in errors)
        if is_newer or _written_version(content) not in (None, SCHEMA_VERSION):
            raise ResultsConflict(
                f"{path}: is not a record of schema version {SCHEMA_VERSION}: {wrong}; "
                "read it with the version of owlt that wrote it, or move the results directory away"
            ) from problem
        raise DamagedRecord(f"{path}: damaged ({wrong})") from problem


def _written_version(content: bytes) -> int | None:
    """The schema version that a file names; None where it is damaged before that."""
    try:
        version = json.loads(content)["schema_version"]
    except (ValueError, LookupError, TypeError):
        return None
    return version if isinstance(version, int) else None
