"""The messages of real runs: as many as the endpoints themselves count, and as tshark counts, and the whole file."""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from owlt.captures.accounting.summary import read_both
from owlt.captures.frames.columns import read_columns
from owlt.captures.frames.session import Host, Session
from owlt.captures.inspection.inspection import Case, inspect
from owlt.captures.matches.delivery import INTACT
from owlt.captures.matches.matching import match_captures
from owlt.captures.protocols.ladder import Rung, ending, termination_lines
from owlt.captures.protocols.messages import Message, carried_file_bytes, message_counts, messages, repeated_file_bytes
from tests.conftest import require_command
from tests.system.sweeps import PROJECT, RECORDED, perform, records

FILE_BYTES = 100_000
HOSTS: tuple[Host, ...] = ("sender", "receiver")
GRID = {
    "implementations": ["cfdp", "ltp", "norm", "saratoga", "saratoga-v0", "bp-acs", "bp-cs", "quic-aioquic", "tcp"],
    "file_size": "100 kB",
    "delay": "250 ms",
    "packet_error_rate": 0.05,
    "certify": False,
    "keep_captures": "full",
    "runs_per_guest": 9,
}
COUNTED = {
    "cfdp": {
        "FileData": ["data"],
        "Metadata": ["metadata"],
        "Eof": ["EOF"],
        "Ack": ["ACK of EOF", "ACK of Finished"],
        "Nak": ["NAK"],
        "Finished": ["Finished"],
    },
    "ltp": {
        "RED": ["red data"],
        "CHECKPOINT": ["checkpoint"],
        "RED_END_OF_BLOCK": ["checkpoint"],
        "REPORT_ACK": ["report-ack"],
        "REPORT": ["report"],
    },
    "saratoga": {"Data": ["data"], "Metadata": ["metadata"], "Status": ["status"], "Request": ["request"]},
    "saratoga-v0": {"Data": ["data"], "Metadata": ["metadata"], "Status": ["status"], "Request": ["request"]},
    "bp-acs": {"bundle": ["data bundle"], "acs": ["aggregate custody signal"]},
    "bp-cs": {"bundle": ["data bundle"], "cs": ["custody signal"]},
}
"""The names that an endpoint's last line has, and ours for the same."""


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory, guest_kernel: object) -> Path:
    """A lossy run of each protocol, with its captures whole."""
    directory = tmp_path_factory.mktemp("protocols")
    done = perform(directory, directory / "results", **GRID)
    assert done.returncode in RECORDED, done.stderr
    assert {run["outcome"] for run in records(directory / "results").values()} == {"completed"}
    return directory / "results"


class Run:
    """A run's directory and what is needed to read its captures."""

    def __init__(self, results: Path, implementation: str) -> None:
        found = {record["implementation"]: (run_id, record) for run_id, record in records(results).items()}
        run_id, record = found[implementation]
        self.directory = results / "runs" / run_id
        self.session = Session.model_validate(record["session"])
        profile = PROJECT / "profiles" / "implementations" / f"{implementation}.yaml"
        self.dissector: Sequence[str] = YAML(typ="safe").load(profile.read_text()).get("dissector", [])

    def capture(self, host: Host) -> Path:
        return self.directory / f"{host}.pcap"

    def messages(self, host: Host) -> list[Message]:
        """All messages in the capture at a host's port."""
        return messages(self.capture(host), self.session, self.dissector)

    def sent(self, host: Host) -> list[Message]:
        """Those that the host sent, from the capture at its own port."""
        return [message for message in self.messages(host) if message.host == host]

    def told(self, host: Host, what: str) -> Counter[str]:
        """What the host's last line says that it sent, or received, by its own names."""
        line = (self.directory / f"{host}.out").read_text().strip().splitlines()[-1]
        counted = re.search(rf"\b{what}=\d* ?\(([^)]*)\)", line)
        pairs = (pair.split("=") for pair in (counted[1] if counted else "").split())
        return Counter({name: int(number) for name, number in pairs})


def renamed(told: Counter[str], implementation: str) -> Counter[str]:
    """An endpoint's counts under our names; of two names for one of its own, the first."""
    counts: Counter[str] = Counter()
    for name, number in told.items():
        counts[COUNTED[implementation][name][0]] += number
    return counts


def joined(counts: dict[str, int], implementation: str) -> Counter[str]:
    """Our counts: names that the endpoint does not tell apart put together, those that it does not count left out."""
    first = {ours: names[0] for names in COUNTED[implementation].values() for ours in names}
    sums: Counter[str] = Counter()
    for name, number in counts.items():
        if name in first:
            sums[first[name]] += number
    return sums


@pytest.mark.parametrize("implementation", sorted(COUNTED))
def test_each_host_sent_as_many_messages_of_each_name_as_it_says(results: Path, implementation: str) -> None:
    run = Run(results, implementation)
    for host in HOSTS:
        counts = joined(message_counts(run.sent(host))[host], implementation)
        assert counts == renamed(run.told(host, "sent"), implementation), host
        assert counts.total() > 0


@pytest.mark.parametrize("implementation", ["cfdp", "ltp", "saratoga"])
def test_what_arrived_unhurt_is_what_the_receiver_says_it_received(results: Path, implementation: str) -> None:
    """But for those that were hit in an Ethernet address, of which some are taken."""
    run = Run(results, implementation)
    at_sender, at_receiver = (read_columns(run.capture(host)) for host in HOSTS)
    forward = match_captures(at_sender, at_receiver, run.session).forward
    hit = forward.delivered[forward.flipped_bit != INTACT]
    in_ethernet = int(((forward.flipped_bit != INTACT) & (forward.flipped_bit < 8 * 14)).sum())
    found = messages(at_receiver, run.session, run.dissector, damaged_rows=set(hit.tolist()))
    unhurt = joined(message_counts(found)["sender"], implementation).total()

    received = run.told("receiver", "received").total()
    assert len(hit) > 0
    assert unhurt <= received <= unhurt + in_ethernet


def test_the_segments_of_tcp_are_those_that_the_kernel_counts(results: Path) -> None:
    run = Run(results, "tcp")
    line = (run.directory / "sender.out").read_text()
    sent = run.sent("sender")
    told = {name: int(re.search(rf"{name}=(\d+)", line)[1]) for name in ("data_segments", "retransmitted")}  # type: ignore[index]

    assert sum(message.name == "retransmission" for message in sent) == told["retransmitted"] > 0
    assert sum(message.byte_count > 0 for message in sent) == told["data_segments"]


def test_the_datagrams_of_quic_are_as_many_as_the_endpoint_sent(results: Path) -> None:
    run = Run(results, "quic-aioquic")
    for host in HOSTS:
        line = (run.directory / f"{host}.out").read_text().strip().splitlines()[-1]
        told = re.search(r"\bsent=(\d+)", line)
        assert told
        assert len(run.sent(host)) == int(told[1])
    assert run.sent("sender")[0].name == "Initial"


def io_stat(run: Run, expression: str) -> int:
    """How many frames of the sender pass a filter, as tshark's statistics have it."""
    command = [require_command("tshark"), "-n", "-q", "-r", str(run.capture("sender"))]
    command += ["--enable-heuristic", "rmt_norm_udp"]
    command += ["-z", f"io,stat,0,udp && !icmp && ip.src == {run.session.sender_address} && {expression}"]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    (row,) = re.findall(r"^\|.*<>.*$", text, re.MULTILINE)
    return int(row.split("|")[2])


def test_the_messages_of_norm_are_those_that_tshark_counts(results: Path) -> None:
    run = Run(results, "norm")
    counts = message_counts(run.sent("sender"))["sender"]

    assert counts["INFO"] == io_stat(run, "norm.type==1")
    assert counts["DATA"] + counts["DATA (parity)"] == io_stat(run, "norm.type==2")
    assert counts["CMD FLUSH"] == io_stat(run, "norm.flavor==1") > 0


@pytest.mark.parametrize("implementation", sorted(set(GRID["implementations"])))  # type: ignore[call-overload]
def test_nothing_that_a_host_sent_is_malformed_or_damaged_where_it_left(results: Path, implementation: str) -> None:
    run = Run(results, implementation)
    for host in HOSTS:
        names = message_counts(run.sent(host))[host]
        assert not [name for name in names if name.startswith(("malformed", "damaged"))], host


@pytest.mark.parametrize("implementation", sorted(set(GRID["implementations"]) - {"quic-aioquic"}))  # type: ignore[call-overload]
def test_all_bytes_of_the_file_are_found_in_what_was_sent(results: Path, implementation: str) -> None:
    found = Run(results, implementation).messages("sender")

    assert carried_file_bytes(found) == FILE_BYTES
    assert repeated_file_bytes(found) is not None


def test_where_all_is_encrypted_no_bytes_are_claimed(results: Path) -> None:
    assert carried_file_bytes(Run(results, "quic-aioquic").messages("sender")) is None


def test_data_that_were_sent_again_are_those_that_cfdp_says(results: Path) -> None:
    run = Run(results, "cfdp")
    again = re.search(r"data_again=(\d+)", (run.directory / "sender.out").read_text())

    assert again
    assert repeated_file_bytes(run.messages("sender")) == 1000 * int(again[1])


@pytest.mark.parametrize("implementation", ["cfdp", "ltp", "saratoga", "norm"])
def test_the_end_of_the_session_is_printed_and_climbed(results: Path, implementation: str) -> None:
    run = Run(results, implementation)
    lines = termination_lines(read_columns(run.capture("sender")), run.messages("sender"))
    both = read_both(run.capture("sender"), run.capture("receiver"))
    steps = ending(inspect(*both, Case(run.session, run.dissector)).rungs)
    rungs = [step for step in steps if isinstance(step, Rung)]

    assert len(lines) > 3
    assert re.match(r"\d\d:\d\d:\d\d\.\d{6} IP 10\.77\.0\.\d\.\d+ > [\d.]+: UDP, length \d+  \w", lines[0])
    assert {rung.message.host for rung in rungs} == {"sender", "receiver"}
    assert all(rung.arrived_ns[0] - rung.left_ns >= 250_000_000 for rung in rungs if rung.arrived_ns)
