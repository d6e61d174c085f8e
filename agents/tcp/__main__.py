"""Command line of the TCP endpoint: `send` and `receive`, one file or data for a time. The sender connects."""

import argparse
import sys
from pathlib import Path
from typing import Any

from owlt.agents.endpoint.command_line import add_load, address, count, not_negative
from owlt.agents.endpoint.exit import exit_status
from owlt.agents.tcp.receiving import receive, receive_for
from owlt.agents.tcp.sending import send, send_for
from owlt.agents.tcp.settings import CHANNEL_BUFFERS, KERNEL_BUFFERS, Settings


def main(arguments: list[str] | None = None) -> int:
    """Run one side. Exit status: 0 complete, 1 not complete, 2 bad usage, 127 not supported."""
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.side == "receive" and options.path is not None and "file_bytes" not in options:
        parser.error("--output needs --file-bytes, the size of the file")
    return exit_status(lambda: _transfer(**vars(options)))


def _transfer(side: str, path: Path | None, duration_s: float, **options: Any) -> str:
    if side == "receive":
        local = options.pop("local")
        return (
            receive_for(duration_s, local, Settings(**options))
            if path is None
            else receive(path, local, Settings(**options))
        )
    peer = options.pop("peer")
    if path is None:
        return send_for(duration_s, peer, Settings(**options))
    return send(path, peer, Settings(file_bytes=path.stat().st_size, **options))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="owlt.agents.tcp", description="TCP of this host's kernel")
    sides = parser.add_subparsers(dest="side", required=True)
    sender = sides.add_parser("send", help="send one file, or data for a time, and end when the receiver has it")
    receiver = sides.add_parser("receive", help="receive one file, or count data, and end")
    add_load(sender, receiver)
    sender.add_argument("--peer", type=address, required=True, metavar="ADDRESS:PORT")
    receiver.add_argument("--local", type=address, required=True, metavar="ADDRESS:PORT")
    for side in (sender, receiver):
        _add_common(side)
    receiver.add_argument("--file-bytes", type=count, help="size of the file; required with --output")
    sender.add_argument("--congestion-control", help="congestion control of the kernel; default: cubic")
    receiver.add_argument(
        "--delack-limit-ms", type=count, help="longest delay of an acknowledgement; 0: the kernel's value; default: 0"
    )
    return parser


def _add_common(side: argparse.ArgumentParser) -> None:
    """Options of both sides; their defaults are those of Settings."""
    side.argument_default = argparse.SUPPRESS
    add = side.add_argument
    add("--rate-bps", type=not_negative, required=True, help="rate of the channel, for the buffers; 0: unlimited")
    add("--rtt-s", type=not_negative, required=True, help="round-trip time, for buffers and time limits")
    add("--segment-bytes", type=count, help="most bytes of file data per segment; 0: as the MTU allows; default: 1000")
    add(
        "--buffers",
        type=_buffers,
        help="channel: the bytes in flight; kernel: its own tuning; or a number of bytes; default: channel",
    )
    add(
        "--idle-limit-s",
        type=not_negative,
        help="silence of the peer that ends a run; default: 1200 and 10 round trips",
    )


def _buffers(text: str) -> str:
    if text not in (CHANNEL_BUFFERS, KERNEL_BUFFERS) and not text.isdecimal():
        raise argparse.ArgumentTypeError(f"got {text!r}, expected {CHANNEL_BUFFERS}, {KERNEL_BUFFERS} or bytes")
    return text


if __name__ == "__main__":
    sys.exit(main())
