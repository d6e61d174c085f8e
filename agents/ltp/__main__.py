"""Command line of the LTP endpoint: `send` and `receive`, one file each, on UDP."""

import argparse
import sys
import time
from pathlib import Path
from typing import Any

from owlt.agents.endpoint.command_line import count, two_sides
from owlt.agents.endpoint.event_loop import Pacer, converse
from owlt.agents.endpoint.exit import exit_status
from owlt.agents.endpoint.udp import Address, Endpoint
from owlt.agents.ltp.settings import Settings


def main(arguments: list[str] | None = None) -> int:
    """Run one side. Exit status: 0 complete, 1 not complete, 2 bad usage, 127 not supported."""
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.side == "receive" and vars(options).get("block_bytes") and not vars(options).get("file_bytes"):
        parser.error("--block-bytes cuts a file whose size is known: give --file-bytes too")
    return exit_status(lambda: _transfer(**vars(options)))


def _transfer(side: str, path: Path, local: Address, peer: Address, file_bytes: int = 0, **choices: Any) -> str:
    from owlt.agents.ltp.receiving import Receiving
    from owlt.agents.ltp.sending import Sending

    settings = Settings(**choices, over_ipv6=local.is_ipv6)
    if side == "send":
        with Endpoint(local, peer) as endpoint:
            return converse(Sending(path, settings), endpoint, Pacer(settings.rate_bps, local.is_ipv6))
    with Endpoint(local, peer) as endpoint, Receiving(path, settings, time.monotonic(), file_bytes or None) as party:
        print(f"listening on {local}", flush=True)
        return converse(party, endpoint, Pacer(settings.report_rate_bps, local.is_ipv6))


def _parser() -> argparse.ArgumentParser:
    parser, _, receiver = two_sides(
        "owlt.agents.ltp",
        "LTP (RFC 5326) over UDP",
        Settings,
        sends="send one file and end when the receiver has it",
        receives="receive one file and end",
    )
    size = "size of the file; required for several blocks; default: 0, unknown"
    receiver.add_argument("--file-bytes", type=count, default=argparse.SUPPRESS, help=size)
    return parser


if __name__ == "__main__":
    sys.exit(main())
