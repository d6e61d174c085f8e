"""Command line of the blast: `send` and `receive`, one file each, on UDP."""

import argparse
import sys
import time
from pathlib import Path
from typing import Any

from agents.arguments import add_addresses, count, not_negative
from agents.blast.datagrams import Pieces
from agents.blast.receiving import Patience, Receiving
from agents.blast.sending import Settings, send
from agents.conversation import converse
from agents.ending import exit_status
from agents.pacing import Pacer
from agents.udp import Address, Endpoint


def main(arguments: list[str] | None = None) -> int:
    """Run one side. Exit status: 0 complete (the sender: all sent), 1 not complete, 2 bad usage, 127 not supported."""
    options = vars(_parser().parse_args(arguments))
    return exit_status(lambda: send(**_for_sending(options)) if options.pop("side") == "send" else _receive(**options))


def _for_sending(options: dict[str, Any]) -> dict[str, Any]:
    own = {name: options.pop(name) for name in ("file", "local", "peer")}
    return own | {"settings": Settings(**options)}


def _receive(
    output: Path,
    local: Address,
    peer: Address,
    file_bytes: int,
    rate_bps: float,
    one_way_delay_s: float,
    segment_bytes: int,
    idle_limit_s: float | None,
) -> str:
    pieces = Pieces(file_bytes, segment_bytes)
    patience = Patience.of(
        rate_bps=rate_bps, one_way_delay_s=one_way_delay_s, segment_bytes=segment_bytes, silence_s=idle_limit_s
    )
    with Endpoint(local, peer) as endpoint, Receiving(output, pieces, patience, time.monotonic()) as party:
        print(f"listening on {local}", flush=True)
        return converse(party, endpoint, Pacer(0))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="agents.blast", description="one file over UDP, each piece once")
    sides = parser.add_subparsers(dest="side", required=True)
    sender = sides.add_parser("send", help="send one file, paced; nothing comes back")
    sender.add_argument("--file", type=Path, required=True)
    sender.add_argument("--passes", type=count, default=1, help="how many times the whole file is sent (1)")
    receiver = sides.add_parser("receive", help="receive one file, as far as it comes")
    receiver.add_argument("--output", type=Path, required=True, help="where the whole file appears")
    receiver.add_argument("--file-bytes", type=count, required=True, help="size of the file")
    receiver.add_argument("--one-way-delay-s", type=not_negative, required=True, help="which the receiver waits for")
    receiver.add_argument(
        "--idle-limit-s", type=not_negative, help="silence without an end marker that ends a run (30 and 10 delays)"
    )
    for side in (sender, receiver):
        add = side.add_argument
        add_addresses(side)
        add("--rate-bps", type=not_negative, required=True, help="pace of layer-2 bytes; 0: none")
        add("--segment-bytes", type=count, default=1000, help="file data in a datagram (1000)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
