"""Command line of the LTP endpoint: `send` and `receive`, one file each, on UDP."""

import argparse
import sys
import time
from pathlib import Path
from typing import Any

from agents.arguments import add_addresses, add_sides, count, not_negative
from agents.conversation import converse
from agents.ending import exit_status
from agents.pacing import Pacer
from agents.udp import Address, Endpoint


def main(arguments: list[str] | None = None) -> int:
    """Run one side. Exit status: 0 complete, 1 not complete, 2 bad usage, 127 not supported."""
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.side == "receive" and vars(options).get("block_bytes") and not vars(options).get("file_bytes"):
        parser.error("--block-bytes cuts a file whose size is known: give --file-bytes too")
    return exit_status(lambda: _transfer(**vars(options)))


def _transfer(side: str, path: Path, local: Address, peer: Address, file_bytes: int = 0, **choices: Any) -> str:
    from agents.ltp.receiving import Receiving
    from agents.ltp.sending import Sending
    from agents.ltp.settings import Settings

    settings = Settings(**choices)
    if side == "send":
        with Endpoint(local, peer) as endpoint:
            return converse(Sending(path, settings), endpoint, Pacer(settings.rate_bps))
    with Endpoint(local, peer) as endpoint, Receiving(path, settings, time.monotonic(), file_bytes or None) as party:
        print(f"listening on {local}", flush=True)
        return converse(party, endpoint, Pacer(settings.report_rate_bps))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="agents.ltp", description="LTP (RFC 5326) over UDP")
    sender, receiver = add_sides(
        parser, sends="send one file and end when the receiver has it", receives="receive one file and end"
    )
    for side in (sender, receiver):
        _add_common(side)
    sender.add_argument("--red-bytes", type=red_bytes, help="red bytes of each block, or all (all); the rest is green")
    sender.add_argument("--checkpoint-every", type=count, help="red segments to a checkpoint; 0: at the end only (0)")
    sender.add_argument("--sessions", type=at_least_one, help="blocks under way at once (1)")
    receiver.add_argument(
        "--file-bytes", type=count, help="size of the file; needed if it has several blocks (0: unknown)"
    )
    return parser


def _add_common(side: argparse.ArgumentParser) -> None:
    """Options of both sides. Those left out take the defaults of Settings."""
    side.argument_default = argparse.SUPPRESS
    add = side.add_argument
    add_addresses(side)
    add("--rate-bps", type=not_negative, required=True, help="the sender's pace of layer-2 bytes; 0: none")
    add("--reverse-rate-bps", type=not_negative, help="the receiver's; 0: none (that of the sender)")
    add("--rtt-s", type=not_negative, required=True, help="round-trip time, which timers wait for")
    add("--segment-bytes", type=count, help="file data in a segment; a report is no larger (1000)")
    add("--block-bytes", type=count, help="file data in a session; 0: all (0)")
    add("--first-session", type=count, help="number of the first block's session; a single block may have any (1)")
    add("--sender-engine", type=count, help="engine id of the sender (1)")
    add("--client-service", type=count, help="client service id of the data (4)")
    add("--timer-margin-s", type=not_negative, help="beyond the round trip (0.1)")
    add("--checkpoint-limit", type=count, help="repeats of a checkpoint without a report (20)")
    add("--report-limit", type=count, help="repeats of a report without an acknowledgement (20)")
    add("--cancel-limit", type=count, help="repeats of a cancellation without an acknowledgement (5)")
    add("--cycle-limit", type=count, help="times in a row that data sent again may be reported missing again (100)")
    add("--idle-limit-s", type=not_negative, help="silence of the peer that ends a run (30 and 27 timers)")
    add("--seed", type=count, help="of the first serial numbers; left out: random")


def red_bytes(text: str) -> int | None:
    """A number of bytes, or None for `all`."""
    return None if text == "all" else count(text)


def at_least_one(text: str) -> int:
    """A whole number from 1 up."""
    if (number := count(text)) == 0:
        raise argparse.ArgumentTypeError("got 0, wanted a whole number from 1 up")
    return number


if __name__ == "__main__":
    sys.exit(main())
