"""Aimed faults as they are written, the packets that they are aimed at, and what is changed in a frame."""

from __future__ import annotations

from typing import Any

import pytest
from scapy.layers.inet import ICMP, IP, TCP, UDP, fragment
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Ether
from scapy.layers.sctp import SCTP, SCTPChunkData
from scapy.packet import Packet, Raw

from owlt.emulator.channel.aimed_fault import FieldChange, compiled, named_classes
from owlt.emulator.channel.aimed_fault import passes as passes_frame
from owlt.emulator.channel.spec import ChannelSpec
from owlt.emulator.faults import InvalidChannel
from owlt.emulator.service.fault_player import rules_of, with_field, with_flipped_bits

DROP = {"direction": "forward", "action": "drop"}
SCOPE = "ip and host 10.0.0.1 and udp port 4556"


def channel(*faults: dict[str, Any]) -> ChannelSpec:
    return ChannelSpec.from_wire({"faults": list(faults)})


@pytest.mark.parametrize(
    "fault",
    [
        DROP,
        DROP | {"packet": "cfdp.eof", "occurrence": 2.0},
        DROP | {"occurrence": "3-5", "from": "10 s", "until": "20 s", "name": "some"},
        DROP | {"occurrence": [1.0, "4-6"], "probability": 0.5},
        DROP | {"occurrence": {"every": 10.0}},
        {"direction": "reverse", "action": {"delay": "5 s"}},
        {"direction": "reverse", "action": {"hold_until": "90 s"}},
        {"direction": "reverse", "action": {"hold_until_packet": {"direction": "forward", "packet": "ltp.report"}}},
        {"direction": "reverse", "action": {"duplicate": 3}},
        {"direction": "reverse", "action": {"corrupt_bits": [8.0, 9.0]}},
        {"direction": "reverse", "action": {"corrupt_field": "udp[8:2] = 0x3007"}},
        {"direction": "reverse", "action": {"corrupt_field": "sctp[16:4] = 0x00000007"}},
        {"direction": "reverse", "action": {"reorder_behind": 3}},
        {"direction": "reverse", "action": {"replay_after": "10 s"}},
    ],
)
def test_a_fault_is_written_as_it_was_read(fault: dict[str, Any]) -> None:
    assert channel(fault).to_wire()["faults"] == [fault]


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (DROP | {"packet": "cfdp.eod"}, "did you mean cfdp.eof?"),
        (DROP | {"packet": "udp[8"}, "libpcap"),
        (DROP | {"packet": "udp) or (tcp"}, "expression of pcap-filter(7)"),
        (DROP | {"occurrence": 0}, "a number from 1"),
        (DROP | {"occurrence": "5-3"}, "a number from 1"),
        (DROP | {"occurrence": {"each": 3}}, "a number from 1"),
        (DROP | {"after": "nothing"}, "a fault named nothing before"),
        (DROP | {"from": "20 s", "until": "10 s"}, "until later than from"),
        (DROP | {"action": {"drop": True, "delay": "1 s"}}, "drop, or one of"),
        (DROP | {"action": {"delya": "1 s"}}, "faults[0].action.delya: is not a known key; did you mean delay?"),
        (DROP | {"action": "lose"}, "faults[0].action: got 'lose', expected drop, or one of {delay: ...}"),
        (DROP | {"acton": "drop"}, "faults[0].acton: is not a known key; did you mean action?"),
        ({"action": "drop"}, "faults[0].direction: is missing; add it (required: direction, action)"),
        (DROP | {"action": {"hold_until_packet": {"pakket": "any"}}}, "pakket: is not a known key; did you mean"),
        (DROP | {"packet": "EOF"}, "'owlt channel packets' lists the named classes"),
        (DROP | {"action": {"corrupt_field": "udp[8] = 256"}}, "a value below 256"),
        (DROP | {"action": {"duplicate": 2_000_000}}, "at most 1000000"),
        ({"direction": "up", "action": "drop"}, "faults[0].direction"),
    ],
)
def test_a_mistake_in_a_fault_is_named_with_what_was_expected(fault: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidChannel) as refused:
        channel(fault)
    assert message in str(refused.value)


def test_two_faults_of_one_name_are_refused() -> None:
    with pytest.raises(InvalidChannel, match="one fault named twice"):
        channel(DROP | {"name": "twice"}, DROP | {"name": "twice"})


def test_a_channel_with_faults_is_not_unimpaired_and_one_with_a_probability_draws() -> None:
    assert not channel(DROP).unimpaired
    assert not channel(DROP).draws
    assert channel(DROP | {"probability": 0.5}).draws


def test_more_occurrences_than_the_kernel_can_count_are_refused() -> None:
    faults = channel(DROP | {"occurrence": list(range(1, 65))}).faults

    assert len(rules_of(faults)["forward"].rules) == 64
    with pytest.raises(InvalidChannel, match="at most 64"):
        channel(DROP | {"occurrence": list(range(1, 65))}, DROP)


def test_a_scope_that_is_no_expression_is_refused_before_anything_changes() -> None:
    with pytest.raises(InvalidChannel, match="libpcap"):
        ChannelSpec.from_wire({"faults": [DROP], "fault_scope": "udp[8"})


@pytest.mark.parametrize("packet", ["host example.org", "net lan", "udp port domain", "ip host 8-2", "host \\ip"])
def test_names_are_refused_which_libpcap_would_look_up(packet: str) -> None:
    with pytest.raises(InvalidChannel, match="write names as addresses or numbers"):
        channel(DROP | {"packet": packet})


@pytest.mark.parametrize(
    "packet", ["host 10.0.0.1 or net fd00::/8", "udp portrange 1-9", "udp[8:2]-1 = 4", "tcp[tcpflags] & tcp-syn != 0"]
)
def test_addresses_numbers_and_keywords_are_no_names(packet: str) -> None:
    assert channel(DROP | {"packet": packet}).faults[0].packet == packet


def passes(code: bytes, packet: Packet) -> bool:
    """Whether libpcap's own interpreter lets a frame pass a compiled class."""
    return passes_frame(code, bytes(packet), len(packet))


EOF = bytes.fromhex("20000a110065000000660400f7452ae800004e20")
V4 = Ether() / IP(src="10.0.0.1", dst="10.0.0.2") / UDP(sport=1, dport=4556)
V6 = Ether() / IPv6(src="fd00::1", dst="fd00::2") / UDP(sport=1, dport=4556)


@pytest.mark.parametrize("packet", [V4 / Raw(EOF), V6 / Raw(EOF)], ids=["IPv4", "IPv6"])
def test_a_class_of_udp_payload_passes_it_over_either_version_of_ip(packet: Packet) -> None:
    assert passes(compiled("cfdp.eof"), packet)
    assert not passes(compiled("cfdp.finished"), packet)


def test_a_class_of_udp_payload_does_not_pass_the_same_bytes_in_tcp() -> None:
    tcp = IPv6(src="fd00::1", dst="fd00::2") / TCP(sport=1, dport=2)

    assert not passes(compiled("cfdp.eof"), Ether() / tcp / Raw(EOF))


def test_only_packets_in_the_scope_pass() -> None:
    other = Ether() / IP(src="10.0.0.1", dst="10.0.0.2") / UDP(sport=1, dport=9) / Raw(EOF)

    assert passes(compiled("cfdp.eof", SCOPE), V4 / Raw(EOF))
    assert not passes(compiled("cfdp.eof", SCOPE), other)
    assert not passes(compiled("any", SCOPE), other)


def test_the_scope_holds_for_an_expression_with_an_or_in_it() -> None:
    other = Ether() / IP(src="10.0.0.9", dst="10.0.0.2") / ICMP()

    assert passes(compiled("icmp or udp"), other)
    assert not passes(compiled("icmp or udp", SCOPE), other)


@pytest.mark.parametrize("name", sorted(named_classes()))
def test_every_named_class_is_an_expression_of_libpcap(name: str) -> None:
    assert len(compiled(name, SCOPE)) % 8 == 0


@pytest.mark.parametrize("version", [V4, V6], ids=["IPv4", "IPv6"])
@pytest.mark.parametrize("length", [20, 21])
def test_a_changed_field_leaves_a_packet_whose_checksums_scapy_computes_too(version: Packet, length: int) -> None:
    frame = bytes(version / Raw(bytes(range(length))))
    changed = with_field(frame, FieldChange("udp", 10, b"\xab\xcd"))
    rebuilt = Ether(changed)
    del rebuilt[UDP].chksum

    assert changed != frame
    assert changed[-length + 2 : -length + 4] == b"\xab\xcd"
    assert bytes(Ether(bytes(rebuilt))) == changed


@pytest.mark.parametrize("version", [IP(src="10.0.0.1", dst="10.0.0.2"), IPv6()], ids=["IPv4", "IPv6"])
@pytest.mark.parametrize("padding", [b"", bytes(6)], ids=["whole", "padded"])
def test_a_changed_field_of_sctp_leaves_a_packet_whose_checksum_scapy_computes_too(
    version: Packet, padding: bytes
) -> None:
    frame = bytes(Ether() / version / SCTP(sport=1, dport=2, tag=7) / SCTPChunkData(tsn=1, data=b"1234567"))
    changed = with_field(frame + padding, FieldChange("sctp", 28, b"\xab\xcd"))
    rebuilt = Ether(changed[: len(frame)])
    del rebuilt[SCTP].chksum

    assert changed[len(frame) :] == padding
    assert bytes(rebuilt[SCTPChunkData].data) == b"\xab\xcd34567"
    assert bytes(rebuilt) == changed[: len(frame)]


def test_an_sctp_packet_that_is_shorter_than_its_header_keeps_its_content() -> None:
    frame = bytes(Ether() / IP(proto=132, ttl=9) / Raw(b"12345678901"))

    assert with_field(frame, FieldChange("ip", 8, b"\x08"))[34:] == frame[34:]


@pytest.mark.parametrize("transport", [UDP(), TCP(), SCTP() / Raw(bytes(4))], ids=["udp", "tcp", "sctp"])
def test_the_content_of_a_fragment_has_no_header_and_no_checksum(transport: Packet) -> None:
    whole = Ether() / IP(src="10.0.0.1", dst="10.0.0.2", ttl=9) / transport / Raw(bytes(range(200)))
    for part in fragment(whole, fragsize=104):
        frame = bytes(part)

        assert with_field(frame, FieldChange("ip", 8, b"\x08"))[34:] == frame[34:]
        assert with_field(frame, FieldChange(transport.name.lower(), 0, b"\x01")) == frame


def test_a_field_of_a_layer_that_the_packet_does_not_have_changes_nothing() -> None:
    frame = bytes(V4 / Raw(b"12345678"))

    assert with_field(frame, FieldChange("tcp", 0, b"\x01")) == frame
    assert with_field(frame, FieldChange("ip6", 0, b"\x01")) == frame
    assert with_field(frame, FieldChange("udp", 16, b"\x01")) == frame
    assert with_field(frame, FieldChange("udp", 15, b"\x01")) != frame


@pytest.mark.parametrize("frame", [b"", bytes(14), bytes(12) + b"\x08\0\x4f" + bytes(19), bytes(12) + b"\x86\xdd\0"])
def test_a_frame_that_ends_early_keeps_its_length(frame: bytes) -> None:
    for layer in ("ether", "ip", "ip6", "udp"):
        assert len(with_field(frame, FieldChange(layer, 0, b"\x01"))) == len(frame)


def test_a_frame_of_another_protocol_keeps_all_but_the_field() -> None:
    arp = bytes(12) + b"\x08\x06" + bytes(range(28))

    assert with_field(arp, FieldChange("ether", 41, b"\xff")) == arp[:-1] + b"\xff"


def test_bits_beyond_the_end_of_a_frame_do_not_count() -> None:
    assert with_flipped_bits(b"\x00\x01", [0, 15, 16, 1000]) == b"\x80\x00"


def test_rules_that_take_the_place_of_others_have_the_classes_that_the_kernel_has_filters_for() -> None:
    faults = channel(DROP | {"packet": "tcp", "occurrence": 3.0}).faults

    rules = rules_of(faults, {"forward": ["udp", "tcp"], "reverse": ["udp"]})

    assert [each.class_number for each in rules["forward"].rules] == [1]
    assert (rules["forward"].packets, rules["reverse"].rules) == (["udp", "tcp"], [])
