"""Command line of the TCP endpoint: `send` and `receive`, one file each. The sender connects."""

import argparse
import sys
from pathlib import Path
from typing import Any

from agents.arguments import add_sides, address, count, not_negative
from agents.ending import exit_status
from agents.tcp.receiving import receive
from agents.tcp.sending import send
from agents.tcp.settings import CHANNEL_BUFFERS, KERNEL_BUFFERS, Settings


def main(arguments: list[str] | None = None) -> int:
    """Run one side. Exit status: 0 complete, 1 not complete, 2 bad usage, 127 not supported."""
    options = _parser().parse_args(arguments)
    return exit_status(lambda: _transfer(**vars(options)))


def _transfer(side: str, path: Path, **options: Any) -> str:
    if side == "send":
        return send(path, options.pop("peer"), Settings(file_bytes=path.stat().st_size, **options))
    return receive(path, options.pop("local"), Settings(**options))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="agents.tcp", description="TCP of this host's kernel")
    sender, receiver = add_sides(
        parser, sends="send one file and end when the receiver has it", receives="receive one file and end"
    )
    sender.add_argument("--peer", type=address, required=True, metavar="ADDRESS:PORT")
    receiver.add_argument("--local", type=address, required=True, metavar="ADDRESS:PORT")
    receiver.add_argument("--file-bytes", type=count, required=True, help="size of the file")
    for side in (sender, receiver):
        _add_common(side)
    sender.add_argument("--congestion-control", help="one that the kernel has (cubic)")
    receiver.add_argument(
        "--delack-limit-ms", type=count, help="longest delay of an acknowledgement; 0: as the kernel has it (0)"
    )
    return parser


def _add_common(side: argparse.ArgumentParser) -> None:
    """Options of both sides. Those left out take the defaults of Settings."""
    side.argument_default = argparse.SUPPRESS
    add = side.add_argument
    add("--rate-bps", type=not_negative, required=True, help="of the channel, for the buffers; 0: none")
    add("--rtt-s", type=not_negative, required=True, help="round-trip time, for the buffers and for patience")
    add("--segment-bytes", type=count, help="most file data in a segment; 0: what the MTU allows (1000)")
    add("--buffers", type=_buffers, help="channel: its contents; kernel: as it tunes them; or bytes (channel)")
    add("--idle-limit-s", type=not_negative, help="silence of the peer that ends a run (1200 and 10 round trips)")


def _buffers(text: str) -> str:
    if text not in (CHANNEL_BUFFERS, KERNEL_BUFFERS) and not text.isdecimal():
        raise argparse.ArgumentTypeError(f"got {text!r}, wanted {CHANNEL_BUFFERS}, {KERNEL_BUFFERS} or bytes")
    return text


if __name__ == "__main__":
    sys.exit(main())
