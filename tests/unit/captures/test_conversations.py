"""The transfer in captures that nobody described is proposed: its hosts, its direction, its ports and groups."""

from __future__ import annotations

from ipaddress import ip_address
from pathlib import Path

import pytest

from owlt.captures.frames.columns import Columns, read_columns
from owlt.captures.frames.conversations import (
    MOST_PORTS,
    Known,
    NoTransfer,
    flows_of,
    other_talks,
    own_talks,
    propose_session,
    with_chosen_groups,
)
from tests.unit.captures.making import GROUP, RECEIVER, SENDER, SESSION, flip, tcp_frame, timed, udp_frame, write_pcap
from tests.unit.captures.octets import fragments

BULK, REPLY = bytes(1000), bytes(20)
OTHER = "10.77.0.9"


def captured(folder: Path, *frames: bytes) -> Columns:
    path = folder / f"{len(list(folder.iterdir()))}.pcap"
    return read_columns(write_pcap(path, timed(frames)))


def reply(port: int = 5222, destination: str = SENDER) -> bytes:
    return udp_frame(REPLY, source=RECEIVER, destination=destination, port=port)


def test_the_sender_is_who_sent_more_bytes(tmp_path: Path) -> None:
    session = propose_session([captured(tmp_path, reply(), *[udp_frame(BULK)] * 3)])
    assert (str(session.sender_address), str(session.receiver_address)) == (SENDER, RECEIVER)


def test_a_receiver_that_asks_first_is_still_the_receiver(tmp_path: Path) -> None:
    session = propose_session([captured(tmp_path, *[reply()] * 5, udp_frame(BULK))])
    assert str(session.receiver_address) == RECEIVER


def test_the_port_is_the_one_that_all_flows_share(tmp_path: Path) -> None:
    assert propose_session([captured(tmp_path, udp_frame(BULK), udp_frame(BULK), reply())]).udp_ports == (5222,)


def test_a_direction_with_a_port_of_its_own_has_it_in_the_session(tmp_path: Path) -> None:
    at_receiver = udp_frame(REPLY, source=RECEIVER, destination=SENDER, port=5300).replace(b"\x9c\x40", b"\x9c\x41")
    frames = [*[udp_frame(BULK)] * 3, *[at_receiver] * 2]
    assert propose_session([captured(tmp_path, *frames)]).udp_ports == (5222, 5300)


def test_a_tcp_transfer_is_one_of_tcp(tmp_path: Path) -> None:
    session = propose_session([captured(tmp_path, *[tcp_frame(BULK)] * 3, udp_frame(REPLY))])
    assert (session.tcp_ports, session.udp_ports) == ((5223,), ())


def test_the_group_that_data_goes_to_is_in_the_session_with_the_host_that_answers(tmp_path: Path) -> None:
    frames = [*[udp_frame(BULK, destination=GROUP)] * 3, reply(destination=GROUP)]
    session = propose_session([captured(tmp_path, *frames)])
    assert (str(session.receiver_address), [str(group) for group in session.multicast_groups]) == (RECEIVER, [GROUP])


def test_another_group_on_another_port_is_not(tmp_path: Path) -> None:
    mdns = udp_frame(REPLY, destination="224.0.0.251", port=5353).replace(b"\x9c\x40", b"\x14\xe9")
    session = propose_session([captured(tmp_path, *[udp_frame(BULK)] * 3, *[mdns] * 2)])
    assert session.multicast_groups == ()


def test_a_group_that_nobody_answers_has_no_receiver_that_can_be_seen(tmp_path: Path) -> None:
    with pytest.raises(NoTransfer, match=f"sends to the group {GROUP}, and no host answers.*--receiver"):
        propose_session([captured(tmp_path, udp_frame(BULK, destination=GROUP))])


def test_a_session_with_groups_has_those_that_its_hosts_chose_too(tmp_path: Path) -> None:
    private = "230.5.5.56"
    at_sender = captured(tmp_path, udp_frame(REPLY, destination=GROUP), *[udp_frame(BULK, destination=private)] * 3)
    at_receiver = captured(
        tmp_path, reply(destination="230.9.9.9"), udp_frame(BULK, source=OTHER, destination="230.8.8.8")
    )
    session = with_chosen_groups(SESSION, [at_sender, at_receiver])
    assert [str(group) for group in session.multicast_groups] == [GROUP, private, "230.9.9.9"]


def test_groups_on_other_ports_are_not_chosen(tmp_path: Path) -> None:
    mdns = udp_frame(REPLY, destination="224.0.0.251", port=5353)
    assert with_chosen_groups(SESSION, [captured(tmp_path, mdns)]) == SESSION


def test_a_session_of_two_hosts_alone_gets_no_groups(tmp_path: Path) -> None:
    session = SESSION.model_copy(update={"multicast_groups": ()})
    assert with_chosen_groups(session, [captured(tmp_path, udp_frame(BULK, destination=GROUP))]) == session


def test_a_capture_of_one_host_with_itself_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(NoTransfer, match=r"from an address to itself \(127.0.0.1\).*loopback.*127.0.0.2"):
        propose_session([captured(tmp_path, *[udp_frame(BULK, source="127.0.0.1", destination="127.0.0.1")] * 3)])


def test_packets_of_a_host_to_itself_are_not_proposed_if_there_is_a_transfer(tmp_path: Path) -> None:
    to_itself = [udp_frame(BULK, source=OTHER, destination=OTHER)] * 9
    capture = captured(tmp_path, *to_itself, udp_frame(BULK), reply())
    session = propose_session([capture])
    assert str(session.sender_address) == SENDER
    assert other_talks([capture], session) == []


def test_fragments_alone_have_no_ports_and_the_error_asks_for_the_port(tmp_path: Path) -> None:
    with pytest.raises(NoTransfer, match=r"nothing but IP fragments, which have no ports.*--port udp/1113"):
        propose_session([captured(tmp_path, *fragments(bytes(3000))[1:])])


def test_frames_without_ip_are_named(tmp_path: Path) -> None:
    of_mpls, of_pppoe = (bytes(12) + kind + bytes(50) for kind in (b"\x88\x47", b"\x88\x64"))
    with pytest.raises(NoTransfer, match="only frames of these kinds: 2 MPLS, 1 PPPoE; expected a transfer"):
        propose_session([captured(tmp_path, of_mpls, of_mpls, of_pppoe)])


def test_a_port_that_was_damaged_on_the_way_is_not_the_transfers(tmp_path: Path) -> None:
    sent = [udp_frame(BULK)] * 4
    damaged = flip(udp_frame(BULK), 8 * (14 + 20 + 2) + 3)
    at_sender, at_receiver = captured(tmp_path, *sent), captured(tmp_path, *sent[1:], damaged, reply())
    assert propose_session([at_sender, at_receiver]).udp_ports == (5222,)


def test_nor_is_it_in_a_single_capture(tmp_path: Path) -> None:
    frame, both_ports = udp_frame(BULK), bytes.fromhex("9c401466")
    damaged = frame.replace(both_ports, bytes.fromhex("9c411467"))
    assert damaged != frame
    assert propose_session([captured(tmp_path, *[frame] * 3, damaged)]).udp_ports == (5222,)


def test_flows_are_counted_by_addresses_and_ports(tmp_path: Path) -> None:
    flows = flows_of(captured(tmp_path, udp_frame(BULK), udp_frame(BULK), tcp_frame(REPLY), reply()))
    counted = {(str(flow.source), flow.transport, flow.destination_port): flow.frames for flow in flows}
    assert counted == {(SENDER, "udp", 5222): 2, (SENDER, "tcp", 5223): 1, (RECEIVER, "udp", 5222): 1}


def test_a_capture_without_udp_and_tcp_has_no_transfer(tmp_path: Path) -> None:
    with pytest.raises(NoTransfer, match="no readable UDP, TCP or SCTP packets"):
        propose_session([captured(tmp_path, bytes(60))])


def test_hosts_with_too_many_ports_ask_for_them_to_be_named(tmp_path: Path) -> None:
    frames = [
        udp_frame(BULK, port=6000 + n).replace(b"\x9c\x40", (7000 + n).to_bytes(2, "big"))
        for n in range(MOST_PORTS + 2)
        for _ in range(2)
    ]
    with pytest.raises(NoTransfer, match="--port udp/1113"):
        propose_session([captured(tmp_path, *frames)])


def test_of_a_host_that_is_known_the_partner_is_who_it_talks_to_most(tmp_path: Path) -> None:
    frames = [
        *[udp_frame(BULK)] * 5,
        *[udp_frame(BULK, source=OTHER, destination=RECEIVER, port=7000)] * 3,
        udp_frame(BULK, source=OTHER, destination=SENDER, port=7001),
    ]
    columns = captured(tmp_path, *frames)
    session = propose_session([columns], Known(sender=ip_address(OTHER)))
    assert (str(session.sender_address), str(session.receiver_address)) == (OTHER, RECEIVER)
    assert session.udp_ports == (7000,)
    assert str(propose_session([columns], Known(receiver=ip_address(OTHER))).sender_address) == RECEIVER


def test_a_sender_that_is_known_sends_even_if_it_sends_less(tmp_path: Path) -> None:
    session = propose_session([captured(tmp_path, reply(), *[udp_frame(BULK)] * 3)], Known(sender=ip_address(RECEIVER)))
    assert (str(session.sender_address), str(session.receiver_address)) == (RECEIVER, SENDER)


def test_ports_that_are_known_choose_the_talk(tmp_path: Path) -> None:
    frames = [*[udp_frame(BULK)] * 5, udp_frame(BULK, source=OTHER, destination=RECEIVER, port=7000)]
    session = propose_session([captured(tmp_path, *frames)], Known(ports={"udp": (7000,)}))
    assert (str(session.sender_address), session.udp_ports) == (OTHER, (7000,))


def test_what_nobody_says_is_refused_with_what_there_is(tmp_path: Path) -> None:
    there = r"no packets on UDP 9; captured: UDP 5222 between 10\.77\.0\.1 and 10\.77\.0\.2 \(2 packets\)"
    columns = captured(tmp_path, *[udp_frame(BULK)] * 2)
    with pytest.raises(NoTransfer, match=there):
        propose_session([columns, columns], Known(ports={"udp": (9,)}))


def test_captures_without_a_frame_say_so(tmp_path: Path) -> None:
    with pytest.raises(NoTransfer, match="no frames"):
        propose_session([captured(tmp_path)])


def test_of_an_empty_capture_the_other_tells_the_session(tmp_path: Path) -> None:
    empty, other = captured(tmp_path), captured(tmp_path, *[udp_frame(BULK)] * 3)
    assert propose_session([empty, other]) == propose_session([other, empty])


def test_other_talks_are_those_beside_the_session(tmp_path: Path) -> None:
    licklider = udp_frame(REPLY, source=OTHER, port=1113)
    frames = [*[udp_frame(BULK)] * 9, *[licklider] * 4, *[tcp_frame(REPLY)] * 3]
    first, second = captured(tmp_path, *frames), captured(tmp_path, *frames[:-1])
    session = propose_session([first])
    assert [(talk.option, talk.frames) for talk in other_talks([first, second], session)] == [
        ("udp/1113", 4),
        ("tcp/5223", 3),
    ]
    assert [(talk.option, talk.frames) for talk in own_talks([first, second], session)] == [("udp/5222", 9)]


def test_damaged_packets_of_the_session_are_no_other_talk(tmp_path: Path) -> None:
    hit = [udp_frame(BULK, source="10.77.0.3")] * 2
    columns = captured(tmp_path, *[udp_frame(BULK)] * 9, *hit)
    assert other_talks([columns], propose_session([columns])) == []
