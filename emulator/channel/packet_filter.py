"""Which packets a fault is aimed at: an expression of pcap-filter(7), or a named class of profiles/packets/.

libpcap compiles an expression to classic BPF, as tcpdump does. Its `udp[...]` and `tcp[...]` index IPv4 packets alone;
here they index IPv6 packets without extension headers too.
"""

from __future__ import annotations

import ctypes
import re
import struct
from functools import cache, lru_cache
from ipaddress import ip_network
from typing import Any

from owlt import PACKAGE
from owlt.inputs.mistake import Invalid, Mistake, did_you_mean, got
from owlt.inputs.reader import read_yaml

ANY = "any"
"""The class of all packets of the session."""
LONGEST_EXPRESSION = 4000
_CLASSES = PACKAGE / "profiles" / "packets"
_NAME = re.compile(r"[a-z0-9-]+\.[a-z0-9-]+")
_VERSION = re.compile(r"v?\d+$")
_INDEX = re.compile(r"\b(udp|tcp|sctp)\s*\[")
NUMBERS = {"udp": 17, "tcp": 6, "sctp": 132}
"""The numbers of the transports (IANA)."""
_LIBRARIES = ("libpcap.so.0.8", "libpcap.so.1")
"""The names of the library: Debian's, and the usual one."""
_ETHERNET, _LONGEST_FRAME, _NO_NETMASK = 1, 65_535, 0xFFFF_FFFF
_INSTRUCTION_BYTES = 8
_MOST_INSTRUCTIONS = 4096
"""BPF_MAXINSNS: the kernel accepts no longer program."""


def named_classes() -> dict[str, tuple[str, str]]:
    """The expression and the meaning of each class, by its name, such as "cfdp.eof"."""
    return {
        f"{file.stem}.{name}": (described["filter"], described["meaning"])
        for file in sorted(_CLASSES.glob("*.yaml"))
        for name, described in _content(file.stem)["packets"].items()
    }


@cache
def _content(protocol: str) -> dict[str, Any]:
    return dict(read_yaml(_CLASSES / f"{protocol}.yaml").value)


def classes_of(protocol: str) -> list[str]:
    """The names of the classes of a protocol, such as "CFDP", of each of its versions."""
    family = _VERSION.sub("", protocol.lower())
    return [name for name in named_classes() if _VERSION.sub("", name.partition(".")[0]) == family]


def expression_of(packet: str) -> str:
    """The expression of pcap-filter(7) for a named class; "" for `any`; an expression is returned unchanged.

    Raises Invalid if there is no class of that name.
    """
    if packet == ANY:
        return ""
    if not _NAME.fullmatch(packet):
        return packet
    protocol, _, name = packet.partition(".")
    protocols = [file.stem for file in sorted(_CLASSES.glob("*.yaml"))]
    known = list(_content(protocol)["packets"]) if protocol in protocols else []
    if name in known:
        return str(_content(protocol)["packets"][name]["filter"])
    names = list(named_classes())
    listed = f"the classes of {protocol} are {', '.join(known)}" if known else f"protocols: {', '.join(protocols)}"
    fix = did_you_mean(packet, names, listed)
    raise Invalid(Mistake(got(packet), "a class of packets, any, or an expression of pcap-filter(7)", fix))


def over_both_versions(expression: str) -> str:
    """The expression for IPv4 or IPv6: indices into UDP, TCP and SCTP are those into the payload of an IPv6 header.

    pcap-filter(7) has no such index for IPv6; "udp[8:2]" is "ip6[40+8:2]" where the next header is UDP.
    """
    transports = sorted({match[1] for match in _INDEX.finditer(expression)})
    if not transports:
        return expression
    over_ipv6 = _INDEX.sub("ip6[40+", expression)
    is_next = " or ".join(f"ip6[6] = {NUMBERS[transport]}" for transport in transports)
    return f"(ip and ({expression})) or (ip6 and ({is_next}) and ({over_ipv6}))"


def compiled(packet: str, scope: str = "") -> bytes:
    """The classic BPF program (struct sock_filter, 8 bytes per instruction) that passes Ethernet frames of a class, if
    the expression `scope` passes them too. Raises Invalid with libpcap's message.
    """
    expression = expression_of(packet)
    if len(expression) > LONGEST_EXPRESSION:
        problem = f"got {len(expression):,} characters"
        raise Invalid(Mistake(problem, f"an expression of at most {LONGEST_EXPRESSION:,}"))
    _require_no_names(expression, packet)
    _require_no_names(scope, scope)
    alone = _compiled(expression, packet)  # with a parenthesis too many, it might escape from the scope
    both = [part for part in (scope, over_both_versions(expression)) if part]
    try:
        return _compiled(" and ".join(f"({part})" for part in both), packet) if both else alone
    except Invalid as error:
        if scope and _REJECTS_ALL in str(error):
            return _PASS_NONE
        raise


def passes(program: bytes, frame: bytes, frame_bytes: int) -> bool:
    """Whether a compiled class passes a frame of `frame_bytes`, of which a capture has the first bytes, as `frame`."""
    code = ctypes.create_string_buffer(program, len(program))
    compiled_program = _Program(len(program) // _INSTRUCTION_BYTES, ctypes.addressof(code))
    header = _Header(captured_bytes=len(frame), frame_bytes=frame_bytes)
    return bool(_library().pcap_offline_filter(ctypes.byref(compiled_program), ctypes.byref(header), frame))


_WORD = re.compile(r"[\w.:\\-]+")
_NUMBER = re.compile(r"\d{1,10}|0[xX][0-9a-fA-F]{1,8}|\d*:\d*|(?:[0-9a-fA-F]{1,2}:){5}[0-9a-fA-F]{1,2}")
_PORTS = re.compile(r"\d{1,5}-\d{1,5}")
_KEYWORDS = frozenset(
    re.findall(
        r"[\w-]+",
        "and or not src dst host net mask port portrange proto protochain inbound outbound ether ip ip6 arp rarp tcp "
        "udp icmp icmp6 igmp sctp esp ah vlan mpls pppoes broadcast multicast less greater len length "
        "icmptype icmpcode icmp6type icmp6code icmp-echo icmp-echoreply icmp-unreach icmp-timxceed icmp6-echo "
        "icmp6-echoreply icmp6-packettoobig tcpflags tcp-fin tcp-syn tcp-rst tcp-push tcp-ack tcp-urg tcp-ece tcp-cwr",
    )
)


def _require_no_names(expression: str, packet: str) -> None:
    """Raise Invalid for names of hosts, networks, ports and protocols: libpcap would ask name servers, which may take
    minutes, and another machine may have another answer.
    """
    before = ""
    for word in (each.lstrip("-") for each in _WORD.findall(expression)):  # "udp[8]-1"
        is_range = before == "portrange" and _PORTS.fullmatch(word)
        if word and not (word in _KEYWORDS or _NUMBER.fullmatch(word) or _is_network(word) or is_range):
            expected = "keywords of pcap-filter(7), addresses and numbers, separated by spaces"
            fix = "write names as addresses or numbers; 'owlt channel packets' lists the named classes"
            raise Invalid(Mistake(f"{got(packet)}: {word!r}", expected, fix))
        before = word


def _is_network(word: str) -> bool:
    try:
        return bool(ip_network(word, strict=False))
    except ValueError:
        return bool(re.fullmatch(r"\d{1,3}(\.\d{1,3}){1,2}", word))  # "net 10.1"


_REJECTS_ALL = "rejects all packets"
_PASS_NONE = struct.pack("=HBBI", 0x06, 0, 0, 0)  # BPF_RET | BPF_K: 0


@lru_cache(maxsize=256)
def _compiled(expression: str, packet: str) -> bytes:
    """The program of an expression; `packet` is the expression or class as the user wrote it. Raises Invalid."""
    library = _library()
    handle = library.pcap_open_dead(_ETHERNET, _LONGEST_FRAME)
    program = _Program()
    try:
        if library.pcap_compile(handle, ctypes.byref(program), expression.encode(), 1, _NO_NETMASK):
            said = library.pcap_geterr(handle).decode(errors="replace")
            problem, fix = f"{got(packet)}: libpcap: {said}", "'owlt channel packets' lists the named classes"
            raise Invalid(Mistake(problem, "a class of packets, any, or an expression of pcap-filter(7)", fix))
        if program.length > _MOST_INSTRUCTIONS:
            problem = f"got an expression of {program.length:,} instructions"
            raise Invalid(Mistake(problem, f"at most {_MOST_INSTRUCTIONS:,}", "use a simpler one"))
        instructions = ctypes.string_at(program.instructions, program.length * _INSTRUCTION_BYTES)
        library.pcap_freecode(ctypes.byref(program))
        return instructions
    finally:
        library.pcap_close(handle)


class _Program(ctypes.Structure):
    """libpcap's struct bpf_program."""

    _fields_ = [("length", ctypes.c_uint), ("instructions", ctypes.c_void_p)]


class _Header(ctypes.Structure):
    """libpcap's struct pcap_pkthdr."""

    _fields_ = [
        ("seconds", ctypes.c_long),
        ("microseconds", ctypes.c_long),
        ("captured_bytes", ctypes.c_uint32),
        ("frame_bytes", ctypes.c_uint32),
    ]


@cache
def _library() -> Any:
    for name in _LIBRARIES:
        try:
            library = ctypes.CDLL(name)
        except OSError:
            continue
        library.pcap_open_dead.restype = ctypes.c_void_p
        library.pcap_compile.argtypes = [
            *(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int, ctypes.c_uint32)
        ]
        library.pcap_geterr.restype, library.pcap_geterr.argtypes = ctypes.c_char_p, [ctypes.c_void_p]
        library.pcap_offline_filter.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p]
        library.pcap_freecode.argtypes = library.pcap_close.argtypes = [ctypes.c_void_p]
        return library
    raise Invalid(Mistake("packets: libpcap is not installed", fix="install tcpdump (Debian), which needs it"))
