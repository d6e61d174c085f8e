"""The readers of ports, in profiles and in records, agree."""

from __future__ import annotations

import pytest

from owlt.agents.contract.ports import parse_ports
from owlt.agents.contract.session_ports import SessionPorts
from owlt.captures.frames.session import bounds

RANGES = ["1-1", "6000-6999", "1-65535", "00080-00081"]
NOT_RANGES = [
    "6999-6000",
    "0-10",
    "6000-70000",
    "6000-",
    "-1",
    "-",
    "any",
    "6000-6999-7000",
    " 6000-6999",
    "6000 - 6999",
]


@pytest.mark.parametrize("text", RANGES)
def test_both_readers_give_a_range_the_same_ends(text: str) -> None:
    ports = parse_ports(text)

    assert bounds(text) == (ports[0], ports[-1])


@pytest.mark.parametrize("text", NOT_RANGES)
def test_both_readers_refuse_the_same_texts(text: str) -> None:
    for read in (parse_ports, bounds):
        with pytest.raises(ValueError, match="expected a port from 1 to 65535, or a range"):
            read(text)


@pytest.mark.parametrize("written", [5000, "5000", "05000", "5000-5000", "6000-6999"])
def test_ports_of_a_profile_can_be_read_from_a_record(written: int | str) -> None:
    [recorded] = SessionPorts.model_validate({"udp_ports": [written]}).udp_ports
    ports = parse_ports(written)

    assert bounds(recorded) == (ports[0], ports[-1])


@pytest.mark.parametrize("written", [0, 65536, -1, True, 5000.0, None, ["6000", "6999"]])
def test_what_is_neither_a_number_nor_a_range_is_refused(written: object) -> None:
    with pytest.raises(ValueError, match="expected a port"):
        parse_ports(written)
