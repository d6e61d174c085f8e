"""Frames, captures and channels to test with, made by scapy and by hand: nothing of the code under test."""

from __future__ import annotations

import random
import struct
import subprocess
from collections.abc import Iterable, Sequence
from ipaddress import IPv4Address
from pathlib import Path

from scapy.layers.inet import IP
from scapy.layers.l2 import Ether
from scapy.layers.sctp import SCTP, SCTPChunkData

from owlt.captures.frames.session import Session
from tests.conftest import require_command

DATA = Path(__file__).parent / "data"
GOLDEN = Path(__file__).parent / "golden"
GOLDEN_NAMES = sorted(path.name for pattern in ("*.pcap", "*.pcapng") for path in GOLDEN.glob(pattern))
SENDER, RECEIVER, GROUP = "10.77.0.1", "10.77.0.2", "224.1.2.3"
SENDER_6, RECEIVER_6, GROUP_6 = "2001:db8::1", "2001:db8::2", "ff02::5222"
SENDER_MAC, RECEIVER_MAC = "02:00:00:00:00:01", "02:00:00:00:00:02"
SESSION = Session(
    sender_address=SENDER,
    receiver_address=RECEIVER,
    udp_ports=(5222,),
    tcp_ports=(5223,),
    sctp_ports=(5224,),
    multicast_groups=(GROUP,),
)
SESSION_6 = Session(
    sender_address=SENDER_6,
    receiver_address=RECEIVER_6,
    udp_ports=(5222,),
    tcp_ports=(5223,),
    sctp_ports=(5224,),
    multicast_groups=(GROUP_6,),
)
_EPHEMERAL_PORT = 40000
_TCP, _UDP = 6, 17
START_NS = 1_700_000_000_000_000_000

Timed = tuple[int, bytes]
"""Time in ns, frame."""


def ethernet(source: str = SENDER) -> Ether:
    """An Ethernet header from the host with that address."""
    macs = (SENDER_MAC, RECEIVER_MAC) if source == SENDER else (RECEIVER_MAC, SENDER_MAC)
    return Ether(src=macs[0], dst=macs[1])


def udp_frame(
    payload: bytes,
    source: str = SENDER,
    destination: str = RECEIVER,
    port: int = 5222,
    identification: int = 0,
) -> bytes:
    """A frame with a UDP datagram, from an ephemeral port to `port`."""
    header = struct.pack("!HHHH", _EPHEMERAL_PORT, port, 8 + len(payload), 0)
    return _ipv4_frame(source, destination, _UDP, header + payload, checksum_at=6, identification=identification)


def tcp_frame(payload: bytes, source: str = SENDER, destination: str = RECEIVER, sequence: int = 1) -> bytes:
    """A frame with a TCP segment, from an ephemeral port to 5223."""
    header = struct.pack("!HHIIBBHHH", _EPHEMERAL_PORT, 5223, sequence, 0, 5 << 4, 0x18, 8192, 0, 0)
    return _ipv4_frame(source, destination, _TCP, header + payload, checksum_at=16, identification=1)


def sctp_frame(payload: bytes, source: str = SENDER, destination: str = RECEIVER, number: int = 1) -> bytes:
    """A frame with a DATA chunk, whose TSN is `number`, from an ephemeral port to 5224."""
    chunk = SCTPChunkData(tsn=number, data=payload, beginning=1, ending=1)
    packet = IP(src=source, dst=destination, id=1, flags="DF") / SCTP(sport=_EPHEMERAL_PORT, dport=5224, tag=7) / chunk
    return bytes(ethernet(source) / packet)


def _ipv4_frame(
    source: str, destination: str, protocol: int, segment: bytes, checksum_at: int, identification: int
) -> bytes:
    """By hand, because scapy takes a millisecond for a frame."""
    addresses = IPv4Address(source).packed + IPv4Address(destination).packed
    pseudo_header = addresses + struct.pack("!HH", protocol, len(segment))
    checksum = _checksum(pseudo_header + segment) or (0xFFFF if protocol == _UDP else 0)  # RFC 768: 0 means none
    segment = segment[:checksum_at] + checksum.to_bytes(2, "big") + segment[checksum_at + 2 :]
    fields = struct.pack("!BBHHHBB", 0x45, 0, 20 + len(segment), identification, 0x4000, 64, protocol)
    header = fields + _checksum(fields + addresses).to_bytes(2, "big") + addresses
    macs = (RECEIVER_MAC, SENDER_MAC) if source == SENDER else (SENDER_MAC, RECEIVER_MAC)
    return bytes.fromhex("".join(macs).replace(":", "")) + b"\x08\x00" + header + segment


def _checksum(data: bytes) -> int:
    """RFC 1071."""
    words = struct.unpack(f"!{(len(data) + 1) // 2}H", data + bytes(len(data) % 2))
    total: int = sum(words)
    while total > 0xFFFF:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def flip(frame: bytes, bit: int) -> bytes:
    """The frame with one bit flipped, counted from the most significant bit of its first byte."""
    damaged = bytearray(frame)
    damaged[bit // 8] ^= 0x80 >> bit % 8
    return bytes(damaged)


def timed(frames: Iterable[bytes], step_ns: int = 1_000_000, start_ns: int = START_NS) -> list[Timed]:
    """The frames at equal distances in time."""
    return [(start_ns + number * step_ns, frame) for number, frame in enumerate(frames)]


def later(frames: Iterable[Timed], delay_ns: int) -> list[Timed]:
    """The same frames behind a channel that only delays."""
    return [(time + delay_ns, frame) for time, frame in frames]


def write_pcap(
    path: Path, frames: Sequence[Timed], byte_order: str = "<", tick_ns: int = 1, snaplen: int = 262_144
) -> Path:
    """A pcap file with the frames, each cut to `snaplen` bytes."""
    magic = 0xA1B23C4D if tick_ns == 1 else 0xA1B2C3D4
    parts = [struct.pack(byte_order + "IHHiIII", magic, 2, 4, 0, 0, snaplen, 1)]
    for time_ns, frame in frames:
        seconds, rest_ns = divmod(time_ns, 1_000_000_000)
        kept = frame[:snaplen]
        parts.append(struct.pack(byte_order + "IIII", seconds, rest_ns // tick_ns, len(kept), len(frame)) + kept)
    path.write_bytes(b"".join(parts))
    return path


def write_headers(capture: Path, target: Path, frame_bytes: int = 96) -> Path:
    """The capture with only so many bytes of each frame, cut by editcap."""
    command = [require_command("editcap"), "-F", "nsecpcap", "-s", str(frame_bytes), str(capture), str(target)]
    subprocess.run(command, check=True, capture_output=True)
    return target


def tshark_rows(capture: Path, display_filter: str, *options: str) -> list[int]:
    """The rows (from 0) of the frames that tshark's display filter passes."""
    command = [require_command("tshark"), "-r", str(capture), *options, "-Y", display_filter]
    told = subprocess.run([*command, "-T", "fields", "-e", "frame.number"], capture_output=True, text=True, check=True)
    return [int(number) - 1 for number in told.stdout.split()]


def capinfos(capture: Path, option: str) -> str:
    """One value that capinfos knows of a capture, by the option that asks for it."""
    command = [require_command("capinfos"), "-T", "-r", "-M", "-S", option, str(capture)]
    told = subprocess.run(command, capture_output=True, text=True, check=False)
    value: str = told.stdout.split("\t")[-1].strip()
    return value


def corrupting_channel(
    frames: Sequence[Timed], seed: int, loss: float, corruption: float, delay_ns: int = 25_000_000
) -> tuple[list[Timed], set[int], dict[int, int]]:
    """What netem does with `loss` and `corrupt`: the delivered frames, and which ones it lost or flipped a
    bit of."""
    chance = random.Random(seed)
    delivered, lost, flipped = [], set(), {}
    for number, (time_ns, frame) in enumerate(frames):
        if chance.random() < loss:
            lost.add(number)
            continue
        if chance.random() < corruption:
            flipped[number] = chance.randrange(8 * len(frame))
            frame = flip(frame, flipped[number])
        delivered.append((time_ns + delay_ns, frame))
    return delivered, lost, flipped
