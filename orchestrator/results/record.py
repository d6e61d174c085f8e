"""The record of a run: how it ended and under which conditions, written last and atomically, for every run.

Everything derived from captures is in the capture summary and can be computed again.
"""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, JsonValue, ValidationError

from owlt.captures.accounting.derived_files import NewerVersion, current_version, upgraded
from owlt.captures.files.plain_files import read_json, write_whole
from owlt.captures.files.tcpdump_command import CaptureCounters
from owlt.inputs.mistake import Mistake, Place
from owlt.orchestrator.errors import ResultsConflict
from owlt.orchestrator.hosts.host_clock import HostClock
from owlt.orchestrator.results.reason_codes import ReasonCode
from owlt.reports.results.upgrades import RECORD_STEPS

SCHEMA_VERSION = current_version(RECORD_STEPS)
RECORD_NAME = "record.json"
READ_WITH_ITS_VERSION = "use the version of owlt that wrote it, or move the results directory away"
UNKNOWN = "unknown"
"""The version of an implementation that does not report one; the reason may follow."""

WrittenSession = dict[str, JsonValue]
"""The fields of `captures.frames.session.Session`; {}: the run ended before they were known."""
WrittenChannel = dict[str, JsonValue]
"""A channel as `ChannelSpec.to_wire` writes it."""
Statistics = dict[str, dict[str, dict[str, int]]]
"""The emulator's counters by direction, stage and name."""
CertificateVerdict = Literal["ok", "failed", "incomplete", ""]
"""The verdict on the channel before its first run; "": it was not certified."""


class Outcome(StrEnum):
    """How a run ended."""

    COMPLETED = "completed"
    """The receiver's file has the hash of the sender's; for a duration, the sender sent for that long and both programs
    ended without an error."""
    INCOMPLETE = "incomplete"
    """The receiver has a part of the file and nothing else: missing bytes are behind its end, or zeros."""
    CORRUPT = "corrupt"
    """The receiver's file has bytes that differ from those sent, or more bytes than were sent."""
    UNSUPPORTED = "unsupported"
    """The implementation does not support this permutation (exit 127)."""
    FAILED = "failed"
    """A side did not become ready or gave up, and no part of the file arrived; or a side flooded its output."""
    TIMED_OUT = "timed_out"
    """The deadline passed, in the time of the rig's clock, or the guest hung."""
    QUARANTINED = "quarantined"
    """Not launched, because the implementation had failed too often in a row."""
    ABORTED = "aborted"
    """The rig, not the implementation, was at fault: host lost, channel refused, capture failed."""


NOT_DELIVERED = (Outcome.FAILED, Outcome.TIMED_OUT, Outcome.INCOMPLETE, Outcome.CORRUPT)
"""Outcomes that an implementation is responsible for; except COMPLETED, the others are due to rig or profile."""


class Side(BaseModel):
    """The program on one host."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    command: list[str] = []
    exit_status: int | None = None
    """None: it did not start, or was still running when it was stopped."""
    stopped: bool = False
    card_rate_bps: float | None = None
    """Rate of the host's interface, if the implementation does not pace itself."""
    left_running: list[str] = []
    """Commands of processes that it had started and that still ran when it ended; they were ended with it."""


class HostTcp(BaseModel):
    """The TCP state of one host's kernel, from before the launch until the channel was empty.

    `sockets` are the run's own, with their totals by name (struct tcp_info, linux/tcp.h). `counters` are the increases
    of the network namespace's counters, by their names in `nstat -az`, without those that did not change. They include
    the orchestrator's SSH connection: counters of losses (retransmissions, timeouts, duplicates) are exact if
    `others_retransmitted` is 0; segment counts and DelayedACKs are upper bounds.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    problem: str = ""
    """Why there are no numbers; everything else is empty then."""
    sockets: list[dict[str, bool | int | str | None]] = []
    counters: dict[str, int] = {}
    others_retransmitted: int = 0
    """Retransmitted segments of sockets that are not of the run; the counters include them."""
    dsack: bool = False
    """Whether this host reports duplicates to the other (net.ipv4.tcp_dsack)."""
    period_ns: int = 0
    """Time between the samples in `tcp-sender.csv`; 0: no samples were taken."""


class MachineDelay(BaseModel):
    """Time that the machine, not the protocol, may have added to a session, from its first packet to its last.

    `orchestrator.results.disturbance` has the limits.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    session_ns: int
    overdue_ns: int | None = None
    """Time during which the emulator held an overdue packet; None if the channel varies."""
    waited_ns: int | None = None
    """Total time for which threads of the rig were ready to run and waited for a processor. None: virtual clock, or the
    kernel does not count it."""
    dispatches: int | None = None
    """Number of times that one of them was put on a processor."""


def refusals_text(refused: dict[str, dict[str, int]]) -> str:
    """The packets that the hosts did not send, as "sender 892 packets"; "" if there are none, or not known."""
    counts = {role: max(each.values(), default=0) for role, each in refused.items()}
    return ", ".join(f"{role} {count:,} packet{'s' if count > 1 else ''}" for role, count in counts.items() if count)


class HostCapture(BaseModel):
    """A capture at a host, `host-ROLE.pcap`: for documentation and cross-checks, and no part of the accounting."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    interface: str
    stamps: str
    """Who took its times: "host", the kernel; "adapter" or "adapter_unsynced", the card (pcap-tstamp(7))."""
    snaplen_bytes: int
    ring_bytes: int = 0
    """Of tcpdump's ring; 0: not known."""
    counters: CaptureCounters | None = None
    problem: str = ""
    """Why it has no counters, or is not complete."""
    clock: HostClock | None = None
    """The host's clock by the emulator's; of times by a card, this says nothing."""


class RunRecord(BaseModel):
    """One run. Times are nanoseconds of the rig's clock since 1970; on a virtual clock they are virtual."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    schema_version: int = SCHEMA_VERSION
    run_id: str
    sweep: str
    implementation: str
    title: str
    protocol: str
    file_size_bytes: int | None = None
    """None if the sender sent for a duration."""
    duration_ns: int | None = None
    """None if it sent a file."""
    channel_name: str = ""
    """The channel profile; "": the sweep gives delay, rate and packet error rate."""
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
    reason_code: ReasonCode | None = None
    """None: completed."""
    reason: str = ""
    attempt: int = 1
    """Counts from 1; runs are repeated by the rules in `orchestrator.results.repeat_rules`."""
    earlier_attempts: list[str] = []
    """Why each earlier attempt was repeated, oldest first; their files are in `attempts/RUN/N/`."""
    suspect: list[str] = []
    started_at_ns: int | None = None
    ended_at_ns: int | None = None
    file_delivered_at_ns: int | None = None
    file_sha256: str | None = None
    received_sha256: str | None = None
    present_bytes: int | None = None
    """The number of the file's bytes that the receiver has in their places; None: it has no file, or they were not
    compared."""
    received_bytes: int | None = None
    """The data that the receiver of a run for a duration received, as it reports; None of a file."""
    sender: Side = Side()
    receiver: Side = Side()
    parameters: dict[str, int | float | str] = {}
    """Parameters of the implementation in this run."""
    not_repeatable: str = ""
    """Why the same seed does not give the same packets on the clock exact; "": it does."""
    advertised: dict[str, float | None] = {}
    """Rate (None: unlimited), delay and round trip given to the implementation; the channel's by default."""
    session: WrittenSession = {}
    """Addresses, ports and groups of the run's packets in the captures."""
    channel: WrittenChannel | None = None
    """The channel in its written form, as read back from the kernel."""
    certificate: CertificateVerdict = ""
    timeline: dict[str, float] = {}
    """Of a channel that changes with time: `steps_applied`, and `latest_ns`, the delay of the latest step."""
    emulator_statistics: Statistics = {}
    captures: dict[str, CaptureCounters] = {}
    """tcpdump's own counters, by the role of the host at whose port it captured."""
    captures_sha256: dict[str, str] = {}
    """Digests of the complete captures, by the same roles, of a run on the clock exact that did not deliver: a further
    attempt is compared with it. {}: of any other."""
    capture_ring_bytes: int = 0
    """The size of tcpdump's ring at each port; 0: not known."""
    reconnections: dict[str, list[int]] = {}
    """On a lab rig, when SSH to a host was connected again after it was lost, by role, in ns since 1970 by the clock of
    the orchestrator. {}: it was not lost, or not known."""
    port_drops: dict[str, dict[str, int]] = {}
    """On a lab rig, frames that the emulator's cards dropped or missed during the run: by the role of the host at the
    port, and by the name of the counter below /sys/class/net. {}: not known."""
    host_captures: dict[str, HostCapture] = {}
    """By role; {}: none was requested."""
    host_refusals: dict[str, dict[str, int]] = {}
    """By role, packets that a program wanted to send and its host did not: `udp_refused`, datagrams for which a socket
    or the interface had no room, and `ip_discarded`, packets that IP did not send, those datagrams among them. {}: not
    known."""
    tcp: dict[str, HostTcp] = {}
    """By role, if the session has TCP ports."""
    machine_delay: MachineDelay | None = None
    """None on the clock exact, which the machine cannot delay, and for a run without packets."""
    versions: dict[str, str] = {}
    provenance: dict[str, str] = {}
    """Digests of the files of the machine that the packets depend on (`orchestrator.provenance`), by group; {}: not
    known. `machines/` of the results directory has the digest of each file."""
    machine: str = ""
    """The name of the machine that performed the run for `owlt run --dask`; "": that of `owlt run` itself."""
    kernel_hz: int | None = None


def write_record(record: RunRecord, directory: Path) -> Path:
    """Write `record.json` into the run's directory, atomically."""
    return write_whole(directory / RECORD_NAME, record.model_dump_json(indent=2) + "\n")


class DamagedRecord(ResultsConflict):
    """A record that cannot be read by any version of owlt."""


def read_record(directory: Path) -> RunRecord:
    """The record in a run's directory, upgraded if an older version of owlt wrote it.

    Raises DamagedRecord if it cannot be read, ResultsConflict if a newer version of owlt wrote it, FileNotFoundError if
    there is none.
    """
    path = directory / RECORD_NAME
    try:
        return RunRecord.model_validate(upgraded(read_json(path), RECORD_STEPS))
    except FileNotFoundError:
        raise
    except OSError as problem:
        raise DamagedRecord(f"{path}: damaged ({problem.strerror})") from problem
    except NewerVersion as newer:
        raise ResultsConflict(
            Mistake(f"a newer version of owlt wrote it ({newer})", fix=READ_WITH_ITS_VERSION, where=Place(str(path)))
        ) from newer
    except ValidationError as problem:
        errors = problem.errors()
        where = ".".join(map(str, errors[0]["loc"]))
        wrong = f"{f'{where}: ' if where else ''}{errors[0]['msg']}"
        if all(error["type"] == "extra_forbidden" for error in errors):
            other = f"{path}: another version of owlt wrote it ({wrong})"
            raise ResultsConflict(Mistake(other, fix=READ_WITH_ITS_VERSION)) from problem
        raise DamagedRecord(f"{path}: damaged ({wrong})") from problem
    except ValueError as problem:
        raise DamagedRecord(f"{path}: damaged ({problem})") from problem
