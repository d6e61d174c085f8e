"""Interfaces of this machine that the emulator must not take; looking needs no rights."""

from __future__ import annotations

from pathlib import Path

import pytest

from owlt.emulator.faults import PortRefused
from owlt.emulator.kernel.ports import checked_port, find_port, residents, survey
from owlt.emulator.kernel.rtnetlink import open_rtnetlink
from owlt.emulator.service.emulator import Emulator


def refusal(name: str) -> str:
    with open_rtnetlink() as netlink, pytest.raises(PortRefused) as refused:
        checked_port(survey(netlink), residents(netlink), name)
    return str(refused.value)


def test_the_loopback_interface_is_refused() -> None:
    assert "port lo: is the loopback interface; has the address 127.0.0.1" in refusal("lo")


def test_the_interface_of_the_default_route_is_refused() -> None:
    routes = [line.split() for line in Path("/proc/net/route").read_text().splitlines()[1:]]
    carriers = [route[0] for route in routes if route[1] == route[7] == "00000000"]
    if not carriers:
        pytest.skip("this machine has no default route")

    assert "carries a default route" in refusal(carriers[0])


def test_an_interface_that_is_not_there_is_refused_with_those_that_are() -> None:
    assert "port no-such0: got no such interface, expected one of: " in refusal("no-such0")
    assert "lo" in refusal("no-such0")


def test_an_interface_is_found_by_its_name() -> None:
    with open_rtnetlink() as netlink:
        port = find_port(survey(netlink), "lo")

    assert port is not None
    assert port.index == int(Path("/sys/class/net/lo/ifindex").read_text())


def test_one_interface_cannot_be_both_ports() -> None:
    with pytest.raises(PortRefused, match="both ports: got lo, expected two"):
        Emulator("lo", "lo")
