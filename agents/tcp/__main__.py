"""Command line of the TCP endpoint: `send` and `receive`, one file or data for a time. The sender connects."""

import argparse
import sys
from pathlib import Path
from typing import Any

from owlt.agents.endpoint.command_line import add_load, add_settings, address, count
from owlt.agents.endpoint.exit import exit_status
from owlt.agents.tcp.receiving import receive, receive_for
from owlt.agents.tcp.sending import send, send_for
from owlt.agents.tcp.settings import Settings


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
    size = "size of the file; required with --output"
    receiver.add_argument("--file-bytes", type=count, default=argparse.SUPPRESS, help=size)
    add_settings(sender, receiver, Settings)
    return parser


if __name__ == "__main__":
    sys.exit(main())
