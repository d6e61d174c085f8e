"""The protocol on each port of a session, as options of tshark in a profile's `dissector`. Running tshark belongs to
tshark.py, reading messages to captures.protocols.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from owlt.captures.frames.decoding import Transport
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
