"""Command line of the blast: `send` and `receive`, one file or data for a time, on UDP."""

import argparse
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from owlt.agents.blast.datagrams import Pieces, Stream
from owlt.agents.blast.sides import Counting, Patience, Receiving, Settings, send, send_for
from owlt.agents.endpoint.command_line import add_addresses, add_load, count, not_negative
from owlt.agents.endpoint.event_loop import Pacer, Party, converse
from owlt.agents.endpoint.exit import exit_status
from owlt.agents.endpoint.udp import Address, Endpoint


def main(arguments: list[str] | None = None) -> int:
    """Run one side. Exit status: 0 complete (the sender: all sent), 1 not complete, 2 bad usage, 127 not supported."""
    parser = _parser()
    options = vars(parser.parse_args(arguments))
    is_sender = options.pop("side") == "send"
    if not is_sender and options["path"] is not None and options["file_bytes"] is None:
        parser.error("--output needs --file-bytes, the size of the file")
    return exit_status(lambda: _send(**options) if is_sender else _receive(**options))


def _send(path: Path | None, duration_s: float | None, local: Address, peer: Address, **options: Any) -> str:
    settings = Settings(**options)
    if duration_s is not None:
        return send_for(duration_s, local, peer, settings)
    assert path is not None, "the parser demands one of them"
    return send(path, local, peer, settings)


def _receive(
    path: Path | None,
    duration_s: float,
    local: Address,
    peer: Address,
    file_bytes: int | None,
    segment_bytes: int,
    **channel: Any,
) -> str:
    patience = Patience.of(segment_bytes=segment_bytes, over_ipv6=local.is_ipv6, **channel)
    with ExitStack() as stack:
        now_s = time.monotonic()
        party: Party
        if path is None or file_bytes is None:
            party = Counting(Stream(segment_bytes), duration_s, patience, now_s)
        else:
            party = stack.enter_context(Receiving(path, Pieces(file_bytes, segment_bytes), patience, now_s))
        endpoint = stack.enter_context(Endpoint(local, peer))
        print(f"listening on {local}", flush=True)
        return converse(party, endpoint, Pacer(0))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="owlt.agents.blast", description="a file, or data for a time, over UDP, without retransmission or feedback"
    )
    sides = parser.add_subparsers(dest="side", required=True)
    sender = sides.add_parser("send", help="send one file, or data for a time, at a paced rate, without feedback")
    sender.add_argument("--passes", type=count, default=1, help="number of times the whole file is sent; default: 1")
    receiver = sides.add_parser("receive", help="receive the parts of one file that arrive, or count data")
    add_load(sender, receiver)
    receiver.add_argument("--file-bytes", type=count, help="size of the file; required with --output")
    receiver.add_argument(
        "--one-way-delay-s", type=not_negative, required=True, help="one-way delay of the channel, for the timers"
    )
    receiver.add_argument(
        "--idle-limit-s",
        type=not_negative,
        help="silence without an end marker that ends a run; default: 30 and 10 delays",
    )
    for side in (sender, receiver):
        add = side.add_argument
        add_addresses(side)
        add("--rate-bps", type=not_negative, required=True, help="pacing rate in bit/s of layer-2 bytes; 0: no pacing")
        add("--segment-bytes", type=count, default=1000, help="bytes of file data per datagram; default: 1000")
    return parser


if __name__ == "__main__":
    sys.exit(main())
