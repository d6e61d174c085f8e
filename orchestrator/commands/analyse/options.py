"""Options that describe captures of any origin: they and the packets together give the case that is analysed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Any

from pydantic import ValidationError

from owlt.captures.frames.columns import Columns
from owlt.captures.frames.conversations import Known, NoTransfer, propose_session, with_chosen_groups
from owlt.captures.frames.session import Session, bounds
from owlt.captures.inspection.inspection import Case
from owlt.captures.matches.bottleneck import Link
from owlt.inputs.mistake import Invalid, Mistake
from owlt.inputs.quantities import parse_delay_ns, parse_rate_bps, parse_size_bytes
from owlt.inputs.validation import mistakes_in
from owlt.orchestrator.commands.analyse.traffic import require_session_packets
from owlt.orchestrator.errors import OwltError
from owlt.orchestrator.profiles.catalogue import find_implementation


@dataclass(frozen=True)
class CaptureOptions:
    """Options of the command line that describe captures; "" and () if not given."""

    implementation: str = ""
    sender: str = ""
    receiver: str = ""
    ports: Sequence[str] = ()
    """Such as udp/1113."""
    groups: Sequence[str] = ()
    file_size: str = ""
    delay: str = ""
    rate: str = ""
    two_clocks: bool = False

    @property
    def delay_ns(self) -> int | None:
        """The channel's one-way delay; None: not given. Raises OwltError."""
        return int(_quantity("--delay", self.delay, parse_delay_ns)) if self.delay else None


def case_of_captures(captures: Sequence[Columns], options: CaptureOptions) -> Case:
    """The case of captures of any origin. A session that the options leave open is inferred from the packets.

    Raises OwltError, naming the option that is wrong.
    """
    implementation = find_implementation(options.implementation) if options.implementation else None
    given: dict[str, Any] = {}
    if implementation is not None:
        try:
            given |= {kind: values for kind, values in implementation.session_by_default.in_captures.items() if values}
        except KeyError as problem:
            raise OwltError(
                Mistake.of(
                    f"--implementation {options.implementation}",
                    f"its ports depend on the run ({problem})",
                    fix="name them: --port udp/1113",
                )
            ) from problem
    given |= _ports(options.ports)
    given |= {"multicast_groups": [_address("--group", group) for group in options.groups]} if options.groups else {}
    given |= {"sender_address": _address("--sender", options.sender)} if options.sender else {}
    given |= {"receiver_address": _address("--receiver", options.receiver)} if options.receiver else {}
    rate_bps = _quantity("--rate", options.rate, parse_rate_bps) if options.rate else None
    link = None if options.delay_ns is None or not rate_bps else Link(options.delay_ns, rate_bps)
    file_size = int(_quantity("--file-size", options.file_size, parse_size_bytes)) if options.file_size else None
    return Case(
        session=_session(captures, given, options),
        dissector=implementation.dissector if implementation else (),
        file_size_bytes=file_size,
        rate_bps=rate_bps,
        delay_ns=options.delay_ns,
        forward_link=link,
        reverse_link=link,
        two_clocks=options.two_clocks,
    )


def _session(captures: Sequence[Columns], given: dict[str, Any], options: CaptureOptions) -> Session:
    sender, receiver = given.get("sender_address"), given.get("receiver_address")
    _refuse_mixed(given)
    known = Known(
        sender=sender,
        receiver=receiver,
        udp_ports=tuple(given.get("udp_ports", ())),
        tcp_ports=tuple(given.get("tcp_ports", ())),
    )
    is_complete = sender and receiver and (known.udp_ports or known.tcp_ports)
    try:
        proposed = {} if is_complete else propose_session(captures, known).model_dump()
        session = Session.model_validate(proposed | given)
        session = session if options.groups else with_chosen_groups(session, captures)
    except NoTransfer as problem:
        raise OwltError(str(problem)) from problem
    except ValidationError as problem:
        [mistake, *_] = mistakes_in(problem, Session)
        raise OwltError(
            replace(mistake.below("session"), fix="set it with --sender, --receiver, --port and --group")
        ) from problem
    require_session_packets(captures, session)
    return session


def _refuse_mixed(given: dict[str, Any]) -> None:
    sender, receiver, groups = (given.get(key) for key in ("sender_address", "receiver_address", "multicast_groups"))
    if sender and sender == receiver:
        raise OwltError(Mistake.of("--sender and --receiver", f"got {sender} for both", "two hosts"))
    for option, address in (("--sender", sender), ("--receiver", receiver)):
        if address and address.is_multicast:
            raise OwltError(
                Mistake.of(option, f"got the group {address}", "a host's address", "groups are for --group")
            )
    named = [_address("--group", str(group)) for group in groups or ()]
    for group in named:
        if not group.is_multicast:
            raise OwltError(
                Mistake.of("--group", f"got {group}", "a multicast group: an address in 224.0.0.0/4 or ff00::/8")
            )
    if len({address.version for address in (sender, receiver, *named) if address}) > 1:
        raise OwltError(Mistake.of("--sender, --receiver, --group", "got IPv4 and IPv6 addresses", "one kind"))


def _address(option: str, text: str) -> IPv4Address | IPv6Address:
    try:
        return ip_address(text)
    except ValueError as problem:
        raise OwltError(Mistake.of(option, f"got {text!r}", "an address such as 10.0.0.1 or fd00::1")) from problem


def _ports(ports: Sequence[str]) -> dict[str, list[int | str]]:
    """The ports by the names of a session's fields."""
    given: dict[str, list[int | str]] = {}
    for text in ports:
        kind, _, number = text.partition("/")
        port = int(number) if number.isdecimal() else number
        try:
            if not 1 <= bounds(port)[0] <= 65535 or kind not in ("udp", "tcp"):
                raise ValueError
        except ValueError:
            expected = "udp/PORT or tcp/PORT, such as udp/1113 or udp/6000-6999"
            raise OwltError(Mistake.of("--port", f"got {text!r}", expected)) from None
        given.setdefault(f"{kind}_ports", []).append(port)
    return given


def _quantity(option: str, text: str, parse: Any) -> float:
    try:
        value: float = parse(text)
    except Invalid as problem:
        raise OwltError(*(mistake.below(option) for mistake in problem.mistakes)) from problem
    return value
