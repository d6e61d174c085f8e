"""What is known of a transfer beside its captures: of a run of ours what its record says, of others what is told."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from agents.load import load_implementation
from captures.conversations import (
    MOST_TALKS,
    Known,
    NoTransfer,
    Talk,
    flows_of,
    other_talks,
    own_talks,
    propose_session,
    talks_in,
    there_is,
)
from captures.frames.columns import Columns
from captures.inspection import Case
from captures.kept import CAPTURES
from captures.ports import bounds, is_among
from captures.session import Host, Session, sent_by
from captures.traces.bottleneck import Link
from emulator.quantities import parse_delay_ns, parse_rate_bps, parse_size_bytes
from orchestrator.analysis import expected_of, steady_rate_bps
from orchestrator.catalogue import find_implementation, implementation_files
from orchestrator.disturbance import described
from orchestrator.errors import OwltError
from orchestrator.plan import PLAN_NAME
from orchestrator.record import RECORD_NAME, RunRecord, read_record
from orchestrator.variants import base_name

HOSTS: tuple[Host, ...] = ("sender", "receiver")


def is_run(path: Path) -> bool:
    """Whether it is the directory of a recorded run."""
    return (path / RECORD_NAME).is_file()


def case_of_run(directory: Path) -> tuple[RunRecord, Case]:
    """The record of a run and what it says of its captures, but for its channel's links. Raises OwltError where there
    is nothing to look at."""
    record = read_record(directory)
    missing = [name for name in CAPTURES if not (directory / name).is_file()]
    if missing or not record.session:
        why = f"there is no {' and no '.join(missing)}" if missing else "it ended before its session was known"
        raise OwltError(f"{directory}: cannot be analysed, for {why}; wanted a run that kept its captures")
    return record, Case(
        session=Session.model_validate(record.session),
        dissector=_dissector(directory, record),
        file_size_bytes=record.file_size_bytes,
        file_whole_at_ns=record.file_whole_at_ns,
        rate_bps=steady_rate_bps(record),
        expected=expected_of(record),
        outcome=record.outcome.value,
        reason=record.reason,
        beside=described(record.clock, record.withheld),
    )


def _dissector(directory: Path, record: RunRecord) -> Sequence[str]:
    """As the plan of its sweep has it; where that is missing or damaged, as the implementation of that name has it
    now."""
    planned: Sequence[str] = ()
    with suppress(OSError, ValueError, LookupError, TypeError):
        plan = json.loads((directory.parent.parent / PLAN_NAME).read_bytes())
        planned = plan["implementations"][record.implementation]["dissector"]
    return planned or find_implementation(base_name(record.implementation)).dissector


@dataclass(frozen=True)
class Told:
    """What somebody says of captures on the command line; "" and () where nothing is said."""

    implementation: str = ""
    sender: str = ""
    receiver: str = ""
    ports: Sequence[str] = ()
    """ "udp/1113" and its like."""
    groups: Sequence[str] = ()
    file_size: str = ""
    delay: str = ""
    rate: str = ""
    two_clocks: bool = False

    @property
    def delay_ns(self) -> int | None:
        """The channel's one-way delay; None: not said. Raises OwltError."""
        return int(_quantity("--delay", self.delay, parse_delay_ns)) if self.delay else None


def case_of_captures(captures: Sequence[Columns], said: Told) -> Case:
    """What somebody's captures are. What was not said of the session is proposed from the packets.

    Raises OwltError naming the option that is wrong.
    """
    build = find_implementation(said.implementation) if said.implementation else None
    told: dict[str, Any] = {}
    if build is not None:
        try:
            told |= {kind: values for kind, values in build.session_by_default.in_captures.items() if values}
        except KeyError as problem:
            raise OwltError(
                f"--implementation {said.implementation}: its ports depend on the run ({problem}); "
                "name them: --port udp/1113"
            ) from problem
    told |= _told_ports(said.ports)
    told |= {"multicast_groups": [_address("--group", group) for group in said.groups]} if said.groups else {}
    told |= {"sender_address": _address("--sender", said.sender)} if said.sender else {}
    told |= {"receiver_address": _address("--receiver", said.receiver)} if said.receiver else {}
    rate_bps = _quantity("--rate", said.rate, parse_rate_bps) if said.rate else None
    link = None if said.delay_ns is None or not rate_bps else Link(said.delay_ns, rate_bps)
    file_size = int(_quantity("--file-size", said.file_size, parse_size_bytes)) if said.file_size else None
    return Case(
        session=_session(captures, told),
        dissector=build.dissector if build else (),
        file_size_bytes=file_size,
        rate_bps=rate_bps,
        delay_ns=said.delay_ns,
        forward_link=link,
        reverse_link=link,
        two_clocks=said.two_clocks,
    )


def what_else_is_there(captures: Sequence[Columns], session: Session) -> list[str]:
    """Who else talks in the captures, each with the options that would choose it."""
    return [_choice(talk, session) for talk in other_talks(captures, session)[:MOST_TALKS]]


def what_was_proposed(captures: Sequence[Columns], session: Session) -> str:
    """That the session is a proposal; of several talks, each with the option that would choose it alone."""
    talks = [talk for talk in own_talks(captures, session) if not talk.hosts[1].is_multicast]
    if len(talks) < 2:
        return "the session is proposed from the packets"
    named = [f"{_name(talk)}, {packets_text(talk.frames)} (--port {talk.option})" for talk in talks[:MOST_TALKS]]
    return f"the session is proposed from the packets, of {' and '.join(named)}; an option leaves the others out"


def _name(talk: Talk) -> str:
    return f"{'TCP' if talk.is_tcp else 'UDP'} {talk.port}"


def _choice(talk: Talk, session: Session) -> str:
    name = _name(talk)
    one, other = talk.hosts
    if set(talk.hosts) == {session.sender_address, session.receiver_address}:
        return f"{name}, {packets_text(talk.frames)} (--port {talk.option})"
    hosts = f"{name} between {one} and {other}, {packets_text(talk.frames)}"
    if other.is_multicast:
        return f"{hosts} (--port {talk.option})"
    return f"{hosts} (--port {talk.option} --sender {one} --receiver {other}, or the other way round)"


def builds_on(session: Session) -> list[str]:
    """The implementations that come with owlt and talk on a port of the session unless they are told another."""
    found = []
    for path in implementation_files():
        build = load_implementation(path)
        try:
            ports = build.session_by_default
        except KeyError:
            continue
        own = ((ports.udp_ports, session.udp_ports), (ports.tcp_ports, session.tcp_ports))
        if any(is_among(int(port), talked) for listed, talked in own for port in listed if "-" not in str(port)):
            found.append(build.name)
    return found


def refuse_foreign_session(captures: Sequence[Columns], session: Session) -> None:
    """Raise OwltError where no capture has a packet of the session."""
    if any(sent_by(columns, session, host).any() for columns in captures for host in HOSTS):
        return
    names = " and ".join(columns.path.name for columns in captures)
    raise OwltError(
        f"{names}: got no packet between {session.sender_address} and {session.receiver_address} on "
        f"{', '.join(session.port_texts)}; there {there_is(talks_in([flows_of(columns) for columns in captures]))}"
    )


def _session(captures: Sequence[Columns], told: dict[str, Any]) -> Session:
    sender, receiver = told.get("sender_address"), told.get("receiver_address")
    _refuse_mixed(told)
    known = Known(
        sender=sender,
        receiver=receiver,
        udp_ports=tuple(told.get("udp_ports", ())),
        tcp_ports=tuple(told.get("tcp_ports", ())),
    )
    is_whole = sender and receiver and (known.udp_ports or known.tcp_ports)
    try:
        proposed = {} if is_whole else propose_session(captures, known).model_dump()
        session = Session.model_validate(proposed | told)
    except NoTransfer as problem:
        raise OwltError(str(problem)) from problem
    except ValidationError as problem:
        said = problem.errors()[0]["msg"].removeprefix("Value error, ")
        raise OwltError(f"the session: {said}; --sender, --receiver, --port and --group say what it is") from problem
    refuse_foreign_session(captures, session)
    return session


def _refuse_mixed(told: dict[str, Any]) -> None:
    sender, receiver, groups = (told.get(key) for key in ("sender_address", "receiver_address", "multicast_groups"))
    if sender and sender == receiver:
        raise OwltError(f"--sender and --receiver: got {sender} for both, wanted two hosts")
    for option, address in (("--sender", sender), ("--receiver", receiver)):
        if address and address.is_multicast:
            raise OwltError(f"{option}: got the group {address}, wanted a host's address; groups are for --group")
    named = [_address("--group", str(group)) for group in groups or ()]
    for group in named:
        if not group.is_multicast:
            raise OwltError(f"--group: got {group}, wanted a multicast group: an address in 224.0.0.0/4 or ff00::/8")
    if len({address.version for address in (sender, receiver, *named) if address}) > 1:
        raise OwltError("--sender, --receiver, --group: got IPv4 and IPv6 addresses, wanted one kind")


def _address(option: str, text: str) -> IPv4Address | IPv6Address:
    try:
        return ip_address(text)
    except ValueError as problem:
        raise OwltError(f"{option}: got {text!r}, wanted an address such as 10.0.0.1 or fd00::1") from problem


def packets_text(count: int) -> str:
    """1 packet, 1135 packets."""
    return f"{count} packet" if count == 1 else f"{count} packets"


def _told_ports(ports: Sequence[str]) -> dict[str, list[int | str]]:
    """The ports by what a session calls them."""
    told: dict[str, list[int | str]] = {}
    for text in ports:
        kind, _, number = text.partition("/")
        port = int(number) if number.isdecimal() else number
        try:
            if not 1 <= bounds(port)[0] <= 65535 or kind not in ("udp", "tcp"):
                raise ValueError
        except ValueError:
            wanted = "wanted udp/PORT or tcp/PORT, such as udp/1113 or udp/6000-6999"
            raise OwltError(f"--port: got {text!r}, {wanted}") from None
        told.setdefault(f"{kind}_ports", []).append(port)
    return told


def _quantity(option: str, text: str, parse: Any) -> float:
    try:
        value: float = parse(text)
    except ValueError as problem:
        raise OwltError(f"{option}: {problem}") from problem
    return value
