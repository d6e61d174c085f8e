"""The record of a run: how it ended and under which conditions, written last and atomically, for every run.

One model is written strictly and read leniently: files of older versions are upgraded, and a report ignores keys that
it does not know. A process reads a record once, and again if it changed. Everything derived from captures is in the
capture summary and can be computed again.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, JsonValue, ValidationError

from owlt.inputs.mistake import Mistake, Place, ResultsConflict
from owlt.inputs.quantities import IpVersion
from owlt.inputs.validation import first_error
from owlt.results.permutation import Permutation
from owlt.results.plain_files import FileName, read_json, write_whole
from owlt.results.upgrades import RECORD_STEPS, NewerVersion, current_version, upgraded


class ReasonCode(StrEnum):
    """The kind of a reason. Codes are never reused for another meaning, so scripts can rely on them."""

    # the implementation
    PART_OF_FILE = "part_of_file"
    """The receiver has a part of the file and nothing else."""
    WRONG_FILE = "wrong_file"
    """The receiver's file has other bytes."""
    NO_FILE = "no_file"
    """Both sides ended without an error, and the receiver does not have the file."""
    UNUSABLE_FILE = "unusable_file"
    """The receiver's file cannot be compared: it is not a regular file, is behind a symbolic link, or is a sparse file
    that is too large."""
    ENDED_EARLY = "ended_early"
    """The session ended before the duration for which the sender was to send."""
    NOTHING_REPORTED = "nothing_reported"
    """The receiver of a run for a duration did not report any data."""
    NOT_READY = "not_ready"
    """A side did not become ready, or did not answer in its dialogue."""
    EXITED = "exited"
    """A side ended with an exit status other than 0, or by a signal."""
    REPORTED_FAILURE = "reported_failure"
    """A side printed a line that its profile lists as a failure."""
    KILLED = "killed"
    """The rig ended a program that ran out of memory, or that was in an endless loop."""
    FLOODED = "flooded"
    """A side wrote too much output."""
    HOST_CHANGED = "host_changed"
    """A side with NET_ADMIN removed its host's test interface."""
    TIME_LIMIT = "time_limit"
    """The session did not end within its time limit, by the rig's clock."""
    HUNG = "hung"
    """The guest reported nothing for too long, in wall time; a failure of the implementation if its programs ran."""
    UNSUPPORTED = "unsupported"
    """A side ended with the exit status for permutations that it does not support."""
    BEYOND_LIMITS = "beyond_limits"
    """The permutation is beyond the limits in the implementation's profile, so it was not launched."""
    QUARANTINED = "quarantined"
    """The implementation had failed too often in a row, so it was not launched."""
    # the implementation's profile, or its installation
    PREPARATION = "preparation"
    """A command that prepares a host for the implementation failed."""
    NOT_INSTALLED = "not_installed"
    """A program of the implementation is missing on the host."""
    NOT_LOADED = "not_loaded"
    """A program of the implementation needs a library or program that is missing."""
    PROFILE = "profile"
    """The profile cannot be filled for this run."""
    # the rig
    NOT_CONFINED = "not_confined"
    """The host cannot confine a program."""
    CHANNEL_REFUSED = "channel_refused"
    """The kernel refused the channel."""
    CHANNEL_UNSUPPORTED = "channel_unsupported"
    """The emulator's kernel does not have what the channel needs."""
    EMULATOR = "emulator"
    """The emulator did not answer, or not as it should."""
    CAPTURE = "capture"
    """A capture did not start."""
    HOST = "host"
    """A command on a host failed, or the connection to it was lost."""
    FILES = "files"
    """A file or socket of the rig failed, such as on a full disk."""
    RIG_LOST = "rig_lost"
    """The run's guest or worker ended."""
    MACHINE_BUSY = "machine_busy"
    """Only of an attempt: other work on the machine disturbed the run."""
    DAMAGED = "damaged"
    """Only of an attempt: its record could not be read."""
    UNCLASSIFIED = "unclassified"
    """Recorded by a version of owlt without codes."""


SCHEMA_VERSION = current_version(RECORD_STEPS)
RECORD_NAME = "record.json"
SUMMARY, VIEW = "summary.json", "protocol.json"
"""Beside the record, made from the captures; `captures.accounting.summary` and `captures.protocols` have the models."""
READ_WITH_ITS_VERSION = "use the version of owlt that wrote it, or move the results directory away"
UNKNOWN = "unknown"
"""The version of an implementation that does not report one; the reason may follow."""
ON_THE_RECEIVER = "; on the receiver: "
"""Stands before the receiver's version if it differs from the sender's."""

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
    open_sockets: list[str] = []
    """Sockets of its host at the end of the session, before it was stopped, that were not there before the launch."""
    left_files: list[str] = []
    """Files with their sizes that it had written and not removed when it had ended, except the received file."""


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


class FaultCount(BaseModel):
    """One aimed fault of the channel, its class of packets and its action, how many packets of the class passed, and
    how many of them it hit."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    fault: str
    packet: str = "any"
    action: str
    seen: int
    hits: int


class FaultHit(BaseModel):
    """A packet that an aimed fault hit, `at_ns` after the launch: `fault` counts from 0, `occurrence` from 1. `head` is
    the beginning of the frame in hexadecimal digits, by which it is found in the capture."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    fault: int
    direction: Literal["forward", "reverse"]
    occurrence: int
    at_ns: int
    frame_bytes: int
    head: str


class Faults(BaseModel):
    """What the aimed faults of the channel hit, as the emulator reports it: the first 10,000 hits, and how many packets
    were held at the end. `started_at_ns` is the launch by the clock of the captures; 0: not known. `failure` says why
    it ended before the run did; "": it did not."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    faults: list[FaultCount]
    hits: list[FaultHit]
    held: int = 0
    started_at_ns: int = 0
    failure: str = ""


class MachineDelay(BaseModel):
    """Time that the machine, not the protocol, may have added to a session, from its first packet to its last.

    `results.judgements` has the limits.
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


@dataclass(frozen=True)
class CaptureCounters:
    """The packet counts that tcpdump writes at its end and upon SIGUSR1 (tcpdump(1), pcap_stats(3PCAP))."""

    captured: int
    received_by_filter: int
    dropped_by_kernel: int
    dropped_by_interface: int
    lost_by_tcpdump: int = 0
    """Packets that the kernel offered, and that were neither dropped by it nor captured: they were in the ring when
    tcpdump ended."""

    @property
    def drained(self) -> bool:
        """Whether no packet is left in the ring: each one that the kernel offered was captured or dropped.

        What is left there when SIGINT comes is lost, and tcpdump calls it neither captured nor dropped.
        """
        return self.captured + self.dropped_by_kernel == self.received_by_filter

    @property
    def complete(self) -> bool:
        """Whether every packet that the kernel offered is in the file."""
        return self.drained and self.dropped_by_kernel == self.dropped_by_interface == 0


@dataclass(frozen=True)
class HostClock:
    """The clock of a host by the emulator's: how far it was ahead at `at_ns`, the last reading, and what it gains.

    The readings are those of the block of runs so far: since the rig was raised. `drift_ppm` is what the clock gains,
    in µs a second, to `drift_error_ppm`; both are None if the readings span less than a second, or if no constant drift
    explains them: the clock was set or slewed.
    """

    at_ns: int
    offset_ns: int
    offset_error_ns: int
    readings: int
    span_ns: int
    drift_ppm: float | None = None
    drift_error_ppm: float | None = None


class HostCapture(BaseModel):
    """A capture at a host, `host-ROLE.pcap`: for documentation and cross-checks, and no part of the accounting."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    interface: str
    stamps: str
    """The source of its times: "host", the kernel; "adapter" or "adapter_unsynced", the card (pcap-tstamp(7))."""
    snaplen_bytes: int
    ring_bytes: int = 0
    """The size of tcpdump's ring; 0: not known."""
    counters: CaptureCounters | None = None
    problem: str = ""
    """Why it has no counters, or is not complete."""
    clock: HostClock | None = None
    """The host's clock by the emulator's; of times by a card, this says nothing."""


class RunRecord(BaseModel):
    """One run. Times are nanoseconds of the rig's clock since 1970; on a virtual clock they are virtual."""

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="strings")

    schema_version: Literal[13] = 13
    run_id: FileName
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
    ip: IpVersion = 4
    """The version of IP on the test path."""
    delay_ns: int
    rate_bps: float | None
    """None: unlimited."""
    packet_error_rate: float
    reverse_rate_bps: float | None = None
    """As in a permutation; also the next two."""
    reverse_delay_ns: int | None = None
    reverse_packet_error_rate: float | None = None
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
    """Counts from 1; runs are repeated by the rules in `results.judgements`."""
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
    """The timeline of a channel that changes with time: `steps_applied`, and `latest_ns`, the delay of the latest
    step."""
    faults: Faults | None = None
    """None: the channel has no aimed faults, or the run ended before."""
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
    """The captures at hosts, by role; {}: none was requested."""
    host_refusals: dict[str, dict[str, int]] = {}
    """By role, packets that a program wanted to send and its host did not: `udp_refused`, datagrams for which a socket
    or the interface had no room, and `ip_discarded`, packets that IP did not send, those datagrams among them. {}: not
    known."""
    tcp: dict[str, HostTcp] = {}
    """The TCP state of the hosts, by role, if the session has TCP ports."""
    machine_delay: MachineDelay | None = None
    """None on the clock exact, which the machine cannot delay, and for a run without packets."""
    versions: dict[str, str] = {}
    provenance: dict[str, str] = {}
    """Digests of the files of the machine that the packets depend on (`orchestrator.rigs.provenance`), by group; {}:
    not known. `machines/` of the results directory has the digest of each file."""
    machine: str = ""
    """The name of the machine that performed the run for `owlt run --dask`; "": that of `owlt run` itself."""
    kernel_hz: int | None = None

    @property
    def permutation(self) -> Permutation:
        """The point of the grid that the run repeats."""
        return Permutation(**{name: getattr(self, name) for name in Permutation.model_fields})

    @property
    def load_text(self) -> str:
        """The load in words, as of its permutation."""
        return self.permutation.load_text


def write_record(record: RunRecord, directory: Path) -> Path:
    """Write `record.json` into the run's directory, atomically."""
    return write_whole(directory / RECORD_NAME, record.model_dump_json(indent=2) + "\n")


class DamagedRecord(ResultsConflict):
    """A record that cannot be read by any version of owlt."""


Signature = tuple[int, int, int]
"""Identifies the state of a file: inode, time of its last change in ns, size.

A file that replaces another has another inode.
"""


def signature(path: Path | str) -> Signature | None:
    """The signature of a file, which differs after it is changed or replaced; None if there is no such file."""
    try:
        status = os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size


_known: dict[str, tuple[Signature, RunRecord]] = {}
"""The records that this process has read, by their paths: a command that asks for a record twice reads it once."""


def load_record(directory: Path, ignore_unknown: bool = False) -> RunRecord:
    """The record in a run's directory, upgraded if an older version of owlt wrote it; read again only if it changed.

    `ignore_unknown`: keys that this version of owlt does not know are ignored. Raises what `read_json`, `upgraded` and
    the check of the model raise, of which `read_record` makes messages.
    """
    path = f"{directory}/{RECORD_NAME}"  # a Path takes longer than the call that follows
    found = signature(path)
    known = _known.get(path)
    if known is not None and known[0] == found:
        return known[1]
    values = upgraded(read_json(path), RECORD_STEPS)
    try:
        record = RunRecord.model_validate(values)
    except ValidationError as problem:
        if not ignore_unknown or not _has_unknown_keys_only(problem):
            raise
        return RunRecord.model_validate(values, extra="ignore")
    if found is not None:
        _known[path] = found, record
    return record


def _has_unknown_keys_only(problem: ValidationError) -> bool:
    return all(error["type"] == "extra_forbidden" for error in problem.errors())


def read_record(directory: Path) -> RunRecord:
    """The record in a run's directory, upgraded if an older version of owlt wrote it.

    Raises DamagedRecord if it cannot be read, ResultsConflict if a newer version of owlt wrote it, FileNotFoundError if
    there is none.
    """
    path = directory / RECORD_NAME
    try:
        return load_record(directory)
    except FileNotFoundError:
        raise
    except OSError as problem:
        raise DamagedRecord(f"{path}: damaged ({problem.strerror})") from problem
    except NewerVersion as newer:
        raise ResultsConflict(
            Mistake(f"a newer version of owlt wrote it ({newer})", fix=READ_WITH_ITS_VERSION, where=Place(str(path)))
        ) from newer
    except ValidationError as problem:
        wrong = ": ".join(filter(None, first_error(problem)))
        if _has_unknown_keys_only(problem):
            other = f"{path}: another version of owlt wrote it ({wrong})"
            raise ResultsConflict(Mistake(other, fix=READ_WITH_ITS_VERSION)) from problem
        raise DamagedRecord(f"{path}: damaged ({wrong})") from problem
    except ValueError as problem:
        raise DamagedRecord(f"{path}: damaged ({problem})") from problem
