"""Command line of the Saratoga endpoint: `send` and `receive`, one file each, on UDP."""

import argparse
import sys
import time
from pathlib import Path
from typing import Any

from agents.arguments import add_addresses, add_sides, count, not_negative
from agents.conversation import converse
from agents.ending import exit_status
from agents.pacing import Pacer
from agents.saratoga.checksums import CODES
from agents.saratoga.receiving import Receiving
from agents.saratoga.sending import Sending
from agents.saratoga.settings import DESCRIPTOR_BITS, Settings
from agents.udp import Address, Endpoint


def main(arguments: list[str] | None = None) -> int:
    """Run one side. Exit status: 0 complete, 1 not complete, 2 bad usage, 127 not supported."""
    parser = _parser()
    options = vars(parser.parse_args(arguments))
    if options["side"] == "receive" and (options["transfer"] == "get") != (options["wanted"] is not None):
        parser.error("got --transfer without its --wanted, or the other way round; a get names a file, a put does not")
    return exit_status(lambda: _transfer(**options))


def _transfer(side: str, path: Path, local: Address, peer: Address, wanted: str | None = None, **choices: Any) -> str:
    settings = Settings(**choices)
    with Endpoint(local, peer) as endpoint, _party(side, path, settings, wanted) as party:
        print(f"listening on {local}", flush=True)
        return converse(party, endpoint, Pacer(settings.rate_bps))


def _party(side: str, path: Path, settings: Settings, wanted: str | None) -> Sending | Receiving:
    if side == "send":
        return Sending(path, settings, time.monotonic())
    return Receiving(path, settings, time.monotonic(), wanted)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="agents.saratoga", description="Saratoga over UDP")
    sender, receiver = add_sides(
        parser,
        sends="send one file and end when the receiver has it",
        receives="receive one file, stay for the last questions",
    )
    receiver.add_argument("--wanted", type=_base_name, help="the file to get, by the name that the sender has it under")
    for side in (sender, receiver):
        _add_common(side)
    return parser


def _add_common(side: argparse.ArgumentParser) -> None:
    """Options of both sides. Those left out take the defaults of Settings."""
    add = side.add_argument
    add_addresses(side)
    add("--transfer", choices=["put", "get"], required=True, help="who begins: the sender, or the receiver")
    side.argument_default = argparse.SUPPRESS
    add("--version", type=int, choices=[0, 1], help="of the protocol (1)")
    add("--rate-bps", type=not_negative, required=True, help="pace of layer-2 bytes; 0: none")
    add("--rtt-s", type=not_negative, required=True, help="round-trip time, which timers wait for")
    add("--start", choices=["blind", "asked"], help="of a put: at once, or when the receiver agreed (blind)")
    add("--segment-bytes", type=count, help="file data in a packet (1000)")
    add("--descriptor-bits", type=_descriptor, help="of offsets and sizes: auto, 16, 32 or 64 (auto)")
    add("--checksum", choices=list(CODES), help="of the whole file, in its metadata (md5; version 0 has none)")
    add("--timestamps", choices=["off", "on"], help="16 bytes in each DATA packet, given back in STATUS (off)")
    add("--status-packets", type=count, help="how often DATA ask for a STATUS; 0: at the end alone (500)")
    add("--voluntary-s", type=not_negative, help="a STATUS unasked at the start and at this interval; 0: none (0)")
    add("--timer-margin-s", type=not_negative, help="beyond the round trip (0.1)")
    add("--idle-limit-s", type=not_negative, help="silence of the peer that ends a run (30 and 10 timers)")


def _base_name(text: str) -> str:
    return Path(text).name


def _descriptor(text: str) -> int | None:
    if text == "auto":
        return None
    if text not in map(str, DESCRIPTOR_BITS):
        raise argparse.ArgumentTypeError(f"got {text!r}, wanted auto or one of {', '.join(map(str, DESCRIPTOR_BITS))}")
    return int(text)


if __name__ == "__main__":
    sys.exit(main())
