"""The counters that tcpdump ends with, in texts that it really wrote."""

from __future__ import annotations

import pytest

from owlt.captures.files.tcpdump_command import (
    IN_BLOCKS,
    READY_LINE,
    best_stamps,
    capture_command,
    parse_counters,
    ring_bytes_of,
    snaplen_bytes_of,
)
from owlt.results.record import CaptureCounters
from tests.unit.captures.making import DATA


def stderr(name: str) -> str:
    return (DATA / f"tcpdump-{name}.err").read_text()


def test_a_capture_without_drops_is_complete() -> None:
    counters = parse_counters(stderr("complete"))
    assert counters == CaptureCounters(71, 71, 0, 0)
    assert counters.complete


def test_packets_dropped_by_the_kernel_make_a_capture_incomplete() -> None:
    counters = parse_counters(stderr("drops"))
    assert counters == CaptureCounters(14474, 30009, 15535, 0)
    assert not counters.complete


def test_packets_left_in_the_ring_at_the_stop_make_a_capture_incomplete_although_none_were_dropped() -> None:
    counters = parse_counters(stderr("cut-at-the-stop"))
    assert counters == CaptureCounters(29848, 30009, 0, 0, lost_by_tcpdump=161)
    assert not counters.complete


def test_a_ring_with_drops_is_drained_and_one_that_was_cut_at_the_stop_is_not() -> None:
    assert parse_counters(stderr("drops")).drained
    assert not parse_counters(stderr("cut-at-the-stop")).drained


def test_counters_asked_for_by_a_signal_are_read_and_the_last_ones_count() -> None:
    asked = "tcpdump: {0} packets captured, {1} packets received by filter, 0 packets dropped by kernel\n"
    text = "tcpdump: listening on lo, link-type EN10MB (Ethernet), snapshot length 262144 bytes\n"
    text += asked.format(1, 5)
    assert not parse_counters(text).drained
    assert parse_counters(text + asked.format(5, 5)) == CaptureCounters(5, 5, 0, 0)


def test_drops_by_the_interface_are_read_where_tcpdump_names_them() -> None:
    counters = parse_counters(stderr("complete") + "2 packets dropped by interface\n")
    assert counters.dropped_by_interface == 2
    assert not counters.complete


def test_one_packet_is_read_in_the_singular() -> None:
    text = "1 packet captured\n1 packet received by filter\n0 packets dropped by kernel\n"
    assert parse_counters(text) == CaptureCounters(1, 1, 0, 0)


def test_a_text_without_counters_is_refused_with_what_it_ends_with() -> None:
    text = "tcpdump: to-sender: No such device exists\n(No such device exists)\n"
    with pytest.raises(ValueError, match=r"no line with packets captured.*No such device exists"):
        parse_counters(text)


def test_the_ready_line_names_the_interface() -> None:
    ready = READY_LINE.search(stderr("complete"))
    assert ready is not None
    assert ready["interface"] == "to-sender"


def test_a_link_that_is_not_ethernet_is_never_ready() -> None:
    assert not READY_LINE.search("tcpdump: listening on any, link-type LINUX_SLL2 (Linux cooked v2), ...")


def test_the_command_asks_for_every_packet_at_once_and_nanoseconds() -> None:
    command = capture_command("to-sender", "sender.pcap", snaplen_bytes=128)
    assert command[:3] == ["tcpdump", "-i", "to-sender"]
    assert {"--immediate-mode", "--time-stamp-precision=nano"} <= set(command)
    assert command[command.index("-s") + 1] == "128"
    assert command[command.index("-w") + 1] == "sender.pcap"


def test_a_capture_in_blocks_does_not_ask_for_every_packet_at_once() -> None:
    assert "--immediate-mode" not in capture_command("to-sender", "sender.pcap", delivery=IN_BLOCKS)


def test_a_snapshot_length_of_zero_is_refused() -> None:
    with pytest.raises(ValueError, match="snaplen_bytes for to-sender: expected at least 1, got 0"):
        capture_command("to-sender", "sender.pcap", snaplen_bytes=0)


@pytest.mark.parametrize(("mtu_bytes", "least_bytes"), [(1500, 1514), (4500, 4514), (9702, 9716)])
def test_frames_of_the_path_are_captured_whole(mtu_bytes: int, least_bytes: int) -> None:
    assert snaplen_bytes_of(mtu_bytes) >= least_bytes
    assert snaplen_bytes_of(1500) == 2048


OF_A_CARD = """Time stamp types for enp3s0 (use option -j to set):
  host (Host)
  adapter (Adapter)
  adapter_unsynced (Adapter, not synced with system time)
"""


@pytest.mark.parametrize(
    ("listing", "expected"),
    [
        (OF_A_CARD, "adapter"),
        (OF_A_CARD.replace("  adapter (Adapter)\n", ""), "adapter_unsynced"),
        ("Time stamp types for test0 (use option -j to set):\n  host (Host)\n", "host"),
        ("Time stamp type cannot be set for test0\n", "host"),
        ("", "host"),
    ],
)
def test_the_time_stamps_of_the_card_are_used_if_it_takes_them(listing: str, expected: str) -> None:
    assert best_stamps(listing) == expected


def test_tcpdump_is_told_of_time_stamps_only_if_they_are_not_the_kernels() -> None:
    assert "-j" not in capture_command("test0", "a.pcap")
    command = capture_command("test0", "a.pcap", stamps="adapter")
    assert command[command.index("-j") + 1] == "adapter"
    assert command[-1] == "a.pcap"


@pytest.mark.parametrize(
    ("rate_bps", "ring_kib"),
    [
        (10e6, 16 * 1024),  # the least
        (1e9, 26563),  # 12,500 packets in slots of 2,176 bytes
        (10e9, 256 * 1024),  # the most
    ],
)
def test_the_ring_holds_what_comes_at_the_rate_while_tcpdump_waits(rate_bps: float, ring_kib: int) -> None:
    assert ring_bytes_of(rate_bps, 2048) == ring_kib * 1024


def test_a_longer_snapshot_length_needs_a_larger_ring() -> None:
    assert ring_bytes_of(1e9, 9716) > 4 * ring_bytes_of(1e9, 2048)


def test_the_command_states_the_ring_in_kib() -> None:
    command = capture_command("to-sender", "sender.pcap", ring_bytes=26563 * 1024)
    assert command[command.index("-B") + 1] == "26563"
