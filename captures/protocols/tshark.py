"""tshark in a child process: the protocol that it dissects on each port, and the fields of the packets that it is
given.

The `dissector` of a profile names the protocols, as options of tshark. tshark gets only the session's IP packets, from
any kind of link or file, each padded with zeros to its length on the wire: its dissectors fail on cut packets even if
the requested fields are present. The readers in captures.protocols decide which fields were captured and can be used.
"""

from __future__ import annotations

import os
import re
import shutil
import struct
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from threading import Thread, Timer
from typing import IO

import numpy as np

from owlt.captures.files.blocks import ETHERNET, ETHERNET_BYTES, RAW_IP
from owlt.captures.files.pcap import read_frames
from owlt.captures.frames.columns import Columns, Rows
from owlt.captures.frames.decoding import Transport
from owlt.captures.frames.packets import find_network
from owlt.captures.frames.session import Session, is_among

NOT_TSHARKS = ("saratoga",)
"""Protocols that can be named although tshark does not have them."""
LEFT_ALONE = "data"
"""tshark's name for data that it does not dissect."""

_HEURISTICS = {"rmt_norm_udp": "norm"}
"""The protocols of tshark's heuristics with another name."""
_DECODE_AS = re.compile(r"(udp|tcp)\.port==(\d{1,5}),([a-z0-9._-]+)")


@dataclass(frozen=True)
class Dissector:
    """The protocol on each port, from options of tshark.

    Known are `-d udp.port==PORT,NAME` and `-d tcp.port==PORT,NAME`, `--enable-heuristic NAME`, and `-o`. NAME is
    tshark's name of a protocol, or `saratoga`, which tshark does not have. `tcp.port==PORT,data` says that the bytes of
    a connection are those of the file. Over SCTP nothing is dissected. A port of the session that no option names has
    the protocol of the others, if that is one.
    """

    ports: Mapping[tuple[Transport, int], str]
    heuristics: tuple[str, ...]
    preferences: tuple[str, ...]

    def protocol(self, transport: Transport, *ports: int) -> str:
        """The protocol on the first of the ports that has one; empty if none is named."""
        for port in ports:
            if (transport, port) in self.ports:
                return self.ports[transport, port]
        names = {name for (of, _), name in self.ports.items() if of == transport}
        if transport == "udp":
            names |= {_HEURISTICS.get(name, name) for name in self.heuristics}
        return names.pop() if len(names) == 1 else ""

    def names(self) -> set[str]:
        """All protocols that are named."""
        return set(self.ports.values()) | {_HEURISTICS.get(name, name) for name in self.heuristics}

    def options(self, session: Session, not_tsharks: Sequence[str], left_alone: Sequence[Transport] = ()) -> list[str]:
        """The options of tshark for the session's ports: without `not_tsharks`, and nothing over `left_alone`."""
        options = [part for preference in self.preferences for part in ("-o", preference)]
        by_heuristic = {_HEURISTICS.get(name, name) for name in self.heuristics} - set(not_tsharks)
        options += [
            part
            for heuristic in self.heuristics
            if _HEURISTICS.get(heuristic, heuristic) in by_heuristic
            for part in ("--enable-heuristic", heuristic)
        ]
        for transport, ports in session.ports.items():
            if transport == "sctp":
                continue
            named = [port for of, port in self.ports if of == transport and is_among(port, ports)]
            ranges = [port for port in ports if isinstance(port, str)]
            for port in dict.fromkeys([*ranges, *(port for port in ports if port not in ranges), *named]):
                name = self.protocol(transport, port) if isinstance(port, int) else self.protocol(transport)
                if not name or name in not_tsharks or transport in left_alone:
                    name = LEFT_ALONE
                if name not in by_heuristic:
                    options += ["-d", f"{transport}.port=={port},{name}"]
        return options


def parse_dissector(options: Sequence[str]) -> Dissector:
    """Parse the options. Raises ValueError for an unknown one."""
    ports: dict[tuple[Transport, int], str] = {}
    heuristics, preferences = [], []
    words = iter(options)
    for option in words:
        value = next(words, None)
        if option not in ("-d", "--enable-heuristic", "-o") or value is None:
            raise ValueError(
                f"dissector: expected -d, --enable-heuristic or -o, each with its value, got {option!r}"
                f"{'' if value else ' without a value'}"
            )
        if option == "-o":
            preferences.append(value)
        elif option == "--enable-heuristic":
            heuristics.append(value)
        elif match := _DECODE_AS.fullmatch(value):
            ports[match[1], int(match[2])] = match[3]  # type: ignore[index]
        else:
            raise ValueError(f"dissector: -d: expected udp.port==5000,ltp or tcp.port==5000,data, got {value!r}")
    return Dissector(ports, tuple(heuristics), tuple(preferences))


_OPTIONS = (
    *("-o", "tcp.desegment_tcp_streams:FALSE"),  # a hundred times faster, and segments stay what they are
    *("-o", "ip.defragment:FALSE", "-o", "ipv6.defragment:FALSE"),  # the first has the headers, the last may be lost
    *("-o", "sctp.reassembly:FALSE", "-o", "sctp.ulp_dissection:FALSE", "-o", "sctp.checksum:crc-32c"),
    *("-o", "ip.check_checksum:TRUE", "-o", "udp.check_checksum:TRUE", "-o", "tcp.check_checksum:TRUE"),
)
_IP_TYPES = (b"\x08\x00", b"\x86\xdd")
_MOST_PACKET_BYTES = 16_384
"""The length up to which a packet is padded: longer ones, which no link here carries, stay cut."""
_IPV6_BYTES, _OPTION_BYTES, _LONGEST_PAYLOAD = 40, 8, 65_535
_ROWS_AT_ONCE = 4096
_PCAP_HEADER = struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 262_144, RAW_IP)
_SECONDS, _SECONDS_A_PACKET = 600, 0.01
"""The time limit of tshark: about 40 µs per packet were measured. Analysis has the lowest priority, so that on a busy
machine tshark alone takes a minute to start."""


NO_SETTINGS = "/nonexistent"
"""The directory of tshark's settings: it does not exist, so a process that is killed leaves none behind."""


class NoDissection(RuntimeError):
    """The packets could not be dissected; the text says why and what to do."""


def tshark_fields(columns: Columns, rows: Rows, options: Sequence[str], fields: Sequence[str]) -> Iterator[list[str]]:
    """The fields of the packets in these rows, as text, packet by packet.

    Raises NoDissection if tshark is missing or does not tell of all of them, OSError if the capture cannot be
    read.
    """
    command = [find_tshark(), "-n", "-r", "-", *_OPTIONS, *options, "-T", "fields", "-E", "separator=/t"]
    command += [part for field in fields for part in ("-e", field)]
    with tempfile.TemporaryFile() as complaints:
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=complaints, env=default_settings()
        ) as tshark:
            assert tshark.stdin is not None and tshark.stdout is not None
            feeding = Thread(target=partial(_feed, tshark.stdin, columns, rows), daemon=True)
            overdue = Timer(_SECONDS + _SECONDS_A_PACKET * len(rows), tshark.kill)
            feeding.start()
            overdue.start()
            count = 0
            try:
                for line in tshark.stdout:
                    values = line.decode("utf-8", "replace").rstrip("\n").split("\t")
                    if len(values) != len(fields):
                        break
                    count += 1
                    yield values
            finally:
                overdue.cancel()
                if count < len(rows):
                    tshark.kill()
                feeding.join()
                status = tshark.wait()
        if count < len(rows):
            complaints.seek(0)
            errors = complaints.read().decode("utf-8", "replace").strip().splitlines()
            raise NoDissection(
                f"{columns.path}: tshark dissected {count} of {len(rows)} packets and exited with status {status}: "
                f"{errors[-1] if errors else 'no message'}; try it by hand: {' '.join(command[:1] + list(options))}"
            )


def tshark_pdml(packets: Sequence[tuple[Columns, int]], options: Sequence[str], shown: str, protocol: str) -> bytes:
    """The packets in these rows of their columns that a display filter shows, as XML with all fields of one protocol.

    The number of a packet there (geninfo, num) is its place in the sequence, from 1. Raises NoDissection if tshark is
    missing or fails, OSError if a capture cannot be read.
    """
    command = [find_tshark(), "-n", "-r", "-", *_OPTIONS, *options, "-Y", shown, "-T", "pdml", "-J", protocol]
    records = b"".join(record for columns, row in packets for record in _records(columns, np.array([row])))
    limit_s = _SECONDS + _SECONDS_A_PACKET * len(packets)
    try:
        done = subprocess.run(
            command, input=_PCAP_HEADER + records, capture_output=True, env=default_settings(), timeout=limit_s
        )
    except subprocess.TimeoutExpired as problem:
        raise NoDissection(
            f"tshark did not finish within {limit_s:.0f} s; try it by hand: {' '.join(command)}"
        ) from problem
    if done.returncode:
        errors = done.stderr.decode("utf-8", "replace").strip().splitlines()
        raise NoDissection(f"tshark exited with status {done.returncode}: {errors[-1] if errors else 'no message'}")
    return done.stdout


def _feed(pipe: IO[bytes], columns: Columns, rows: Rows) -> None:
    """Write the packets as a capture, and close the pipe."""
    try:
        with pipe:
            pipe.write(_PCAP_HEADER)
            for first in range(0, len(rows), _ROWS_AT_ONCE):
                pipe.write(b"".join(_records(columns, rows[first : first + _ROWS_AT_ONCE])))
    except BrokenPipeError:
        pass  # tshark has ended, and who reads its lines sees that


def _records(columns: Columns, rows: Rows) -> Iterator[bytes]:
    for (packet, wire_bytes), time_ns in zip(ip_packets(columns, rows), columns.time_ns[rows].tolist(), strict=True):
        packet, wire_bytes = _with_length(packet, wire_bytes)
        length = max(min(wire_bytes, _MOST_PACKET_BYTES), len(packet))
        seconds, fraction_ns = divmod(time_ns, 1_000_000_000)
        yield struct.pack("<4I", seconds & 0xFFFFFFFF, fraction_ns, length, max(wire_bytes, length))
        yield packet.ljust(length, b"\0")


def _with_length(packet: bytes, wire_bytes: int) -> tuple[bytes, int]:
    """The packet and its length; of IPv6 with the option for jumbograms (RFC 2675) if a host left it out, without which
    tshark takes the packet for an empty one."""
    has_length = packet[4:6] != b"\0\0" or packet[6:7] == b"\0"
    if len(packet) < _IPV6_BYTES or packet[0] >> 4 != 6 or has_length or wire_bytes - _IPV6_BYTES <= _LONGEST_PAYLOAD:
        return packet, wire_bytes
    option = struct.pack(">BBBBI", packet[6], 0, 0xC2, 4, wire_bytes - _IPV6_BYTES + _OPTION_BYTES)
    return packet[:6] + b"\0" + packet[7:_IPV6_BYTES] + option + packet[_IPV6_BYTES:], wire_bytes + _OPTION_BYTES


def ip_packets(columns: Columns, rows: Rows) -> list[tuple[bytes, int]]:
    """The IP packet in each of these rows' frames as far as captured, without what is before it, and its length (with
    padding behind it) on the wire."""
    frames = read_frames(columns.path, columns.offset[rows], columns.captured_bytes[rows])
    packets = []
    for frame, wire_bytes in zip(frames, columns.wire_bytes[rows].tolist(), strict=True):
        is_plain = columns.link_type == ETHERNET and frame[12:14] in _IP_TYPES
        begin = ETHERNET_BYTES if is_plain else find_network(frame, columns.link_type)[1]
        packets.append((frame[begin:], wire_bytes - begin))
    return packets


def default_settings() -> dict[str, str]:
    """An environment in which tshark finds none of the user's settings, which would change the results."""
    return os.environ | {"WIRESHARK_CONFIG_DIR": NO_SETTINGS}


@cache
def tshark_version() -> str:
    """The first line of `tshark --version`. Raises NoDissection if there is none."""
    done = subprocess.run([find_tshark(), "--version"], capture_output=True, text=True, check=False, timeout=_SECONDS)
    return done.stdout.partition("\n")[0]


def find_tshark() -> str:
    """The path of the program. Raises NoDissection if there is none."""
    path = shutil.which("tshark")
    if path is None:
        raise NoDissection("tshark: not found on PATH: install it: apt-get install tshark")
    return path
