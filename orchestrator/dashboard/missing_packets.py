"""The packets of a run that did not arrive as they were sent, from its captures: which, when, and what became of them.

Run as a program, `RUN OUT`, it writes them to OUT/missing.json for the dashboard, whose server does not read captures.
The results directory stays as it is.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np
from pydantic import BaseModel, ConfigDict, ValidationError

from owlt.captures.accounting.derived_files import CAPTURES, load_pairs
from owlt.captures.accounting.summary import account_both, read_both
from owlt.captures.files.blocks import NotACapture
from owlt.captures.frames.columns import Columns
from owlt.captures.frames.session import Host
from owlt.captures.inspection.inspection import Case
from owlt.captures.inspection.packet_tables import packet_table
from owlt.captures.matches.matching import match_captures
from owlt.captures.protocols.messages import messages
from owlt.captures.protocols.tshark import NoDissection
from owlt.orchestrator.errors import OwltError
from owlt.orchestrator.hosts.printable import printable_lines
from owlt.orchestrator.run.analysis import case_of_run
from owlt.results.plain_files import read_plain, write_whole

FILE = "missing.json"
MOST_ROWS = 200
MOST_DISSECTED = 100_000
"""The most packets in a capture whose messages are read; in longer ones, packets have the protocol's name only."""
ARRIVED = ("delivered", "unknown")
"""Fates of packets that arrived; of the unknown ones, a cut in the captures hides whether they were damaged."""
DIRECTIONS: dict[Host, str] = {"sender": "forward", "receiver": "reverse"}


class MissingPacket(BaseModel):
    """A packet that did not arrive as it was sent."""

    model_config = ConfigDict(frozen=True)

    direction: str
    frame: int
    """Its number in the capture at the port of its sender, from 1."""
    sent_s: float
    """The sending time since the first packet of the session."""
    kind: str
    """What it carried, as its protocol names it; the protocol if that is not known."""
    wire_bytes: int
    fate: str


class MissingPackets(BaseModel):
    """The missing packets of a run: the first of them, by sending time."""

    model_config = ConfigDict(frozen=True)

    count: int
    """The number of all missing packets."""
    packets: Sequence[MissingPacket]


def missing_packets(run: Path, most: int = MOST_ROWS) -> MissingPackets:
    """The missing packets of a recorded run; at most `most` are listed.

    Raises OwltError if its captures are not there, NotACapture, OSError.
    """
    record, case = case_of_run(run)
    at_sender, at_receiver = read_both(*(run / name for name in CAPTURES))
    crossing = load_pairs(run, at_sender, at_receiver, case.session)
    crossing = crossing or match_captures(at_sender, at_receiver, case.session)
    table = packet_table(crossing, account_both(crossing, case.expected))
    sent_ns, hosts, frames = table["sent_ns"], table["host"], table["frame"]
    rows = np.flatnonzero(~np.isin(table["fate"], ARRIVED))
    rows = rows[np.argsort(sent_ns[rows], kind="stable")]
    shown = rows[:most]
    kinds: dict[tuple[Host, int], str] = {}
    captures: dict[Host, Columns] = {"sender": at_sender, "receiver": at_receiver}
    for host, capture in captures.items():
        if (hosts[shown] == host).any():
            kinds |= _kinds(capture, case, host)
    first_ns = int(sent_ns.min()) if len(sent_ns) else 0
    return MissingPackets(
        count=len(rows),
        packets=[
            MissingPacket(
                direction=DIRECTIONS[hosts[row]],
                frame=int(frames[row]),
                sent_s=(int(sent_ns[row]) - first_ns) / 1e9,
                kind=kinds.get((hosts[row], int(frames[row])), record.protocol),
                wire_bytes=int(table["wire_bytes"][row]),
                fate=str(table["fate"][row]),
            )
            for row in shown
        ],
    )


def _kinds(capture: Columns, case: Case, host: Host) -> dict[tuple[Host, int], str]:
    """What the packets of a host carry, by their frames in the capture at its port; {} if it is not known."""
    if len(capture) > MOST_DISSECTED:
        return {}
    try:
        read = messages(capture, case.session, case.dissector)
    except (NoDissection, ValueError):
        return {}
    return {(host, each.frame): f"{each.name} {each.detail}".rstrip() for each in read if each.host == host}


def read_missing(directory: Path) -> MissingPackets | None:
    """The list that the program wrote into a directory; None if there is none."""
    with suppress(OSError, ValidationError):
        return MissingPackets.model_validate_json(read_plain(directory / FILE))
    return None


def main(run: Path, out: Path) -> int:
    """Write the packets of a run; exit status 1 with the reason if its captures cannot be read."""
    try:
        found = missing_packets(run)
    except (OwltError, NotACapture, RuntimeError, OSError) as problem:
        print(printable_lines(str(problem)), file=sys.stderr)
        return 1
    out.mkdir()
    write_whole(out / FILE, found.model_dump_json() + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2])))
