"""What is known of a transfer beside its captures: of a run of ours what its record says, of others what is told."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from captures.columns import Columns
from captures.conversations import NoTransfer, propose_session
from captures.inspection import Case
from captures.kept import CAPTURES
from captures.session import Session
from captures.traces import Link
from emulator.quantities import parse_delay_ns, parse_rate_bps, parse_size_bytes
from orchestrator.analysis import expected_of, steady_rate_bps
from orchestrator.catalogue import find_implementation
from orchestrator.errors import OwltError
from orchestrator.plan import PLAN_NAME, Plan
from orchestrator.record import RECORD_NAME, RunRecord, read_record
from orchestrator.variants import base_name

_STEADY = {"delay", "rate", "overhead", "packet_error_rate", "seed"}
"""Of a written link, what leaves the delay of a packet that waits for none the same for all."""


def is_run(path: Path) -> bool:
    """Whether it is the directory of a recorded run."""
    return (path / RECORD_NAME).is_file()


def case_of_run(directory: Path) -> tuple[RunRecord, Case]:
    """The record of a run and what it says of its captures. Raises OwltError where there is nothing to look at."""
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
        forward_link=_link(record.channel, "forward"),
        reverse_link=_link(record.channel, "reverse"),
        expected=expected_of(record),
    )


def _dissector(directory: Path, record: RunRecord) -> Sequence[str]:
    """As the plan of its sweep has it; without one, as the implementation of that name has it now."""
    path = directory.parent.parent / PLAN_NAME
    plan = Plan.model_validate_json(path.read_bytes()) if path.is_file() else None
    planned = plan.implementations[record.implementation].dissector if plan else []
    return planned or find_implementation(base_name(record.implementation)).dissector


def _link(channel: dict[str, Any] | None, way: str) -> Link | None:
    """A direction of a channel as it was applied; None where it changes, varies or has no limit."""
    written = None if channel is None or "timeline" in channel else channel.get(way)
    if not written or not {"delay", "rate"} <= set(written) <= _STEADY:
        return None
    return Link(
        parse_delay_ns(written["delay"]),
        parse_rate_bps(written["rate"]),
        parse_size_bytes(written["overhead"]) if "overhead" in written else 0,
    )


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
            told |= {kind: values for kind, values in build.session_by_default.model_dump().items() if values}
        except KeyError as problem:
            raise OwltError(
                f"--implementation {said.implementation}: its ports depend on the run ({problem}); "
                "name them: --port udp/1113"
            ) from problem
    told |= _told_ports(said.ports)
    told |= {"multicast_groups": list(said.groups)} if said.groups else {}
    told |= {"sender_address": said.sender} if said.sender else {}
    told |= {"receiver_address": said.receiver} if said.receiver else {}
    rate_bps = _quantity("--rate", said.rate, parse_rate_bps) if said.rate else None
    link = None if said.delay_ns is None or rate_bps is None else Link(said.delay_ns, rate_bps)
    return Case(
        session=_session(captures, told),
        dissector=build.dissector if build else (),
        file_size_bytes=int(_quantity("--file-size", said.file_size, parse_size_bytes)) if said.file_size else None,
        rate_bps=rate_bps,
        forward_link=link,
        reverse_link=link,
        two_clocks=said.two_clocks,
    )


def _session(captures: Sequence[Columns], told: dict[str, Any]) -> Session:
    is_whole = {"sender_address", "receiver_address"} <= set(told) and {"udp_ports", "tcp_ports"} & set(told)
    try:
        proposed = {} if is_whole else propose_session(captures).model_dump()
        if {"udp_ports", "tcp_ports"} & set(told):
            proposed = {key: value for key, value in proposed.items() if key.endswith("_address")}
        return Session.model_validate(proposed | told)
    except NoTransfer as problem:
        raise OwltError(str(problem)) from problem
    except ValidationError as problem:
        first = problem.errors()[0]
        where = first["loc"][0] if first["loc"] else "session"
        raise OwltError(
            f"{where}: got {first.get('input')!r}: {first['msg']}; "
            "the options --sender, --receiver, --port and --group say what belongs to the session"
        ) from problem


def _told_ports(ports: Sequence[str]) -> dict[str, list[int]]:
    """The ports by what a session calls them."""
    told: dict[str, list[int]] = {}
    for text in ports:
        kind, _, number = text.partition("/")
        if kind not in ("udp", "tcp") or not number.isdecimal() or not 1 <= int(number) <= 65535:
            raise OwltError(f"--port: got {text!r}, wanted udp/PORT or tcp/PORT, such as udp/1113")
        told.setdefault(f"{kind}_ports", []).append(int(number))
    return told


def _quantity(option: str, text: str, parse: Any) -> float:
    try:
        value: float = parse(text)
    except ValueError as problem:
        raise OwltError(f"{option}: {problem}") from problem
    return value
