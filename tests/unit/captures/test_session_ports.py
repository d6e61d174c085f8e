"""Ports of a session as numbers and ranges."""

from __future__ import annotations

import numpy as np
import pytest
from pydantic import ValidationError

from owlt.captures.frames.conversations import Known
from owlt.captures.frames.session import ANY, Session, are_among, bounds, is_among, port_text, summary_filter
from owlt.captures.protocols.tshark import parse_dissector
from tests.unit.captures.making import RECEIVER, SENDER

RANGED = Session(sender_address=SENDER, receiver_address=RECEIVER, udp_ports=(5000, "6000-6999"))
ANYWHERE = Session(sender_address=SENDER, receiver_address=RECEIVER, udp_ports=(ANY,), tcp_ports=(ANY,))


def test_a_range_has_its_ends_and_what_is_between_and_nothing_else() -> None:
    numbers = np.array([4999, 5000, 5001, 5999, 6000, 6500, 6999, 7000], np.uint16)

    assert numbers[are_among(numbers, RANGED.udp_ports)].tolist() == [5000, 6000, 6500, 6999]
    assert [number for number in numbers.tolist() if is_among(number, RANGED.udp_ports)] == [5000, 6000, 6500, 6999]


@pytest.mark.parametrize("wrong", ["6999-6000", "0-10", "6000-70000", "6000-", "any", "-1"])
def test_what_is_no_range_of_ports_is_refused(wrong: str) -> None:
    with pytest.raises(ValueError, match="expected a port from 1 to 65535, or a range"):
        bounds(wrong)
    with pytest.raises(ValidationError):
        Session(sender_address=SENDER, receiver_address=RECEIVER, udp_ports=(wrong,))


def test_a_session_is_read_back_as_it_was_written() -> None:
    assert Session.model_validate_json(RANGED.model_dump_json()) == RANGED


def test_tshark_is_asked_for_the_range() -> None:
    assert "udp.port#1 in {5000, 6000..6999}" in summary_filter(RANGED)


def test_any_port_is_in_words_what_it_is() -> None:
    assert ANYWHERE.port_texts == ["any UDP port", "any TCP port"]
    assert RANGED.port_texts == ["UDP 5000", "UDP 6000-6999"]
    assert port_text("sctp", 69) == "SCTP 69"


def test_a_dissector_is_given_the_range_and_then_the_ports_that_are_named() -> None:
    options = parse_dissector(["-d", "udp.port==6500,ltp"]).options(RANGED, [])

    assert options == ["-d", "udp.port==6000-6999,ltp", "-d", "udp.port==5000,ltp", "-d", "udp.port==6500,ltp"]


def test_what_is_known_of_a_session_can_be_a_range() -> None:
    flow = type("Flow", (), {"ports": {6500, 40_000}, "transport": "udp"})()

    assert Known(ports={"udp": ("6000-6999",)}).has_ports(flow)
    assert not Known(ports={"udp": ("7000-7999",)}).has_ports(flow)
