"""Command line of the Bundle Protocol endpoint: `send` and `receive`, one file each."""

import argparse
import sys
import time
from pathlib import Path
from typing import Any

from agents.arguments import add_addresses, add_sides, count, not_negative
from agents.bundle.convergence import Convergence
from agents.bundle.nodes import UNIX_S_OF_DTN_EPOCH, DtnClock
from agents.bundle.receiving import Receiving
from agents.bundle.sending import Sending
from agents.bundle.settings import BundleCheck, Custody, Settings
from agents.conversation import converse
from agents.ending import exit_status
from agents.incoming import IncomingFile
from agents.pacing import Pacer
from agents.udp import Address, Endpoint


def main(arguments: list[str] | None = None) -> int:
    """Run one side. Exit status: 0 complete, 1 not complete, 2 bad usage, 127 not supported."""
    options = _parser().parse_args(arguments)
    return exit_status(lambda: _transfer(**vars(options)))


def _transfer(side: str, path: Path, local: Address, peer: Address, **choices: Any) -> str:
    settings = Settings(**choices)
    now_s = time.monotonic()
    clock = DtnClock(time.time() - UNIX_S_OF_DTN_EPOCH - now_s)
    if side == "send":
        with path.open("rb") as file, Endpoint(local, peer) as endpoint:
            return converse(Sending(file, settings, clock, now_s), endpoint, Pacer(settings.rate_bps))
    with IncomingFile(path) as incoming, Endpoint(local, peer) as endpoint:
        receiving = Receiving(incoming, settings, clock, now_s)
        print(f"listening on {local}", flush=True)
        return converse(receiving, endpoint, Pacer(settings.signal_rate_bps))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="agents.bundle", description="Bundle Protocol 6 with custody transfer")
    sender, receiver = add_sides(
        parser,
        sends="send one file and end when custody of all of it is accepted",
        receives="receive one file, stay to signal again, and end",
    )
    for side in (sender, receiver):
        _add_common(side)
    receiver.add_argument(
        "--pieces-of", type=count, help="size of a file that arrives in bundles, each with an 8-digit number in front"
    )
    return parser


def _add_common(side: argparse.ArgumentParser) -> None:
    """Options of both sides. Those left out take the defaults of Settings."""
    side.argument_default = argparse.SUPPRESS
    add = side.add_argument
    add_addresses(side)
    add("--rate-bps", type=not_negative, required=True, help="pace of the sender, layer-2 bytes; 0: none")
    add("--rtt-s", type=not_negative, required=True, help="round-trip time, which custody timers wait for")
    add("--reverse-rate-bps", type=not_negative, help="pace of the signals (that of the sender)")
    add("--custody", type=Custody, choices=list(Custody), help="a signal for each bundle, or aggregates (acs)")
    add("--convergence", type=Convergence, choices=list(Convergence), help="what carries bundles (ltp)")
    add("--bundle-bytes", type=count, help="file data in a bundle (5000)")
    add("--segment-bytes", type=count, help="of a bundle, in an LTP segment (1024)")
    add("--acs-window-s", type=not_negative, help="how long an aggregate may wait for more (0.1)")
    add("--acs-bytes", type=count, help="an aggregate's record that is longer goes at once (1000)")
    add("--custody-timer-s", type=_timer, help="after which a bundle goes again; auto: as reckoned (auto)")
    add("--timer-margin-s", type=not_negative, help="of a reckoned timer, beyond the answer's time (0.1)")
    add("--repeat-limit", type=count, help="how often a bundle goes at most (250)")
    add("--bundle-check", type=BundleCheck, choices=list(BundleCheck), help="a CRC of its own in every bundle (none)")
    add("--idle-limit-s", type=not_negative, help="silence of the peer that ends a run")


def _timer(text: str) -> float | None:
    return None if text == "auto" else not_negative(text)


if __name__ == "__main__":
    sys.exit(main())
