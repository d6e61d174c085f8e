"""What our LTP endpoints write, tshark reads with the same values."""

import struct
import subprocess
from pathlib import Path

import pytest

from owlt.agents.ltp.segments import CancelAck, encode
from tests.conftest import require_command
from tests.unit.agents.test_ltp_segments import ONE_OF_EACH

READABLE = {kind: segment for kind, segment in ONE_OF_EACH.items() if not isinstance(segment, CancelAck)}

FIELDS = {
    "ltp.type": [f"0x{int(kind):02x}" for kind in READABLE],
    "ltp.session.orig": ["1"] * 10,
    "ltp.session.number": ["300"] * 10,
    "ltp.data.client.id": ["2"] * 6 + [""] * 4,
    "ltp.data.offset": ["0", "3", "6", "6", "9", "14"] + [""] * 4,
    "ltp.data.length": ["3", "3", "3", "3", "5", "5"] + [""] * 4,
    "ltp.data.chkp": ["", "300", "301", "302"] + [""] * 6,
    "ltp.data.rpt": ["", "0", "5", "5"] + [""] * 6,
    "ltp.rpt.sno": [""] * 6 + ["5", "", "", ""],
    "ltp.rpt.chkp": [""] * 6 + ["300", "", "", ""],
    "ltp.rpt.ub": [""] * 6 + ["9000", "", "", ""],
    "ltp.rpt.lb": [""] * 6 + ["1000", "", "", ""],
    "ltp.rpt.clm.off": [""] * 6 + ["0,3000", "", "", ""],
    "ltp.rpt.clm.len": [""] * 6 + ["2000,500", "", "", ""],
    "ltp.rpt.ack.sno": [""] * 7 + ["5", "", ""],
    "ltp.cancel.code": [""] * 8 + ["0x02", "0x03"],
    "_ws.malformed": [""] * 10,
}


@pytest.fixture(scope="module")
def as_tshark_reads(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """The fields of one segment of each type that tshark reads, from a capture of raw IPv4 packets."""
    tshark = require_command("tshark")
    capture: Path = tmp_path_factory.mktemp("ltp") / "segments.pcap"
    capture.write_bytes(_pcap([encode(segment) for segment in READABLE.values()]))
    wanted = [argument for field in FIELDS for argument in ("-e", field)]
    command = [tshark, "-r", str(capture), "-T", "fields", *wanted]
    shown = subprocess.run(command, capture_output=True, text=True, check=False)
    assert shown.returncode == 0, shown.stderr
    rows = [line.split("\t") for line in shown.stdout.splitlines()]
    return {field: [row[at] for row in rows] for at, field in enumerate(FIELDS)}


@pytest.mark.parametrize("field", FIELDS)
def test_tshark_reads_what_was_written(field: str, as_tshark_reads: dict[str, list[str]]) -> None:
    assert as_tshark_reads[field] == FIELDS[field]


def _pcap(payloads: list[bytes]) -> bytes:
    """UDP datagrams between two ports 1113, each in a packet of its own; link type 101 is raw IP."""
    capture = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 101)
    for second, payload in enumerate(payloads):
        length = 28 + len(payload)
        addresses = bytes((10, 77, 0, 1, 10, 77, 0, 2))
        packet = struct.pack(">BBHHHBBH", 0x45, 0, length, second, 0, 64, 17, 0) + addresses
        packet += struct.pack(">HHHH", 1113, 1113, length - 20, 0) + payload
        capture += struct.pack("<IIII", second, 0, length, length) + packet
    return capture
