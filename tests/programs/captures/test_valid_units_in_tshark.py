"""tshark reads from valid protocol data units the numbers with which they were written, which shows that the units
follow their specifications and not only owlt's readers. A unit that tshark 4.0 reads wrongly is marked."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.conftest import require_command
from tests.unit.captures.making import timed, write_pcap
from tests.unit.captures.octets import RECEIVER_SAYS, SENDER_SAYS, frame
from tests.unit.captures.test_valid_units import PROTOCOLS, WITHOUT_DISSECTOR
from tests.unit.captures.valid_units import Unit

FEWEST = {"CFDP": 180, "LTP": 44, "NORM": 60, "bundle": 40}
"""Units that are compared: all but those that tshark 4.0 reads wrongly."""


def from_own_port(octets: bytes, number: int) -> bytes:
    """The datagram from its own port, without a checksum: tshark applies the protocol of a packet to all later packets
    of its conversation."""
    port = (40_000 + number).to_bytes(2, "big")
    return octets[:34] + port + octets[36:40] + b"\0\0" + octets[42:]


def fields_in_tshark(capture: Path, protocol: str, names: list[str]) -> list[dict[str, str]]:
    """The first value of each field, frame by frame."""
    command = [require_command("tshark"), "-n", "-r", str(capture), "-d", f"udp.port==5222,{protocol}"]
    command += ["-T", "fields", "-E", "separator=/t", "-E", "occurrence=f"]
    told = subprocess.run(
        command + [part for name in names for part in ("-e", name)], capture_output=True, text=True, check=True
    )
    return [dict(zip(names, line.split("\t"), strict=True)) for line in told.stdout.splitlines()]


def is_shown(value: str, expected: int) -> bool:
    return {"True": "1", "False": "0"}.get(value, value) not in ("",) and int(
        {"True": "1", "False": "0"}.get(value, value), 0
    ) == expected


@pytest.mark.parametrize("protocol", [name for name in PROTOCOLS if name not in WITHOUT_DISSECTOR])
def test_numbers_of_valid_units_are_those_of_tshark(tmp_path: Path, protocol: str) -> None:
    units: list[Unit] = [unit for unit in PROTOCOLS[protocol][1]() if not unit.wrong]
    frames = [
        from_own_port(frame(unit.octets, RECEIVER_SAYS if unit.from_receiver else SENDER_SAYS), number)
        for number, unit in enumerate(units)
    ]
    names = sorted({name for unit in units for name in unit.fields})
    capture = write_pcap(tmp_path / "x.pcap", timed(frames))
    shown = fields_in_tshark(capture, protocol.lower(), ["_ws.malformed", *names])

    different = [
        (unit.octets.hex()[:80], name, values[name], expected)
        for unit, values in zip(units, shown, strict=True)
        for name, expected in unit.fields.items()
        if not is_shown(values[name], expected)
    ]
    malformed = [unit.octets.hex()[:80] for unit, values in zip(units, shown, strict=True) if values["_ws.malformed"]]

    assert len(units) >= FEWEST[protocol]
    assert not different
    assert not malformed
