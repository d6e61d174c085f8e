"""A handshake over one minute each way with the default timers of aioquic: its packets are those that tshark counts."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from owlt.captures.accounting.measures import direction_counters
from owlt.captures.frames.session import HOSTS, Host, Session
from owlt.captures.protocols.quic_handshake import QuicHandshake, load_or_count
from owlt.results.record import read_record
from tests.conftest import require_command
from tests.system.sweeps import RECORDED, perform, records

DISSECTOR = ("-d", "udp.port==4433,quic")
ADDRESSES: dict[Host, str] = {"sender": "10.77.0.1", "receiver": "10.77.0.2"}
ONE_WAY_S = 60
NEEDED = (3, 6)
"""The flight of the client, that of the server, and the answers that end both."""


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory, guest_kernel: object) -> dict[str, Path]:
    """A run with aioquic's own timers, and one whose timers know the round trip; neither is abandoned."""
    directory = tmp_path_factory.mktemp("quic")
    parameters = {"quic-aioquic": {"settings": ["default", "deep-space"], "idle_limit_s": 3600}}
    channel = {"delay": f"{ONE_WAY_S} s", "rate": "4 Mbit/s", "packet_error_rate": 0, "certify": False}
    done = perform(
        directory,
        directory / "results",
        implementations=["quic-aioquic"],
        parameters=parameters,
        file_size="10 kB",
        keep_captures="full",
        **channel,
    )
    assert done.returncode in RECORDED, done.stderr
    found = {record["parameters"]["settings"]: run_id for run_id, record in records(directory / "results").items()}
    return {settings: directory / "results" / "runs" / run_id for settings, run_id in found.items()}


def counted(run: Path) -> QuicHandshake:
    record = read_record(run)
    counters = {way: direction_counters(stages) for way, stages in record.emulator_statistics.items()}
    outputs = [(run / f"{host}.out").read_bytes() for host in HOSTS]
    return load_or_count(run, Session.model_validate(record.session), DISSECTOR, counters, outputs)


def tshark(run: Path, host: Host, shown: str) -> list[str]:
    """Times of the datagrams of a host, at its own port, that a display filter shows, with the secrets of the run."""
    command = [require_command("tshark"), "-n", "-r", str(run / f"{host}.pcap"), *DISSECTOR]
    command += [
        "-o",
        f"tls.keylog_file:{run / 'sender.out'}",
        "-Y",
        f"({shown}) && ip.src == {ADDRESSES[host]} && !icmp",
    ]
    command += ["-T", "fields", "-e", "frame.time_relative"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()


@pytest.mark.parametrize("settings", ["default", "deep-space"])
@pytest.mark.parametrize("host", HOSTS)
def test_handshake_packets_are_those_of_tshark(runs: dict[str, Path], settings: str, host: Host) -> None:
    ours = getattr(counted(runs[settings]), host).packets

    assert ours == len(tshark(runs[settings], host, "quic.header_form == 1")) > 0


def test_timers_that_know_the_round_trip_repeat_nothing(runs: dict[str, Path]) -> None:
    handshake = counted(runs["deep-space"])
    needed = handshake.sender.needed + handshake.receiver.needed

    assert (handshake.sender.useless, handshake.receiver.useless) == (0, 0)
    assert NEEDED[0] <= needed <= NEEDED[1]


def test_every_repeat_of_default_timers_is_useless_where_nothing_is_lost(runs: dict[str, Path]) -> None:
    """The client repeats its first packets until the answer comes, two minutes later."""
    handshake = counted(runs["default"])
    repeated = tshark(runs["default"], "sender", f"quic.crypto.length && frame.time_relative < {2 * ONE_WAY_S}")

    assert handshake.sender.useless >= len(repeated) - 1 > NEEDED[1]


def test_the_first_byte_of_the_file_arrives_half_a_round_trip_after_the_handshake(runs: dict[str, Path]) -> None:
    first_byte_s = counted(runs["deep-space"]).first_byte_s

    assert first_byte_s == pytest.approx(3 * ONE_WAY_S, abs=1)
