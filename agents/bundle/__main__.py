"""Command line of the Bundle Protocol endpoint: `send` and `receive`, one file each."""

import argparse
import sys
import time
from pathlib import Path
from typing import Any

from owlt.agents.bundle.convergence import Convergence
from owlt.agents.bundle.nodes import UNIX_S_OF_DTN_EPOCH, DtnClock
from owlt.agents.bundle.receiving import Receiving
from owlt.agents.bundle.sending import Sending
from owlt.agents.bundle.settings import BundleCheck, Custody, Settings
from owlt.agents.endpoint.command_line import add_addresses, add_sides, count, not_negative, seconds_or_auto
from owlt.agents.endpoint.event_loop import Pacer, converse
from owlt.agents.endpoint.exit import exit_status
from owlt.agents.endpoint.files import IncomingFile, map_file
from owlt.agents.endpoint.udp import Address, Endpoint


def main(arguments: list[str] | None = None) -> int:
    """Run one side. Exit status: 0 complete, 1 not complete, 2 bad usage, 127 not supported."""
    options = _parser().parse_args(arguments)
    return exit_status(lambda: _transfer(**vars(options)))


def _transfer(side: str, path: Path, local: Address, peer: Address, **choices: Any) -> str:
    settings = Settings(**choices)
    now_s = time.monotonic()
    clock = DtnClock(time.time() - UNIX_S_OF_DTN_EPOCH - now_s)
    if side == "send":
        with Endpoint(local, peer) as endpoint:
            return converse(Sending(map_file(path), settings, clock, now_s), endpoint, Pacer(settings.rate_bps))
    with IncomingFile(path) as incoming, Endpoint(local, peer) as endpoint:
        receiving = Receiving(incoming, settings, clock, now_s)
        print(f"listening on {local}", flush=True)
        return converse(receiving, endpoint, Pacer(settings.signal_rate_bps))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="owlt.agents.bundle", description="Bundle Protocol 6 with custody transfer")
    sender, receiver = add_sides(
        parser,
        sends="send one file and end when custody of all of it is accepted",
        receives="receive one file, stay to signal again, and end",
    )
    for side in (sender, receiver):
        _add_common(side)
    receiver.add_argument(
        "--pieces-of", type=count, help="size of a file whose bundles each begin with an 8-digit number"
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
    add("--rtt-s", type=not_negative, required=True, help="round-trip time, for the custody timers")
    add("--reverse-rate-bps", type=not_negative, help="pacing rate of the signals; default: the rate of the sender")
    add("--custody", type=Custody, choices=list(Custody), help="one signal per bundle, or aggregates; default: acs")
    add("--convergence", type=Convergence, choices=list(Convergence), help="convergence layer; default: ltp")
    add("--bundle-bytes", type=count, help="bytes of file data per bundle; default: 5000")
    add("--segment-bytes", type=count, help="bytes of a bundle per LTP segment; default: 1024")
    add("--acs-window-s", type=not_negative, help="longest wait of an aggregate for further signals; default: 0.1")
    add("--acs-bytes", type=count, help="an aggregate with a longer record is sent at once; default: 1000")
    add("--custody-timer-s", type=seconds_or_auto, help="time until a bundle is repeated; default: auto, computed")
    add(
        "--timer-margin-s",
        type=not_negative,
        help="margin of a computed timer, in addition to the time of an answer; default: 0.1",
    )
    add("--repeat-limit", type=count, help="most transmissions of a bundle; default: 250")
    add("--bundle-check", type=BundleCheck, choices=list(BundleCheck), help="a CRC in every bundle; default: none")
    add("--idle-limit-s", type=not_negative, help="silence of the peer that ends a run")


if __name__ == "__main__":
    sys.exit(main())
