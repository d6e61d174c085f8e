"""What belongs to a session: packets to its groups, by their sender; and which sessions are refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from pydantic import ValidationError

from owlt.captures.frames.columns import read_columns
from owlt.captures.frames.session import Host, Session, sent_by
from tests.unit.captures.making import (
    GROUP,
    GROUP_6,
    RECEIVER,
    RECEIVER_6,
    SENDER,
    SESSION,
    SESSION_6,
    timed,
    udp_frame,
    write_pcap,
)

"""No shrinking, for each example starts tshark."""


def rows_of(capture: Path, host: Host, session: Session = SESSION) -> list[int]:
    rows: list[int] = np.flatnonzero(sent_by(read_columns(capture), session, host)).tolist()
    return rows


def test_a_session_of_ipv6_survives_its_json() -> None:
    assert Session.model_validate_json(SESSION_6.model_dump_json()) == SESSION_6


def test_a_packet_to_a_group_belongs_to_its_sender(tmp_path: Path) -> None:
    capture = write_pcap(tmp_path / "x.pcap", timed([udp_frame(b"data", destination=GROUP)]))
    assert (rows_of(capture, "sender"), rows_of(capture, "receiver")) == ([0], [])


def test_a_packet_to_a_group_that_is_not_the_sessions_does_not_belong(tmp_path: Path) -> None:
    capture = write_pcap(tmp_path / "x.pcap", timed([udp_frame(b"data", destination="224.0.0.251")]))
    assert rows_of(capture, "sender") == []


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"receiver_address": SENDER}, "are both 10.77.0.1, expected two hosts"),
        ({"udp_ports": [], "tcp_ports": []}, "name those that the protocol uses"),
        ({"udp_ports": [0]}, "greater than or equal to 1"),
        ({"multicast_groups": ["10.0.0.1"]}, "got 10.0.0.1, expected addresses in 224.0.0.0/4"),
        ({"receiver_address": RECEIVER_6}, "got IPv4 and IPv6, expected one"),
        ({"multicast_groups": [GROUP_6]}, "got IPv4 and IPv6, expected one"),
        ({"udp_port": 5}, "udp_port"),
    ],
)
def test_a_session_that_makes_no_sense_is_refused(change: dict[str, object], text: str) -> None:
    good = {"sender_address": SENDER, "receiver_address": RECEIVER, "udp_ports": [5222]}
    with pytest.raises(ValidationError, match=text):
        Session.model_validate({**good, **change})
