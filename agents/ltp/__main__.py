"""Command line of the LTP endpoint: `send` and `receive`, one file each, on UDP."""

import argparse
import sys
import time
from pathlib import Path
from typing import Any

from owlt.agents.endpoint.command_line import add_addresses, add_sides, count, not_negative
from owlt.agents.endpoint.event_loop import Pacer, converse
from owlt.agents.endpoint.exit import exit_status
from owlt.agents.endpoint.udp import Address, Endpoint


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
    from owlt.agents.ltp.settings import Settings

    settings = Settings(**choices)
    if side == "send":
        with Endpoint(local, peer) as endpoint:
            return converse(Sending(path, settings), endpoint, Pacer(settings.rate_bps))
    with Endpoint(local, peer) as endpoint, Receiving(path, settings, time.monotonic(), file_bytes or None) as party:
        print(f"listening on {local}", flush=True)
        return converse(party, endpoint, Pacer(settings.report_rate_bps))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="owlt.agents.ltp", description="LTP (RFC 5326) over UDP")
    sender, receiver = add_sides(
        parser, sends="send one file and end when the receiver has it", receives="receive one file and end"
    )
    for side in (sender, receiver):
        _add_common(side)
    sender.add_argument(
        "--red-bytes", type=red_bytes, help="red bytes of each block, or all; the others are green; default: all"
    )
    sender.add_argument(
        "--checkpoint-every", type=count, help="red segments per checkpoint; 0: only at the end; default: 0"
    )
    sender.add_argument("--sessions", type=at_least_one, help="blocks in flight at the same time; default: 1")
    receiver.add_argument(
        "--file-bytes", type=count, help="size of the file; required for several blocks; default: 0, unknown"
    )
    return parser


def _add_common(side: argparse.ArgumentParser) -> None:
    """Options of both sides; their defaults are those of Settings."""
    side.argument_default = argparse.SUPPRESS
    add = side.add_argument
    add_addresses(side)
    add(
        "--rate-bps",
        type=not_negative,
        required=True,
        help="pacing rate of the sender in bit/s of layer-2 bytes; 0: no pacing",
    )
    add(
        "--reverse-rate-bps",
        type=not_negative,
        help="pacing rate of the receiver; 0: no pacing; default: the rate of the sender",
    )
    add("--rtt-s", type=not_negative, required=True, help="round-trip time, for the timers")
    add("--segment-bytes", type=count, help="bytes of file data per segment, and largest report; default: 1000")
    add("--block-bytes", type=count, help="bytes of file data per session; 0: the whole file; default: 0")
    add("--first-session", type=count, help="session number of the first block; any for a single block; default: 1")
    add("--sender-engine", type=count, help="engine id of the sender; default: 1")
    add("--client-service", type=count, help="client service id of the data; default: 4")
    add("--timer-margin-s", type=not_negative, help="margin of the timers, in addition to the round trip; default: 0.1")
    add("--checkpoint-limit", type=count, help="repeats of a checkpoint without a report; default: 20")
    add("--report-limit", type=count, help="repeats of a report without an acknowledgement; default: 20")
    add("--cancel-limit", type=count, help="repeats of a cancellation without an acknowledgement; default: 5")
    add("--cycle-limit", type=count, help="consecutive reports that repeated data are still missing; default: 100")
    add("--idle-limit-s", type=not_negative, help="silence of the peer that ends a run; default: 30 and 27 timers")
    add("--seed", type=count, help="seed of the first serial numbers; default: random")


def red_bytes(text: str) -> int | None:
    """A number of bytes, or None for `all`."""
    return None if text == "all" else count(text)


def at_least_one(text: str) -> int:
    """A whole number of at least 1."""
    if (number := count(text)) == 0:
        raise argparse.ArgumentTypeError("got 0, expected a whole number of at least 1")
    return number


if __name__ == "__main__":
    sys.exit(main())
