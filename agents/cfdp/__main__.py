"""Command line of the CFDP endpoint: `send` and `receive`, one file each, on UDP."""

import argparse
import sys
import time
from pathlib import Path
from typing import Any

from agents.arguments import address, count, not_negative
from agents.conversation import converse
from agents.ending import exit_status
from agents.pacing import Pacer
from agents.udp import Address, Endpoint


def main(arguments: list[str] | None = None) -> int:
    """Run one side. Exit status: 0 complete, 1 not complete, 2 bad usage, 127 not supported."""
    options = _parser().parse_args(arguments)
    return exit_status(lambda: _transfer(**vars(options)))


def _transfer(side: str, path: Path, local: Address, peer: Address, **choices: Any) -> str:
    # Imported late: a wrong option is answered at once, and the engine takes a tenth of a second to import.
    from agents.cfdp.receiving import Receiving
    from agents.cfdp.sending import Sending
    from agents.cfdp.settings import Settings

    settings = Settings(**choices)
    party: Sending | Receiving
    with Endpoint(local, peer) as endpoint:
        if side == "send":
            party = Sending(path, settings)
        else:
            party = Receiving(path, settings, time.monotonic())
            print(f"listening on {local}", flush=True)
        converse(party, endpoint, Pacer(settings.rate_bps))
    return party.facts()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="agents.cfdp", description="CFDP class 2 over UDP, engine: cfdp-py")
    sides = parser.add_subparsers(dest="side", required=True)
    sender = sides.add_parser("send", help="send one file and end when the receiver has finished")
    sender.add_argument("--file", dest="path", type=Path, required=True)
    receiver = sides.add_parser("receive", help="receive one file and end")
    receiver.add_argument("--output", dest="path", type=Path, required=True, help="where the whole file appears")
    for side in (sender, receiver):
        _add_common(side)
    return parser


def _add_common(side: argparse.ArgumentParser) -> None:
    """Options of both sides. Those left out take the defaults of Settings."""
    side.argument_default = argparse.SUPPRESS
    add = side.add_argument
    add("--local", type=address, required=True, metavar="ADDRESS:PORT")
    add("--peer", type=address, required=True, metavar="ADDRESS:PORT")
    add("--rate-bps", type=not_negative, required=True, help="pace of layer-2 bytes; 0: none")
    add("--rtt-s", type=not_negative, required=True, help="round-trip time, which timers wait for")
    add("--segment-bytes", type=count, help="file data in a PDU (1000)")
    add("--nak", choices=["deferred", "immediate"], help="ask after EOF, or at each gap (deferred)")
    add("--pdu-crc", choices=["off", "on"], help="a CRC in every PDU, beside the checksum of UDP (off)")
    add("--timer-margin-s", type=not_negative, help="beyond the round trip (0.1)")
    add("--repeat-limit", type=count, help="of EOF and of NAK sequences (250)")
    add("--idle-limit-s", type=not_negative, help="silence of the peer that ends a run (30 and 10 timers)")


if __name__ == "__main__":
    sys.exit(main())
