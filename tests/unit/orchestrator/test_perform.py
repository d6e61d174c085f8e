"""A whole run on a rig in memory: every outcome, with its reason, and what stays behind."""

from __future__ import annotations

import stat
from collections.abc import Callable
from dataclasses import astuple, replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from owlt.agents.contract.implementation import Role
from owlt.captures.files.tcpdump_command import IN_BLOCKS_RING_BYTES, LEAST_RING_BYTES, MOST_RING_BYTES, ring_bytes_of
from owlt.emulator.channel.link import LinkSpec
from owlt.emulator.channel.spec import ChannelSpec
from owlt.emulator.faults import ChannelRefused
from owlt.orchestrator.errors import SweepMistake
from owlt.orchestrator.hosts.confinement import CANNOT_CONFINE, LEFT, NOT_CONFINED
from owlt.orchestrator.hosts.host_clock import ClockReading, HostClocks, clock_of
from owlt.orchestrator.rigs.rig import CARD_RATE_BPS, RECEIVER_ADDRESS, TEST_INTERFACE, HostConditions
from owlt.orchestrator.rigs.timed_waits import WaitRecorder
from owlt.orchestrator.run.analysis import expected_of, links_of
from owlt.orchestrator.run.left_files import MOST_LEFT
from owlt.orchestrator.run.observing import ring_bytes_for
from owlt.orchestrator.run.staging import file_content
from owlt.results.certificates import Certified
from owlt.results.record import HostClock, Outcome, ReasonCode, read_record
from owlt.results.waits import RunWaits, TimedWait, summarised
from tests.memory.commands import failed
from tests.memory.emulator import MemoryEmulator
from tests.memory.files import Entry
from tests.memory.host import MemoryHost
from tests.memory.process import Process, printing
from tests.memory.rig import MemoryRig
from tests.unit.orchestrator import making
from tests.unit.orchestrator.performing import COPY, PORT, Stage, send, take
from tests.unit.results.test_waits import read_waits

SIZE_BYTES = 100_000
AT_ONCE = {"rtts": 0, "file_times": 0, "extra_s": 0.09}
"""The time limit of a run that can only time out: little more than its file takes at the line rate."""


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path / "run")


def side(name: str, **changes: Any) -> dict[str, Any]:
    """The implementation with a side changed."""
    return {name: COPY[name] | changes}


def taking(change: Callable[[bytes], bytes]) -> Callable[[Process], int]:
    """A receiver that writes something else than it received."""

    def script(process: Process) -> int:
        process.print("ready")
        process.write_file(process.arguments[0], change(process.receive(RECEIVER_ADDRESS, PORT)))
        return 0

    return script


def test_a_run_whose_file_arrives_is_completed(stage: Stage) -> None:
    done = stage.perform()

    assert (done.record.outcome, done.record.reason, done.record.suspect) == (Outcome.COMPLETED, "", [])
    assert done.record.file_sha256 == done.record.received_sha256
    assert done.phases == ["stage", "configure", "capture", "launch", "transfer", "stop", "fetch"]


def test_a_record_is_kept_beside_the_captures_and_the_logs(stage: Stage) -> None:
    done = stage.perform()

    assert read_record(done.directory) == done.record
    assert {path.name for path in done.directory.iterdir()} == {
        "record.json",
        *(f"{role}.{suffix}" for role in ("sender", "receiver") for suffix in ("out", "err", "pcap")),
        *(f"capture-{role}.{suffix}" for role in ("sender", "receiver") for suffix in ("out", "err")),
        *(f"watch.{suffix}" for suffix in ("out", "err")),
    }
    assert (done.directory / "sender.out").read_text() == "sent\n"


def test_the_time_of_delivery_is_that_of_the_last_change_of_the_file(stage: Stage) -> None:
    record = stage.perform().record

    assert record.started_at_ns is not None and record.file_delivered_at_ns is not None
    assert record.started_at_ns <= record.file_delivered_at_ns


def test_nothing_of_a_run_stays_on_its_hosts_but_the_test_file(stage: Stage) -> None:
    stage.perform()

    assert stage.rig.sender.files.below("/owlt") == [f"/owlt/file-{SIZE_BYTES}.bin"]
    assert stage.rig.receiver.files.below("/owlt") == []
    assert stage.rig.middle.files.below("/owlt") == []


def test_the_channel_of_a_run_is_applied_with_its_seeds(stage: Stage) -> None:
    stage.sweep = {"packet_error_rate": 0.01}
    channel = ChannelSpec.from_wire(stage.perform().record.channel)

    assert (channel.forward.delay_ns, channel.forward.rate_bps) == (25_000_000, 1e7)
    assert channel.forward.seed is not None
    assert stage.rig.rig.channel.describe() == channel


@pytest.mark.parametrize(
    ("channel", "expected"),
    [
        ({"forward": {"mtu": "9000 B"}, "reverse": {"mtu": "9000 B"}}, 9000),
        ({"forward": {"mtu": "9000 B"}, "reverse": {"mtu": "4500 B"}}, 4500),
        ({"forward": {"mtu": "9000 B"}}, None),
        ({"forward": {"mtu": "1280 B"}, "reverse": {"mtu": "9000 B"}}, None),
    ],
)
def test_the_interfaces_have_the_mtu_of_the_channel_during_a_run(
    stage: Stage, channel: dict[str, Any], expected: int | None
) -> None:
    stage.channels = {"jumbo": ChannelSpec.from_wire(channel)}
    stage.sweep = {"channel": "jumbo", "rate": None, "delay": None, "packet_error_rate": None}
    interfaces = {"sender": ["test0"], "receiver": ["test0"], "emulator": ["to-sender", "to-receiver"]}
    hosts = (stage.rig.sender, stage.rig.receiver, stage.rig.middle)
    during = dict[str, dict[str, int]]()

    def look(phase: str) -> None:
        if phase == "transfer":
            during.update({host.role: dict(host.mtus) for host in hosts})

    record = stage.perform(look).record

    assert record.outcome is Outcome.COMPLETED
    assert during == {role: dict.fromkeys(names, expected) if expected else {} for role, names in interfaces.items()}
    assert {mtu for host in hosts for mtu in host.mtus.values()} == ({1500} if expected else set())
    assert expected_of(record).mtu_bytes == (expected or 1500)


def test_what_the_stages_counted_before_the_captures_is_taken_off(stage: Stage) -> None:
    def count(phase: str) -> None:
        if phase == "capture":
            stage.rig.emulator.count("forward", "pipe", packets=7)
        if phase == "transfer":
            stage.rig.emulator.count("forward", "pipe", packets=70)

    done = stage.perform(count)

    assert done.record.emulator_statistics["forward"]["pipe"]["packets"] == 70


def test_a_file_with_a_wrong_byte_is_corrupt(stage: Stage) -> None:
    stage.receiver = taking(lambda content: content[:500] + bytes([content[500] ^ 1]) + content[501:])
    record = stage.perform().record

    assert (record.outcome, record.reason_code) == (Outcome.CORRUPT, ReasonCode.WRONG_FILE)
    assert "it has 100,000 bytes of 100,000, and the first wrong one is at 500" in record.reason
    assert record.received_sha256 not in ("", record.file_sha256)


def test_a_file_that_is_too_long_is_corrupt(stage: Stage) -> None:
    stage.receiver = taking(lambda content: content + b"more")

    assert stage.perform().record.outcome is Outcome.CORRUPT


def test_a_part_of_the_file_is_incomplete(stage: Stage) -> None:
    stage.receiver = taking(lambda content: content[:60_000])
    record = stage.perform().record

    assert (record.outcome, record.reason_code) == (Outcome.INCOMPLETE, ReasonCode.PART_OF_FILE)
    assert "the receiver has the first 60,000 of 100,000 bytes" in record.reason


def test_a_side_that_gives_up_with_a_part_of_the_file_is_incomplete(stage: Stage) -> None:
    def give_up(process: Process) -> int:
        taking(lambda content: content[:10_000])(process)
        return 3

    stage.receiver = give_up
    record = stage.perform().record

    assert (record.outcome, record.reason_code) == (Outcome.INCOMPLETE, ReasonCode.PART_OF_FILE)
    assert "the receiver exited with status 3" in record.reason


def test_a_session_that_ends_well_without_a_file_has_failed_and_names_what_is_there(stage: Stage) -> None:
    def forget(process: Process) -> int:
        process.print("ready")
        process.receive(RECEIVER_ADDRESS, PORT)
        process.write_file("other.bin", b"12345")
        return 0

    stage.receiver = forget
    record = stage.perform().record

    assert (record.outcome, record.reason_code) == (Outcome.FAILED, ReasonCode.NO_FILE)
    assert "the receiver has no file: expected received.bin; in its run directory: other.bin (5 bytes)" in record.reason


def test_an_empty_file_has_failed(stage: Stage) -> None:
    stage.receiver = taking(lambda content: b"")
    record = stage.perform().record

    assert (record.outcome, "none of 100,000 bytes" in record.reason) == (Outcome.FAILED, True)


def test_a_link_in_place_of_the_file_has_failed_and_is_not_followed(stage: Stage) -> None:
    def link(process: Process) -> int:
        process.print("ready")
        process.receive(RECEIVER_ADDRESS, PORT)
        process.host.files.link(process.arguments[0], "/etc/passwd")
        return 0

    stage.receiver = link
    record = stage.perform().record

    assert (record.outcome, record.reason_code) == (Outcome.FAILED, ReasonCode.UNUSABLE_FILE)
    assert "is a symbolic link, not a regular file" in record.reason


def test_a_sparse_file_larger_than_the_run_directory_has_failed(stage: Stage) -> None:
    def allocate(process: Process) -> int:
        process.print("ready")
        process.receive(RECEIVER_ADDRESS, PORT)
        process.host.files.place(process.arguments[0], Entry(stat.S_IFREG | 0o644, size_bytes=10**12))
        return 0

    stage.receiver = allocate
    record = stage.perform().record

    assert (record.outcome, "is a sparse file of 1000000000000 bytes" in record.reason) == (Outcome.FAILED, True)


def test_a_side_that_exits_badly_before_anything_came_has_failed_with_its_last_line(stage: Stage) -> None:
    def crash(process: Process) -> int:
        process.complain("no route to Mars")
        return 2

    stage.sender = stage.receiver = crash
    record = stage.perform().record

    assert (record.outcome, record.reason_code) == (Outcome.FAILED, ReasonCode.EXITED)
    assert "exited with status 2; its last line: 'no route to Mars'" in record.reason


def test_a_side_that_prints_its_failed_line_has_failed_with_that_line(stage: Stage) -> None:
    stage.implementation = side("sender", failed_line="^put failed") | {"time_limit": AT_ONCE}
    stage.sender = printing("put failed: no room", forever=True)
    record = stage.perform().record

    assert (record.outcome, record.reason_code) == (Outcome.FAILED, ReasonCode.REPORTED_FAILURE)
    assert "the sender says that it failed: 'put failed: no room'" in record.reason


def test_a_side_that_prints_its_done_line_has_ended(stage: Stage) -> None:
    def stay(process: Process) -> int | None:
        send(process)
        process.wait_for_signal()

    stage.implementation = side("sender", done_line="^sent$")
    stage.sender = stay
    record = stage.perform().record

    assert record.outcome is Outcome.COMPLETED
    assert record.sender is not None and record.sender.stopped


def test_a_run_is_over_with_the_delivery_of_its_file_where_the_implementation_says_so(stage: Stage) -> None:
    def stay(process: Process) -> int | None:
        take(process)
        process.wait_for_signal()

    stage.implementation = {"done": "file_delivered"}
    stage.receiver = stay
    record = stage.perform().record

    assert record.outcome is Outcome.COMPLETED
    assert record.receiver is not None and record.receiver.stopped


def test_a_run_past_its_time_limit_has_timed_out_and_names_the_side_that_is_late(stage: Stage) -> None:
    stage.implementation = {"time_limit": AT_ONCE}
    stage.sender = printing("resending", forever=True)
    record = stage.perform().record

    assert (record.outcome, record.reason_code) == (Outcome.TIMED_OUT, ReasonCode.TIME_LIMIT)
    assert "the sender had not ended 0.09 s after the launch" in record.reason
    assert "'resending'" in record.reason


def test_a_run_that_timed_out_says_what_had_come(stage: Stage) -> None:
    def stall(process: Process) -> int | None:
        taking(lambda content: content[:10_000])(process)
        process.wait_for_signal()

    stage.implementation = {"time_limit": AT_ONCE}
    stage.receiver = stall
    record = stage.perform().record

    assert record.outcome is Outcome.TIMED_OUT
    assert "the receiver has the first 10,000 of 100,000 bytes" in record.reason


def test_a_process_that_a_signal_has_stopped_is_named_when_a_run_times_out(stage: Stage) -> None:
    stage.implementation = {"time_limit": AT_ONCE}
    stage.sender = printing(forever=True)
    stage.rig.sender.stopped = ["send"]

    assert "stopped by a signal: send" in stage.perform().record.reason


def test_a_side_that_is_not_ready_in_time_has_failed(stage: Stage) -> None:
    stage.implementation = side("receiver", ready={"line": "^ready$", "within_s": 0.05})
    stage.receiver = printing("warming up", forever=True)
    record = stage.perform().record

    assert (record.outcome, record.reason_code) == (Outcome.FAILED, ReasonCode.NOT_READY)
    assert "the receiver was not ready after 0.05 s: waited for a line that matches '^ready$'" in record.reason


@pytest.mark.parametrize("kind", ["udp", "tcp", "sctp"])
def test_a_side_is_ready_when_its_port_is_bound(stage: Stage, kind: str) -> None:
    def bind(process: Process) -> int:
        process.host.bound.add((kind, PORT))
        return take(process)

    stage.implementation = side("receiver", ready={f"{kind}_port": PORT})
    stage.receiver = bind

    assert stage.perform().record.outcome is Outcome.COMPLETED


def test_a_port_that_is_never_bound_is_awaited_no_longer_than_that(stage: Stage) -> None:
    stage.implementation = side("receiver", ready={"udp_port": PORT, "within_s": 0.05})
    record = stage.perform().record

    assert (record.outcome, f"UDP port {PORT} to be bound" in record.reason) == (Outcome.FAILED, True)


def test_a_side_is_ready_when_its_file_exists(stage: Stage) -> None:
    def touch(process: Process) -> int:
        process.write_file("up", b"")
        return take(process)

    stage.implementation = side("receiver", ready={"file": "up"})
    stage.receiver = touch

    assert stage.perform().record.outcome is Outcome.COMPLETED


def test_a_side_is_typed_to(stage: Stage) -> None:
    def ask(process: Process) -> int:
        process.write(b"file> ")
        assert process.read_line() == "go"
        return send(process)

    stage.implementation = side("sender", dialogue=[{"expect": "file> ", "send": "go"}])
    stage.sender = ask

    assert stage.perform().record.outcome is Outcome.COMPLETED


def test_a_side_that_does_not_answer_in_its_dialogue_has_failed(stage: Stage) -> None:
    stage.implementation = side("sender", dialogue=[{"expect": "file> ", "within_s": 0.05}])
    stage.sender = printing("hello", forever=True)
    record = stage.perform().record

    assert (record.outcome, record.reason_code) == (Outcome.FAILED, ReasonCode.NOT_READY)
    assert "the sender did not print 'file> ' within 0.05 s of its dialogue" in record.reason


def test_a_side_is_stopped_with_the_line_that_its_profile_gives(stage: Stage) -> None:
    def stay(process: Process) -> int:
        process.write(b"> ")
        send(process)
        assert process.read_line() == "quit"
        return 0

    stop = {"dialogue": [{"expect": "> "}], "stop": {"send": "quit"}, "done_line": "sent"}
    stage.implementation = side("sender", **stop)
    stage.sender = stay
    record = stage.perform().record

    assert record.outcome is Outcome.COMPLETED
    assert record.sender is not None
    assert (record.sender.exit_status, record.sender.stopped) == (0, True)


def test_a_file_beyond_the_limits_of_an_implementation_is_unsupported_and_nothing_is_launched(stage: Stage) -> None:
    stage.implementation = {"limits": {"largest_file_bytes": 1000}}
    done = stage.perform()

    assert (done.record.outcome, done.record.reason_code) == (Outcome.UNSUPPORTED, ReasonCode.BEYOND_LIMITS)
    assert "largest_file_bytes is 1000" in done.record.reason
    assert done.phases == ["stage"]
    assert stage.rig.sender.processes == {}


def test_a_side_that_ends_with_the_status_for_it_is_unsupported(stage: Stage) -> None:
    stage.implementation = {"unsupported_exit_status": 77, "time_limit": AT_ONCE}
    stage.sender = printing("no such rate", exit_status=77)
    record = stage.perform().record

    assert (record.outcome, "'no such rate'" in record.reason) == (Outcome.UNSUPPORTED, True)


def test_a_setting_that_the_kernel_does_not_have_is_unsupported(stage: Stage) -> None:
    stage.implementation = side("sender", sysctls={"net.ipv4.tcp_warp": "1"})
    record = stage.perform().record

    assert (record.outcome, record.reason_code) == (Outcome.UNSUPPORTED, ReasonCode.PREPARATION)
    assert "cannot stat /proc/sys/net/ipv4/tcp_warp" in record.reason


def test_settings_routes_and_cards_are_those_of_the_profile_and_are_put_back(stage: Stage) -> None:
    during = dict[str, Any]()

    def look(process: Process) -> int:
        host = process.host
        during.update(sysctls=dict(host.sysctls), routes=list(host.routes), card=host.qdiscs["test0"])
        return send(process)

    settings = {
        "sysctls": {"net.ipv4.tcp_sack": "0", "net.core.rmem_max": ""},
        "route": {"initcwnd": "40", "mtu": ""},
        "card_rate_bps": 5e6,
    }
    stage.implementation = side("sender", **settings)
    stage.sender = look
    stage.rig.sender.sysctls["net.ipv4.tcp_sack"] = "1"
    record = stage.perform().record

    assert record.outcome is Outcome.COMPLETED
    assert during["sysctls"] == {"net.ipv4.tcp_sack": "0"}
    assert during["routes"] == ["10.77.0.2 dev test0 src 10.77.0.1 initcwnd 40"]
    assert during["card"].startswith("tbf rate 5000000bit")
    assert stage.rig.sender.sysctls == {"net.ipv4.tcp_sack": "1"}
    assert stage.rig.sender.routes == []
    assert stage.rig.sender.qdiscs["test0"].startswith("tbf rate 1000000000bit")


def test_files_of_a_side_are_there_before_its_commands_and_these_before_its_program(stage: Stage) -> None:
    def prepare(process: Process) -> int:
        process.write_file("ready", process.read_file("conf/settings") + b" read")
        return 0

    def look(process: Process) -> int:
        assert process.read_file("ready") == b"rate 10000000 read"
        return send(process)

    stage.implementation = side("sender", files={"conf/settings": "rate {{ rate_bps }}"}, prepare=[["prepare"]])
    stage.sender = look
    stage.rig.sender.install("/usr/bin/prepare", prepare)

    assert stage.perform().record.outcome is Outcome.COMPLETED


def test_a_command_before_the_launch_that_fails_is_reported_with_its_last_line(stage: Stage) -> None:
    def prepare(process: Process) -> int:
        process.complain("no key")
        return 4

    stage.implementation = side("sender", prepare=[["prepare", "keys"]])
    stage.rig.sender.install("/usr/bin/prepare", prepare)
    record = stage.perform().record

    assert (record.outcome, record.reason_code) == (Outcome.FAILED, ReasonCode.PREPARATION)
    assert "the sender's host: prepare keys exited with status 4: no key" in record.reason


def test_a_command_before_the_launch_that_never_ends_is_reported_as_such(stage: Stage) -> None:
    stage.implementation = side("sender", prepare=[["prepare"]])
    stage.rig.sender.install("/usr/bin/prepare", printing("waiting", forever=True))

    assert "prepare did not finish within 600 s: waiting" in stage.perform().record.reason


def test_a_profile_that_cannot_be_filled_is_aborted(stage: Stage) -> None:
    stage.implementation = side("receiver", ready={"udp_port": "{rate_bps}"})
    record = stage.perform().record

    assert (record.outcome, record.reason_code) == (Outcome.ABORTED, ReasonCode.PROFILE)
    assert "profile cannot be filled for this run: " in record.reason


def test_a_program_that_a_host_has_not_is_aborted_with_what_to_do(stage: Stage) -> None:
    stage.implementation = {
        "binary": COPY["binary"] | {"proxy": {"search": ["proxy"], "fix": "apt install proxy"}},
        "sender": {"command": ["{proxy}", "{send}", "{file}"]},
    }
    record = stage.perform().record

    assert (record.outcome, record.reason_code) == (Outcome.ABORTED, ReasonCode.NOT_INSTALLED)
    assert "proxy is missing on the sender (searched: proxy)" in record.reason
    assert "apt install proxy" in record.reason


@pytest.mark.parametrize(
    "message",
    ["send: error while loading shared libraries: libion.so: cannot open", "sh: 1: bpsendfile: not found"],
    ids=["by the loader", "by a shell"],
)
def test_a_program_that_cannot_be_loaded_is_aborted(stage: Stage, message: str) -> None:
    def unloadable(process: Process) -> int:
        process.complain(message)
        return 127

    stage.sender = unloadable
    stage.implementation = {"time_limit": AT_ONCE}

    assert stage.perform().record.outcome is Outcome.ABORTED


@pytest.mark.parametrize(
    ("is_sender", "why"), [(True, "the sender ended before it sent one"), (False, "the sender was not launched")]
)
def test_a_sender_that_ends_before_its_first_packet_or_is_not_launched_is_expected_to_be_silent(
    stage: Stage, is_sender: bool, why: str
) -> None:
    def broken(process: Process) -> int:
        return 1

    stage.sender, stage.receiver = (broken, take) if is_sender else (send, broken)
    stage.implementation = {"time_limit": AT_ONCE}

    assert expected_of(stage.perform().record).why_silent == why


@pytest.mark.parametrize("is_pair", [True, False])
@pytest.mark.parametrize("message", ["no program listens on 10.77.0.2:5001", "connect(): Connection refused"])
def test_a_pair_whose_sides_do_not_meet_is_told_where_their_port_is_stated(
    stage: Stage, message: str, is_pair: bool
) -> None:
    def refused(process: Process) -> int:
        process.complain(message)
        return 1

    stage.sender = refused
    pair = {"pair": {"family": "Copy", "sender": COPY, "receiver": COPY}} if is_pair else {}
    stage.implementation = {"time_limit": AT_ONCE, **pair}

    assert ("under 'pairing' in their profiles" in stage.perform().record.reason) is is_pair


@pytest.mark.parametrize(
    ("message", "place"),
    [
        ("owlt: /tmp/mine: there is no such program on this host", "/tmp"),
        ("python3: can't open file '/var/tmp/mine.py': [Errno 2] No such file or directory", "/var/tmp"),
        ("sh: 1: exec: /opt/tmp/mine: not found", None),
        ("cannot write /tmp/log: the disk is full", None),
    ],
)
def test_a_program_in_a_directory_that_is_empty_in_a_run_is_told_to_be_elsewhere(
    stage: Stage, message: str, place: str | None
) -> None:
    def missing(process: Process) -> int:
        process.complain(message)
        return 2

    stage.sender = missing
    stage.implementation = {"time_limit": AT_ONCE}
    _, _, advice = stage.perform().record.reason.partition(f"its last line: {message!r}")

    assert advice.partition(": move")[0] == (f"; {place} is empty in a run" if place else "")


def test_a_host_that_cannot_confine_a_program_is_aborted(stage: Stage) -> None:
    def unconfined(process: Process) -> int:
        process.complain(f"{CANNOT_CONFINE}: its shared memory")
        return NOT_CONFINED

    stage.sender = unconfined
    stage.implementation = {"time_limit": AT_ONCE}
    record = stage.perform().record

    assert (record.outcome, "the sender was not started" in record.reason) == (Outcome.ABORTED, True)


def test_a_channel_that_the_emulator_refuses_is_aborted(stage: Stage) -> None:
    stage.rig.emulator.refusals.append(ChannelRefused("no room for a qdisc"))
    done = stage.perform()

    assert (done.record.outcome, done.record.reason_code) == (Outcome.ABORTED, ReasonCode.CHANNEL_REFUSED)
    assert done.record.reason == "the emulator refused the channel: no room for a qdisc"
    assert done.phases == ["stage", "configure"]


def test_a_channel_that_the_kernel_cannot_make_is_aborted(tmp_path: Path) -> None:
    stage = Stage(tmp_path / "run", rig=MemoryRig(MemoryEmulator(missing={"netem": "no module"})))
    record = stage.perform().record

    assert (record.outcome, record.reason_code) == (Outcome.ABORTED, ReasonCode.CHANNEL_UNSUPPORTED)
    assert "netem (no module)" in record.reason


def test_a_run_whose_channel_is_refused_is_not_suspect_for_the_certificate(stage: Stage) -> None:
    stage.certificates = {"": Certified(verdict="incomplete", suspicion=["forward: the channel was not measured"])}
    stage.rig.emulator.refusals.append(ChannelRefused("no room for a qdisc"))
    record = stage.perform().record

    assert (record.certificate, record.suspect) == ("incomplete", [])


def test_a_host_that_is_lost_is_aborted(stage: Stage) -> None:
    def lose(phase: str) -> None:
        if phase == "transfer":
            stage.rig.receiver.lose()

    record = stage.perform(lose).record

    assert (record.outcome, record.reason_code) == (Outcome.ABORTED, ReasonCode.HOST)
    assert record.reason.startswith("the rig failed: receiver: the connection was lost before")


def test_an_emulator_that_is_lost_is_aborted(stage: Stage) -> None:
    def lose(phase: str) -> None:
        if phase == "transfer":
            stage.rig.transport.lost = ConnectionResetError("reset by peer")

    record = stage.perform(lose).record

    assert (record.outcome, "reset by peer" in record.reason) == (Outcome.ABORTED, True)


def test_a_capture_that_does_not_start_is_aborted(stage: Stage) -> None:
    def refused(process: Process) -> int:
        process.complain("tcpdump: to-sender: No such device exists")
        return 1

    stage.rig.middle.install("/usr/bin/tcpdump", refused)
    record = stage.perform().record

    assert (record.outcome, record.reason_code) == (Outcome.ABORTED, ReasonCode.CAPTURE)
    assert record.reason == (
        "the capture at the sender's port did not start: tcpdump: to-sender: No such device exists"
    )


def test_a_capture_that_lost_packets_makes_a_run_suspect(stage: Stage) -> None:
    def drop(process: Process) -> int | None:
        def count() -> None:
            for number, text in ((9, "captured"), (10, "received by filter"), (1, "dropped by kernel")):
                process.complain(f"{number} packets {text}")

        def end() -> None:
            count()
            process.exit(0)

        process.on("USR1", count)
        process.on("INT", end)
        process.write_file(process.arguments[-1], b"")
        process.complain("tcpdump: listening on x, link-type EN10MB (Ethernet)")
        process.wait_for_signal()

    stage.rig.middle.install("/usr/bin/tcpdump", drop)
    record = stage.perform().record

    assert record.outcome is Outcome.COMPLETED
    assert [sentence.partition(":")[0] for sentence in record.suspect] == [
        f"the capture at the {role}'s port is not complete" for role in ("sender", "receiver")
    ]


@pytest.mark.parametrize("phase_of_death", ["transfer", "stop"])
def test_a_capture_that_ends_early_aborts_the_run_and_keeps_its_other_results(
    stage: Stage, phase_of_death: str
) -> None:
    """It is then attempted again, as after any fault of the rig."""

    def die(phase: str) -> None:
        if phase == phase_of_death:
            for process in stage.rig.middle.processes.values():
                process.end(139)

    done = stage.perform(die)

    assert (done.record.outcome, done.record.reason_code) == (Outcome.ABORTED, ReasonCode.CAPTURE)
    assert done.record.reason.startswith(
        "the capture at the sender's port: tcpdump's stderr: no line with packets capt"
    )
    assert "; the capture at the receiver's port: tcpdump's stderr: no line" in done.record.reason
    assert done.phases[-1] == "fetch"


class SetClock(HostConditions):
    """Machines of which one has set its clock, each with 1 GB of free space unless the test says otherwise."""

    def __init__(self, **free_bytes: int) -> None:
        self._free_bytes = dict.fromkeys(("sender", "emulator", "receiver"), 10**9) | free_bytes

    def begin(self) -> None:
        """Its clock is right."""

    def free_bytes(self) -> dict[str, int]:
        return self._free_bytes

    def doubts(self) -> list[str]:
        return ["the clock of the receiver was set"]

    def take_reconnections(self) -> dict[str, list[int]]:
        return {"receiver": [5]}

    def port_drops(self) -> dict[str, dict[str, int]]:
        return {"sender": {"rx_missed_errors": 3}}


@pytest.fixture
def machines(stage: Stage) -> Stage:
    """A rig of machines of their own. The emulator's disk has 1 GB of free space."""
    stage.rig.rig = replace(stage.rig.rig, conditions=SetClock(), has_machines=True)
    stage.rig.middle.install("/usr/bin/df", printing("Avail\n1000000000"))
    return stage


def test_what_makes_times_on_the_hosts_doubtful_makes_a_run_suspect(machines: Stage) -> None:
    record = machines.perform().record

    assert (record.outcome, record.suspect) == (Outcome.COMPLETED, ["the clock of the receiver was set"])
    assert (record.port_drops, record.reconnections) == ({"sender": {"rx_missed_errors": 3}}, {"receiver": [5]})


def count_refusals(host: MemoryHost, udp: int, udp6: int, discarded: int) -> None:
    """What a host's kernel has refused to send since it began."""
    host.files.make_directory("/proc/net")
    ip, datagrams = f"Ip: InReceives OutDiscards\nIp: 7 {discarded}\n", f"Udp: SndbufErrors Mem\nUdp: {udp} 9\n"
    host.files.write("/proc/net/snmp", (ip + datagrams).encode())
    host.files.write("/proc/net/snmp6", f"Ip6OutDiscards 0\nUdp6SndbufErrors {udp6}\n".encode())


def test_the_record_has_the_packets_that_a_host_refused_to_send_during_the_run(stage: Stage) -> None:
    def send_too_much(process: Process) -> int:
        count_refusals(stage.rig.sender, udp=1000, udp6=4, discarded=2)
        return send(process)

    for host in (stage.rig.sender, stage.rig.receiver):
        count_refusals(host, udp=112, udp6=0, discarded=2)
    stage.sender = send_too_much
    record = stage.perform().record

    assert record.host_refusals == {
        "sender": {"udp_refused": 892, "ip_discarded": 0},
        "receiver": {"udp_refused": 0, "ip_discarded": 0},
    }


def test_a_host_that_counts_no_refusals_has_none_in_the_record(stage: Stage) -> None:
    assert stage.perform().record.host_refusals == {}


def test_the_record_states_how_much_of_the_file_the_receiver_has(stage: Stage) -> None:
    def take_a_part(process: Process) -> int:
        process.print("ready")
        content = process.receive(RECEIVER_ADDRESS, PORT)
        process.write_file(process.arguments[0], content[:1000])
        return 3

    assert stage.perform().record.present_bytes == 100_000
    stage.receiver = take_a_part
    record = stage.perform().record

    assert (record.outcome, record.present_bytes) == (Outcome.INCOMPLETE, 1000)


def test_the_record_states_the_ring_of_the_captures(stage: Stage) -> None:
    stage.sweep = {"rate": "unlimited"}
    record = stage.perform().record

    started = [process.arguments for process in stage.rig.middle.processes.values()]
    commands = [arguments for arguments in started if "-B" in arguments]
    assert [command[command.index("-B") + 1] for command in commands] == [str(record.capture_ring_bytes >> 10)] * 2
    assert record.capture_ring_bytes == ring_bytes_of(CARD_RATE_BPS, 2048) > LEAST_RING_BYTES


def test_the_ring_is_for_the_highest_rate_of_the_channel() -> None:
    slow, fast = LinkSpec(rate_bps=1e6), LinkSpec(rate_bps=10e9)

    assert ring_bytes_for(ChannelSpec(forward=slow, reverse=fast), "real", 2048) == MOST_RING_BYTES
    assert ring_bytes_for(ChannelSpec(forward=slow, reverse=slow), "real", 2048) == LEAST_RING_BYTES
    assert ring_bytes_for(ChannelSpec(forward=slow, reverse=fast), "exact", 2048) == IN_BLOCKS_RING_BYTES


def test_a_run_that_may_fill_the_disk_of_a_host_is_not_launched(machines: Stage) -> None:
    machines.rig.rig = replace(machines.rig.rig, conditions=SetClock(emulator=400_000))
    done = machines.perform()

    assert (done.record.outcome, done.record.reason_code) == (Outcome.ABORTED, ReasonCode.CAPTURE)
    problem = (
        "not launched: the emulator has 0.4 MB free at /owlt, and this run may need 0.5 MB: free space in /var/lib"
    )
    assert done.record.reason.startswith(problem)
    assert "launch" not in done.phases


def test_a_run_after_which_the_emulators_disk_is_full_is_aborted(machines: Stage) -> None:
    machines.rig.middle.install("/usr/bin/df", printing("Avail\n4096"))
    record = machines.perform().record

    assert (record.outcome, record.reason_code) == (Outcome.ABORTED, ReasonCode.CAPTURE)
    assert record.reason.startswith("the disk of the emulator is full (4096 bytes free at /owlt/captures/")


def test_a_file_that_cannot_be_watched_is_aborted(stage: Stage) -> None:
    def refuse(process: Process) -> int:
        process.complain("cannot watch: No space left on device")
        return 1

    stage.rig.modules[stage.rig.rig.watch] = refuse
    record = stage.perform().record

    assert (record.outcome, record.reason_code) == (Outcome.ABORTED, ReasonCode.HOST)
    assert "the receiver's file cannot be watched; its last line: 'cannot watch" in record.reason


def test_a_delivery_that_was_not_seen_makes_a_run_suspect(stage: Stage) -> None:
    stage.rig.modules[stage.rig.rig.watch] = printing("watching", forever=True)
    record = stage.perform().record

    assert (record.outcome, record.file_delivered_at_ns) == (Outcome.COMPLETED, None)
    assert len(record.suspect) == 1


def test_a_channel_that_is_another_at_the_end_makes_a_run_suspect(stage: Stage) -> None:
    def change(phase: str) -> None:
        if phase == "transfer":
            stage.rig.rig.channel.change("forward", delay="7 ms")

    assert "the channel was another at the end of the run" in stage.perform(change).record.suspect[0]


def test_what_a_certificate_suspects_a_run_on_its_channel_is_reported(stage: Stage) -> None:
    stage.certificates = {"": Certified(verdict="failed", suspicion=["forward: delay (ms) is 27"])}
    record = stage.perform().record

    assert record.certificate == "failed"
    assert record.suspect == ["the channel's certificate: forward: delay (ms) is 27"]


def test_a_test_file_that_another_run_changed_is_replaced_and_makes_a_run_suspect(stage: Stage) -> None:
    path = f"/owlt/file-{SIZE_BYTES}.bin"
    stage.rig.sender.write_file(path, b"changed")
    record = stage.perform().record

    assert record.outcome is Outcome.COMPLETED
    assert len(record.suspect) == 1 and "test file" in record.suspect[0]
    assert stage.rig.sender.files.read(path) == file_content(1, SIZE_BYTES)


def test_what_was_ended_by_something_else_makes_a_completed_run_suspect(stage: Stage) -> None:
    def end(phase: str) -> None:
        if phase == "transfer":
            stage.rig.killed_programs.sentences.append("the kernel killed x because memory ran out")

    assert stage.perform(end).record.suspect == ["the kernel killed x because memory ran out"]


def test_a_run_that_times_out_because_something_else_ended_it_has_failed_with_that_first(stage: Stage) -> None:
    def end(phase: str) -> None:
        if phase == "transfer":
            stage.rig.killed_programs.sentences.append("the kernel killed x because memory ran out")

    stage.implementation = {"time_limit": AT_ONCE}
    stage.sender = printing(forever=True)
    record = stage.perform(end).record

    assert (record.outcome, record.reason_code) == (Outcome.FAILED, ReasonCode.KILLED)
    assert record.reason.startswith("the kernel killed x because memory ran out; ")


def test_what_was_ended_before_a_run_is_not_its_own(stage: Stage) -> None:
    stage.rig.killed_programs.sentences.append("the kernel killed x because memory ran out")

    assert stage.perform().record.suspect == []


def test_what_a_program_left_running_is_in_the_record(stage: Stage) -> None:
    def leave(process: Process) -> int:
        send(process)
        process.complain(f"{LEFT}daemon -d")
        return 0

    stage.sender = leave
    record = stage.perform().record

    assert record.sender is not None and record.sender.left_running == ["daemon -d"]


class Restarted:
    """A receiver whose first start waits for ever, and whose second takes the file; a sender that waits for it."""

    def __init__(self, stage: Stage, side: str = "receiver") -> None:
        self.commands: list[list[str]] = []
        stage.receiver = self.receive
        stage.channels = {"link": LINK}
        restarts = {"link": {"side": side, "at": "20 ms", "after": "20 ms"}}
        stage.sweep = {"channel": "link", "rate": None, "delay": None, "packet_error_rate": None, "restarts": restarts}

    def receive(self, process: Process) -> int:
        self.commands.append(process.command)
        if len(self.commands) == 1:
            process.print("ready")
            process.wait_for_signal()
        return take(process)


LINK = ChannelSpec(forward=LinkSpec(rate_bps=1e7), reverse=LinkSpec(rate_bps=1e7))


def test_a_host_that_restarts_runs_the_same_command_again(stage: Stage) -> None:
    restarted = Restarted(stage)
    record = stage.perform().record

    assert (record.outcome, record.suspect) == (Outcome.COMPLETED, [])
    assert len(restarted.commands) == 2
    assert restarted.commands[0] == restarted.commands[1]


def test_the_output_of_a_program_before_and_after_its_restart_is_kept(stage: Stage) -> None:
    Restarted(stage)
    directory = stage.perform().directory

    assert [(directory / f"receiver{name}.out").read_text() for name in ("", "-restarted")] == ["ready\n"] * 2


def test_a_session_that_ends_before_a_host_was_to_restart_is_suspect(stage: Stage) -> None:
    Restarted(stage)
    stage.receiver = take
    stage.sweep["restarts"]["link"]["at"] = "1 h"

    assert stage.perform().record.suspect == ["the session ended before the receiver was to be killed"]


class Commanded:
    """A receiver that takes the file once it has got the signal USR2."""

    def __init__(self, stage: Stage, at: str = "20 ms", command: str = "resume", side: str = "receiver") -> None:
        self.signals: list[str] = []
        stage.receiver = self.receive
        orders = {"suspend": {"signal": "USR1"}, "resume": {"signal": "USR2"}, "cancel": {"signal": "HUP"}}
        stage.implementation = {role: COPY[role] | orders for role in ("sender", "receiver")}
        stage.channels = {"link": LINK}
        given = {"link": [{"side": side, "at": at, "command": command}]}
        stage.sweep = {"channel": "link", "rate": None, "delay": None, "packet_error_rate": None, "commands": given}

    def receive(self, process: Process) -> int:
        def resume() -> None:
            self.signals.append("USR2")
            process.write_file(process.arguments[0], process.receive(RECEIVER_ADDRESS, PORT))
            process.exit(0)

        process.on("USR1", lambda: self.signals.append("USR1"))
        process.on("USR2", resume)
        process.on("HUP", lambda: process.exit(1))
        process.print("ready")
        process.wait_for_signal()


def test_a_side_gets_a_command_of_its_profile_not_before_its_time(stage: Stage) -> None:
    commanded = Commanded(stage, at="300 ms")
    record = stage.perform().record

    assert record.started_at_ns is not None and record.ended_at_ns is not None
    assert (commanded.signals, record.outcome, record.suspect) == (["USR2"], Outcome.COMPLETED, [])
    assert record.ended_at_ns - record.started_at_ns >= 300_000_000


def test_commands_are_given_in_the_order_of_their_times(stage: Stage) -> None:
    commanded = Commanded(stage, at="60 ms")
    stage.sweep["commands"]["link"].append({"side": "receiver", "at": "20 ms", "command": "suspend"})
    stage.perform()

    assert commanded.signals == ["USR1", "USR2"]


def test_a_command_that_a_failed_launch_leaves_out_makes_a_run_suspect(stage: Stage) -> None:
    Commanded(stage, command="cancel")
    stage.receiver = lambda process: 3
    record = stage.perform().record

    assert record.outcome is Outcome.FAILED
    assert record.suspect == ["the session ended before the receiver's command cancel was due"]


def test_a_transfer_that_is_cancelled_has_failed(stage: Stage) -> None:
    Commanded(stage, command="cancel")
    record = stage.perform().record

    assert (record.outcome, record.suspect) == (Outcome.FAILED, [])
    assert record.reason == "the receiver exited with status 1; its last line: 'ready'"


def test_a_session_that_ends_before_a_command_is_suspect(stage: Stage) -> None:
    Commanded(stage, at="1 h")
    stage.receiver = take

    assert stage.perform().record.suspect == ["the session ended before the receiver's command resume was due"]


def test_a_command_to_a_program_that_has_ended_makes_a_run_suspect(stage: Stage) -> None:
    commanded = Commanded(stage, at="20 ms", side="sender")
    stage.sweep["commands"]["link"].append({"side": "receiver", "at": "40 ms", "command": "resume"})

    assert stage.perform().record.suspect == ["the sender had ended before the sender's command resume was due"]
    assert commanded.signals == ["USR2"]


def test_a_command_that_the_profile_does_not_have_is_refused(stage: Stage) -> None:
    Commanded(stage, command="cancel", side="sender")
    stage.implementation = {}

    with pytest.raises(SweepMistake, match="the profile of copy has no command cancel for the sender"):
        stage.perform()


def test_a_command_over_a_channel_that_the_sweep_does_not_have_is_refused(stage: Stage) -> None:
    Commanded(stage)
    stage.sweep["commands"]["other"] = []

    with pytest.raises(SweepMistake, match=r"commands\.other: got 'other', expected one of link"):
        stage.perform()


def test_files_that_a_side_did_not_remove_are_in_the_record(stage: Stage) -> None:
    def litter(process: Process) -> int:
        process.write_file(f"{stage.run_directory}/1.bundle", bytes(300))
        process.write_file(f"{stage.run_directory}/removed", b"")
        process.host.files.remove(f"{stage.run_directory}/removed")
        return take(process)

    stage.receiver = litter
    record = stage.perform().record

    assert record.receiver.left_files == ["1.bundle (300 B)"]
    assert record.sender.left_files == []


def test_of_many_files_that_are_left_some_are_named_and_the_others_counted(stage: Stage) -> None:
    def litter(process: Process) -> int:
        for number in range(MOST_LEFT + 3):
            process.write_file(f"{stage.run_directory}/{number:02}", b"")
        return take(process)

    stage.receiver = litter
    left = stage.perform().record.receiver.left_files

    assert (len(left), left[-1]) == (MOST_LEFT + 1, "and 3 more")


def test_a_socket_that_is_open_when_the_session_ends_is_in_the_record(stage: Stage) -> None:
    host = stage.rig.receiver
    host.bound.add(("tcp", 22))  # not of the run

    def keep_open(process: Process) -> int:
        host.bound.add(("udp", PORT))
        return take(process)

    stage.receiver = keep_open
    record = stage.perform().record

    assert record.receiver.open_sockets == [f"udp {PORT}"]
    assert record.sender.open_sockets == []


def test_a_run_directory_without_room_is_named_when_a_run_fails(stage: Stage) -> None:
    def fill(process: Process) -> int:
        process.host.files.fill(process.directory)
        return 1

    stage.implementation = {"time_limit": AT_ONCE}
    stage.receiver = stage.sender = fill
    record = stage.perform().record

    assert "the receiver's run directory is full" in record.reason


def test_files_that_a_profile_keeps_stay_beside_the_record_of_a_run_that_failed(stage: Stage) -> None:
    def log(process: Process) -> int:
        process.write_file("ion.log", b"out of memory\n")
        return 1

    stage.implementation = {"keep": ["ion.log", "other.log"], "time_limit": AT_ONCE}
    stage.receiver = stage.sender = log
    done = stage.perform()

    kept = done.directory / "kept"
    assert {str(path.relative_to(kept)) for path in kept.rglob("*.log")} == {"receiver/ion.log"}
    assert (kept / "receiver" / "ion.log").read_bytes() == b"out of memory\n"


def test_files_that_a_profile_keeps_are_not_kept_of_a_run_that_completed(stage: Stage) -> None:
    stage.implementation = {"keep": ["received.bin"]}

    assert not (stage.perform().directory / "kept").exists()


def test_tcp_is_sampled_where_a_session_has_tcp_ports(stage: Stage) -> None:
    stage.implementation = {"session": {"tcp_ports": [PORT]}}
    record = stage.perform().record

    assert set(record.tcp) == {"sender", "receiver"}
    assert record.tcp["sender"].period_ns == 12_500_000
    assert record.tcp["receiver"].period_ns == 0
    assert record.tcp["sender"].problem == ""


def test_a_sampler_that_cannot_look_is_a_problem_of_its_own(stage: Stage) -> None:
    def refuse(process: Process) -> int:
        process.complain("no socket diagnostics")
        return 1

    stage.implementation = {"session": {"tcp_ports": [PORT]}}
    stage.rig.modules["owlt.agents.probes.tcp_samples"] = refuse
    record = stage.perform().record

    assert record.outcome is Outcome.COMPLETED
    assert record.tcp["sender"].problem == "the sampler exited with status 1; its last line: 'no socket diagnostics'"


def test_a_run_directory_that_cannot_be_made_is_aborted(stage: Stage) -> None:
    stage.rig.receiver.commands["sh"] = lambda host, arguments: failed("mount: permission denied", 32)
    record = stage.perform().record

    assert (record.outcome, record.reason_code) == (Outcome.ABORTED, ReasonCode.HOST)
    assert "receiver: " in record.reason and record.reason.endswith("mount: permission denied")


def test_what_ends_the_process_is_not_caught(stage: Stage) -> None:
    def end(phase: str) -> None:
        if phase == "transfer":
            raise SystemExit(1)

    with pytest.raises(SystemExit):
        stage.perform(end)
    assert all(process.is_over for process in stage.rig.receiver.processes.values())


def test_two_runs_of_the_same_seeds_have_the_same_facts(tmp_path: Path) -> None:
    first, second = (Stage(tmp_path / name, rig=MemoryRig()).perform().record for name in ("a", "b"))
    times = {"started_at_ns": 0, "ended_at_ns": 0, "file_delivered_at_ns": 0}

    assert first.model_copy(update=times) == second.model_copy(update=times)


def test_a_message_that_is_lost_leaves_the_receiver_waiting(stage: Stage) -> None:
    stage.rig.network.carry = lambda content: None
    stage.implementation = {"time_limit": AT_ONCE}
    record = stage.perform().record

    assert record.outcome is Outcome.TIMED_OUT
    assert "the receiver had not ended" in record.reason


def test_a_program_that_floods_its_output_has_failed(stage: Stage) -> None:
    def flood(process: Process) -> int | None:
        process.write(b"x" * 33_000_000)
        process.wait_for_signal()

    stage.sender = flood
    record = stage.perform().record

    assert (record.outcome, record.reason_code) == (Outcome.FAILED, ReasonCode.FLOODED)
    assert "wrote more than 32 MB of output" in record.reason


def test_a_rig_in_memory_is_a_rig(stage: Stage) -> None:
    assert replace(stage.rig.rig, watch="x").watch == "x"


def test_a_run_that_cannot_complete_in_its_time_limit_is_unsupported_with_both_times(stage: Stage) -> None:
    stage.implementation = {"time_limit": {"rtts": 0, "file_times": 0, "extra_s": 0.07}}

    done = stage.perform()

    assert done.record.outcome is Outcome.UNSUPPORTED
    assert done.record.reason == "not launched: the time limit is 0.07 s, and 100 kB take 0.08 s at the line rate"


class TwoReadings(HostClocks):
    """Clocks of which each reading says the same: the receiver's is 3 ms ahead."""

    def __init__(self) -> None:
        self.readings: list[ClockReading] = []

    def read(self) -> None:
        self.readings.append(ClockReading(len(self.readings) * 10**9, 3_000_000, 500_000))

    def clocks(self) -> dict[str, HostClock]:
        return {"receiver": clock_of(self.readings)}


IN_LAB = {"rig": "lab", "host_captures": True}


def test_captures_at_the_hosts_are_kept_beside_those_at_the_emulator(stage: Stage) -> None:
    stage.sweep = IN_LAB
    done = stage.perform()

    assert done.record.outcome is Outcome.COMPLETED
    assert {path.name for path in done.directory.glob("*.pcap")} == {
        *("sender.pcap", "receiver.pcap"),
        *("host-sender.pcap", "host-receiver.pcap"),
    }
    assert {role: (each.interface, each.stamps) for role, each in done.record.host_captures.items()} == dict.fromkeys(
        ("sender", "receiver"), (TEST_INTERFACE, "host")
    )
    assert read_record(done.directory) == done.record


def test_the_clocks_of_the_hosts_are_read_before_and_after_a_run_with_captures_at_the_hosts(stage: Stage) -> None:
    stage.sweep = IN_LAB
    stage.rig.rig = replace(stage.rig.rig, clocks=TwoReadings())
    clock = stage.perform().record.host_captures["receiver"].clock

    assert clock is not None
    assert (clock.readings, clock.offset_ns, clock.drift_ppm, clock.drift_error_ppm) == (2, 3_000_000, 0, 1000)


@pytest.mark.parametrize(("free_bytes", "is_full"), [(4096, True), (10**9, False)])
def test_a_capture_at_a_host_whose_disk_is_full_says_so(free_bytes: int, is_full: bool, machines: Stage) -> None:
    machines.sweep = IN_LAB
    for host, free in ((machines.rig.sender, 10**9), (machines.rig.receiver, free_bytes)):
        host.install("/usr/bin/df", printing(f"Avail\n{free}"))
    record = machines.perform().record

    problems = {role: each.problem for role, each in record.host_captures.items()}
    full = (
        f"the disk of the receiver is full (4096 bytes free at /owlt/captures/{record.run_id}), so the capture at the "
    )
    assert problems == {
        "sender": "",
        "receiver": f"{full}receiver is not complete: free space in /var/lib of that host" * is_full,
    }


def test_without_a_request_nothing_is_captured_at_the_hosts(stage: Stage) -> None:
    done = stage.perform()

    assert done.record.host_captures == {}
    assert not [command for command in stage.rig.sender.ran if command[0] == "tcpdump"]


def test_a_capture_at_a_host_without_tcpdump_aborts_the_run_and_says_where(stage: Stage) -> None:
    stage.sweep = IN_LAB
    stage.rig.receiver.files.remove("/usr/bin/tcpdump")
    record = stage.perform().record

    assert (record.outcome, record.reason_code) == (Outcome.ABORTED, ReasonCode.CAPTURE)
    assert record.reason == "the capture at the receiver did not start: sh: 1: exec: tcpdump: not found"


def test_packets_of_a_direction_that_an_aimed_fault_delays_are_not_compared_with_its_link() -> None:
    link = {"delay": "25 ms", "rate": "10 Mbit/s"}
    faults = [{"direction": "forward", "action": {"delay": "1 s"}}, {"direction": "reverse", "action": "drop"}]
    forward, reverse = links_of(making.record(channel={"forward": link, "reverse": link, "faults": faults}))

    assert forward is None
    assert reverse == links_of(making.record(channel={"forward": link, "reverse": link}))[0]


class MemoryWaitRecorder(WaitRecorder):
    """A kernel's recorder that has seen one wait; what it was told to skip."""

    def __init__(self) -> None:
        self.begun = False
        self.skipped: list[tuple[str, int, int]] = []

    def begin(self) -> None:
        self.begun = True

    def skip(self, role: Role, from_ns: int, to_ns: int) -> None:
        self.skipped.append((role, from_ns, to_ns))

    def waits(self) -> RunWaits:
        return summarised([astuple(WAIT)] if self.begun else [])  # type: ignore[list-item]


WAIT = TimedWait("receiver", "take", "poll", begin_ns=1, length_ns=3_750_000_000)
EXACT = {"rig": "virtual", "clock": "exact"}


def recording(stage: Stage) -> MemoryWaitRecorder:
    """The stage's rig gets a recorder."""
    recorder = MemoryWaitRecorder()
    stage.rig.rig = replace(stage.rig.rig, wait_recorder=recorder)
    return recorder


def test_the_waits_of_a_run_on_the_exact_clock_are_beside_its_record(stage: Stage) -> None:
    recording(stage)
    stage.sweep = EXACT

    assert read_waits(stage.perform().directory) == (WAIT,)


def test_the_waits_of_a_run_that_failed_are_beside_its_record(stage: Stage) -> None:
    def end(process: Process) -> int:
        process.print("ready")
        return 3

    recording(stage)
    stage.sweep, stage.sender, stage.receiver = EXACT, end, end

    done = stage.perform()

    assert done.record.outcome is not Outcome.COMPLETED
    assert read_waits(done.directory) == (WAIT,)


def test_the_waits_of_a_run_on_another_clock_are_not_recorded(stage: Stage) -> None:
    recording(stage)

    assert read_waits(stage.perform().directory) is None


SKIPPED = EXACT | {
    "channel": "link",
    "rate": None,
    "delay": None,
    "packet_error_rate": None,
    "skipped_waits": {"link": [{"side": "receiver", "after": "3 s", "before": "3.5 s"}]},
}


def test_waits_are_skipped_in_windows_that_count_from_the_launch(stage: Stage) -> None:
    recorder = recording(stage)
    stage.channels, stage.sweep = {"link": LINK}, SKIPPED

    record = stage.perform().record

    launch_ns = record.started_at_ns or 0
    assert recorder.skipped == [("receiver", launch_ns + 3 * 10**9, launch_ns + 3_500_000_000)]


def test_a_run_whose_waits_cannot_be_skipped_is_aborted(stage: Stage) -> None:
    stage.channels, stage.sweep = {"link": LINK}, SKIPPED

    record = stage.perform().record

    assert record.outcome is Outcome.ABORTED
    assert "cannot skip waits" in record.reason


def test_waits_are_skipped_on_the_exact_clock_only(stage: Stage) -> None:
    stage.channels, stage.sweep = {"link": LINK}, SKIPPED | {"clock": "skip"}

    with pytest.raises(ValidationError, match="where waits cannot be skipped"):
        stage.perform()


def test_waits_are_skipped_over_channels_of_the_sweep_only(stage: Stage) -> None:
    stage.channels, stage.sweep = {"link": LINK}, SKIPPED | {"skipped_waits": {"lnik": []}}

    with pytest.raises(SweepMistake, match="link"):
        stage.perform()
