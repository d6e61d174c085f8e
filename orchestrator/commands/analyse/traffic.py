"""The conversations in captures, in words: which of them are the session, and which options would select others."""

from __future__ import annotations

from collections.abc import Sequence

from owlt.agents.contract.implementation import load_implementation
from owlt.captures.frames.columns import Columns
from owlt.captures.frames.conversations import (
    MOST_TALKS,
    Talk,
    captured_text,
    flows_of,
    other_talks,
    own_talks,
    talks_in,
)
from owlt.captures.frames.session import Host, Session, is_among, sent_by
from owlt.inputs.mistake import Mistake, Place
from owlt.orchestrator.errors import OwltError
from owlt.orchestrator.profiles.catalogue import implementation_files

HOSTS: tuple[Host, ...] = ("sender", "receiver")


def other_conversations(captures: Sequence[Columns], session: Session) -> list[str]:
    """The other conversations in the captures, each with the options that select it."""
    return [_choice(talk, session) for talk in other_talks(captures, session)[:MOST_TALKS]]


def proposal_text(captures: Sequence[Columns], session: Session) -> str:
    """A note that the session is a proposal; if it has several conversations, with the option that selects each."""
    talks = [talk for talk in own_talks(captures, session) if not talk.hosts[1].is_multicast]
    if len(talks) < 2:
        return "the session is inferred from the packets"
    named = [f"{_name(talk)}, {packets_text(talk.frames)} (--port {talk.option})" for talk in talks[:MOST_TALKS]]
    return f"the session is inferred from the packets, of {' and '.join(named)}; select one of them with the option"


def _name(talk: Talk) -> str:
    return f"{'TCP' if talk.is_tcp else 'UDP'} {talk.port}"


def _choice(talk: Talk, session: Session) -> str:
    name = _name(talk)
    one, other = talk.hosts
    if set(talk.hosts) == {session.sender_address, session.receiver_address}:
        return f"{name}, {packets_text(talk.frames)} (--port {talk.option})"
    hosts = f"{name} between {one} and {other}, {packets_text(talk.frames)}"
    if other.is_multicast:
        return f"{hosts} (--port {talk.option} --group {other})"
    return f"{hosts} (--port {talk.option} --sender {one} --receiver {other}, or the other way round)"


def implementations_on(session: Session) -> list[str]:
    """The implementations shipped with owlt whose default ports include a port of the session."""
    names = []
    for path in implementation_files():
        implementation = load_implementation(path)
        try:
            ports = implementation.session_by_default
        except KeyError:
            continue
        own = ((ports.udp_ports, session.udp_ports), (ports.tcp_ports, session.tcp_ports))
        if any(is_among(int(port), talked) for listed, talked in own for port in listed if "-" not in str(port)):
            names.append(implementation.name)
    return names


def require_session_packets(captures: Sequence[Columns], session: Session) -> None:
    """Raise OwltError if no capture has a packet of the session."""
    if any(sent_by(columns, session, host).any() for columns in captures for host in HOSTS):
        return
    names = " and ".join(columns.path.name for columns in captures)
    hosts = f"{session.sender_address} and {session.receiver_address}"
    raise OwltError(
        Mistake(
            f"no packets between {hosts} on {', '.join(session.port_texts)}",
            fix=captured_text(talks_in([flows_of(columns) for columns in captures])),
            where=Place(names),
        )
    )


def packets_text(count: int) -> str:
    """1 packet, 1135 packets."""
    return f"{count} packet" if count == 1 else f"{count} packets"
