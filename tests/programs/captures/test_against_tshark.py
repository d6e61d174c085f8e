"""512 captures as they are published, of every format, link type and header that owlt claims to read.

tshark and capinfos say the same of each frame, and of what each host of the session sent; what mirror ports did to a
capture is recognised in those where they did it, and in no other.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from owlt.captures.accounting.one_side import one_side
from owlt.captures.accounting.summary import account_both, read_both
from owlt.captures.accounting.suspicion import NOTHING_EXPECTED, Claims, order_notes, suspect_copies
from owlt.captures.frames.columns import Columns, read_columns
from owlt.captures.frames.session import Host, Session, sent_by, summary_filter
from owlt.captures.matches.matching import match_captures
from tests.conftest import require_command
from tests.programs.captures.public_like import LINKS, PAIRS, SCENARIOS, capture, pair
from tests.tshark_frames import Frame, differences, frames_of, read_with_tshark
from tests.unit.captures.making import SESSION, SESSION_6, tshark_rows

COUNT, PAIR_COUNT = 512, 130
HOSTS: tuple[Host, ...] = ("sender", "receiver")
SHOWN = 20
ANY_PORT, ANY_PORT_6 = (
    session.model_copy(update={"udp_ports": ("1-65535",), "tcp_ports": ("1-65535",)})
    for session in (SESSION, SESSION_6)
)


@dataclass(frozen=True)
class Group:
    """All captures of one format behind each other, which tshark reads at once; `rows` are the numbers of its frames
    that are packets, `frames` what tshark says of these."""

    path: Path
    captures: list[Columns]
    frames: list[Frame]
    rows: list[int]

    @property
    def each(self) -> Iterator[tuple[Columns, slice]]:
        """Each capture, and its frames."""
        start = 0
        for columns in self.captures:
            yield columns, slice(start, start + len(columns))
            start += len(columns)


@pytest.fixture(scope="module")
def groups(tmp_path_factory: pytest.TempPathFactory) -> list[Group]:
    folder = tmp_path_factory.mktemp("public")
    paths: list[Path] = []
    for seed in range(COUNT):
        made = capture(seed)
        paths.append(folder / made.name)
        paths[-1].write_bytes(made.octets)
    of_pcap, of_pcapng = ([path for path in paths if path.suffix == suffix] for suffix in (".pcap", ".pcapng"))
    merged = folder / "all.pcap.pcapng"
    merge = [require_command("mergecap"), "-a", "-F", "pcapng", "-w", str(merged), *map(str, of_pcap)]
    subprocess.run(merge, check=True, capture_output=True)
    joined = folder / "all.pcapng.pcapng"
    joined.write_bytes(b"".join(path.read_bytes() for path in of_pcapng))  # sections may follow each other
    return [_group(merged, of_pcap), _group(joined, of_pcapng)]


def _group(whole: Path, paths: list[Path]) -> Group:
    frames, complaints = read_with_tshark(whole)
    assert not complaints
    rows = tshark_rows(whole, "frame.encap_type")
    return Group(whole, [read_columns(path) for path in paths], frames, rows)


@pytest.fixture(scope="module")
def every(groups: list[Group]) -> list[Columns]:
    return [columns for group in groups for columns in group.captures]


def scenario(columns: Columns) -> str:
    return columns.path.name.split("-", 1)[1].rsplit("-", 1)[0].replace("-", " ")


def test_the_captures_are_of_every_sort(every: list[Columns]) -> None:
    assert len(every) >= 500
    assert {scenario(columns) for columns in every} == set(SCENARIOS)
    assert set(LINKS) <= {columns.link_type for columns in every}
    assert sum(columns.link_type == 0 for columns in every) > 20, "several link types in one file"
    assert sum(columns.other_records > 0 for columns in every) > 20
    assert sum(columns.untimed_frames > 0 for columns in every) > 20
    assert sum(len(columns) for columns in every) > 10_000


def test_every_capture_is_read_to_its_end(every: list[Columns]) -> None:
    assert [columns.path.name for columns in every if columns.damage] == []


def test_each_capture_has_as_many_packets_and_bytes_as_capinfos_counts(every: list[Columns]) -> None:
    command = [require_command("capinfos"), "-T", "-r", "-M", "-c", "-d", *(str(columns.path) for columns in every)]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    ours = [(str(columns.path), len(columns), int(columns.wire_bytes.sum())) for columns in every]
    assert ours == [(path, int(packets), int(octets)) for path, packets, octets in map(str.split, told)]


def test_each_frame_is_what_tshark_reads(groups: list[Group]) -> None:
    found: list[str] = []
    for group in groups:
        assert len(group.frames) == sum(map(len, group.captures))
        for columns, place in group.each:
            found += [f"{columns.path.name} {line}" for line in differences(frames_of(columns), group.frames[place])]
    assert not found, "\n".join([f"{len(found)} differences", *found[:SHOWN]])


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize("session", [SESSION, SESSION_6], ids=["IPv4", "IPv6"])
def test_what_a_host_sent_in_the_session_is_what_tsharks_filter_passes(
    groups: list[Group], session: Session, host: Host
) -> None:
    found: list[str] = []
    for group in groups:
        numbers = set(tshark_rows(group.path, summary_filter(session, host), "-o", "ip.defragment:FALSE"))
        passed = np.array([row in numbers for row in group.rows])
        assert passed.any()
        for columns, place in group.each:
            other = np.flatnonzero(sent_by(columns, session, host) != passed[place])
            found += [f"{columns.path.name} frame {row + 1} {group.frames[place][row]}" for row in other.tolist()]
    assert not found, "\n".join([f"{len(found)} differences", *found[:SHOWN]])


@pytest.mark.parametrize("session", [SESSION, SESSION_6], ids=["IPv4", "IPv6"])
def test_packets_bytes_and_times_of_each_host_are_the_sums_of_what_tshark_reads(
    groups: list[Group], session: Session
) -> None:
    found: list[str] = []
    for group in groups:
        for columns, place in group.each:
            side = one_side(columns, session, "sender", Claims())
            frames = group.frames[place]
            of_hosts = [[frame for frame in frames if _is_from(frame, session, host)] for host in HOSTS]
            times_ns = [frame.time_ns for of_host in of_hosts for frame in of_host]
            theirs = [
                number for of_host in of_hosts for number in (len(of_host), sum(each.wire_bytes for each in of_host))
            ]
            theirs += [min(times_ns), max(times_ns)] if times_ns else [None, None]
            ours = [side.str_packets, side.str_bytes, side.rts_packets, side.rts_bytes]
            ours += [side.first_packet_ns, side.last_packet_ns]
            if ours != theirs:
                found.append(f"{columns.path.name}: {ours}, and by tshark {theirs}")
    assert not found, "\n".join([f"{len(found)} differences", *found[:SHOWN]])


def _is_from(frame: Frame, session: Session, host: Host) -> bool:
    ends = [str(session.address(each)) for each in (HOSTS if host == "sender" else HOSTS[::-1])]
    ports = {17: session.udp_ports, 6: session.tcp_ports}.get(frame.protocol or 0, ())
    has_port = frame.is_fragment or frame.source_port in ports or frame.destination_port in ports
    return [frame.source, frame.destination] == ends and bool(ports) and has_port


def copies_in(columns: Columns) -> list[str]:
    reasons: list[str] = []
    for session in (SESSION, SESSION_6):
        rows: dict[Host, np.ndarray] = {host: np.flatnonzero(sent_by(columns, session, host)) for host in HOSTS}
        reasons += suspect_copies(columns, rows)
    return reasons


def test_the_captures_that_have_packets_twice_are_suspect_and_no_others(every: list[Columns]) -> None:
    """Except some captures without an identification, with few packets or with packets without a time."""
    suspected = {columns.path.name for columns in every if copies_in(columns)}
    made = {columns.path.name for columns in every if scenario(columns) == "twice"}
    unclear = {
        columns.path.name
        for columns in every
        if (len(columns) <= 20 or columns.untimed_frames) and not (columns.network == 4).any()
    }
    assert suspected <= made
    assert made - suspected <= unclear
    assert len(suspected) >= 25


def test_a_note_says_where_frames_are_not_in_the_order_of_their_times(every: list[Columns]) -> None:
    """The times alone decide; simple packet blocks have no time, and interfaces with milliseconds round down."""
    noted = {columns.path.name for columns in every if list(order_notes(columns))}
    in_disorder = {columns.path.name for columns in every if (np.diff(columns.time_ns[columns.time_ns > 0]) < 0).any()}
    assert noted == in_disorder
    assert sum(scenario(columns) == "in disorder" for columns in every if columns.path.name in noted) >= 30


@pytest.mark.parametrize("kind", PAIRS)
def test_what_became_of_each_packet_is_what_the_channel_did(tmp_path: Path, kind: str) -> None:
    found: list[str] = []
    for seed in range(PAIRS.index(kind), PAIR_COUNT, len(PAIRS)):
        made = pair(seed)
        paths = [tmp_path / f"{made.name}-{host}.pcap" for host in HOSTS]
        for path, octets in zip(paths, (made.sent, made.arrived), strict=True):
            path.write_bytes(octets)
        both = read_both(*paths)
        ledgers = [
            account_both(match_captures(*both, session), NOTHING_EXPECTED)[0].ledger
            for session in (ANY_PORT, ANY_PORT_6)
        ]
        ours = {
            "delivered": sum(each.delivered for each in ledgers),
            "corrupted": sum(each.corrupted for each in ledgers),
            "lost": sum(each.lost + each.in_flight for each in ledgers),
            "duplicated": sum(each.duplicated for each in ledgers),
            "marked": sum(each.ecn_marked or 0 for each in ledgers),
            "reordered": sum(each.reordered for each in ledgers),
            "unexplained": sum(each.unexplained_arrived for each in ledgers),
        }
        fates = {fate: made.fates.count(fate) for fate in ("delivered", "corrupted", "lost")}
        theirs = fates | {"duplicated": made.duplicated, "marked": made.marked, "reordered": made.reordered}
        if ours != theirs | {"unexplained": 0}:
            found.append(f"{made.name}: {ours}, expected {theirs}")
    assert not found, "\n".join(found)


def test_the_channels_did_something() -> None:
    made = [pair(seed) for seed in range(PAIR_COUNT)]
    assert {fate for each in made for fate in each.fates} == {"delivered", "corrupted", "lost"}
    assert min(sum(each.duplicated for each in made), sum(each.marked for each in made)) > 20
    assert sum(each.reordered for each in made) > 100
