"""Command line of the Saratoga endpoint: `send` and `receive`, one file each, on UDP."""

import argparse
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from owlt.agents.endpoint.command_line import add_addresses, add_sides, count, not_negative
from owlt.agents.endpoint.event_loop import Pacer, converse
from owlt.agents.endpoint.exit import exit_status
from owlt.agents.endpoint.udp import Address, Endpoint
from owlt.agents.saratoga.checksums import CODES
from owlt.agents.saratoga.receiving import Receiving
from owlt.agents.saratoga.sending import Sending
from owlt.agents.saratoga.settings import DESCRIPTOR_BITS, Settings


def main(arguments: list[str] | None = None) -> int:
    """Run one side. Exit status: 0 complete, 1 not complete, 2 bad usage, 127 not supported."""
    parser = _parser()
    options = vars(parser.parse_args(arguments))
    if options["side"] == "receive" and (options["transfer"] == "get") != (options["wanted"] is not None):
        parser.error("expected --wanted with --transfer get, and only with it; add or remove --wanted")
    return exit_status(lambda: _transfer(**options))


def _transfer(side: str, path: Path, local: Address, peer: Address, wanted: str | None = None, **choices: Any) -> str:
    settings = Settings(**choices)
    party: Sending | Receiving
    with Endpoint(local, peer) as endpoint, ExitStack() as files:
        if side == "send":
            party = Sending(path, settings, time.monotonic())
        else:
            party = files.enter_context(Receiving(path, settings, time.monotonic(), wanted))
        print(f"listening on {local}", flush=True)
        return converse(party, endpoint, Pacer(settings.rate_bps))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="owlt.agents.saratoga", description="Saratoga over UDP")
    sender, receiver = add_sides(
        parser,
        sends="send one file and end when the receiver has it",
        receives="receive one file, stay for the last questions",
    )
    receiver.add_argument("--wanted", type=_base_name, help="name of the file to get, as the sender has it")
    for side in (sender, receiver):
        _add_common(side)
    return parser


def _add_common(side: argparse.ArgumentParser) -> None:
    """Options of both sides; their defaults are those of Settings."""
    add = side.add_argument
    add_addresses(side)
    add("--transfer", choices=["put", "get"], required=True, help="put: the sender begins; get: the receiver begins")
    side.argument_default = argparse.SUPPRESS
    add("--version", type=int, choices=[0, 1], help="version of the protocol; default: 1")
    add("--rate-bps", type=not_negative, required=True, help="pacing rate in bit/s of layer-2 bytes; 0: no pacing")
    add("--rtt-s", type=not_negative, required=True, help="round-trip time, for the timers")
    add(
        "--start",
        choices=["blind", "asked"],
        help="start of a put: at once, or after the receiver has agreed; default: blind",
    )
    add("--segment-bytes", type=count, help="bytes of file data per packet; default: 1000")
    add("--descriptor-bits", type=_descriptor, help="bits of offsets and sizes: auto, 16, 32 or 64; default: auto")
    add(
        "--checksum",
        choices=list(CODES),
        help="checksum of the file, in its metadata; version 0 has none; default: md5",
    )
    add("--timestamps", choices=["off", "on"], help="16 bytes in each DATA packet, returned in STATUS; default: off")
    add("--status-packets", type=count, help="DATA packets per requested STATUS; 0: only at the end; default: 500")
    add(
        "--voluntary-s",
        type=not_negative,
        help="interval of unrequested STATUS packets, from the start; 0: none; default: 0",
    )
    add("--timer-margin-s", type=not_negative, help="margin of the timers, in addition to the round trip; default: 0.1")
    add("--idle-limit-s", type=not_negative, help="silence of the peer that ends a run; default: 30 and 10 timers")


def _base_name(text: str) -> str:
    return Path(text).name


def _descriptor(text: str) -> int | None:
    if text == "auto":
        return None
    if text not in map(str, DESCRIPTOR_BITS):
        raise argparse.ArgumentTypeError(
            f"got {text!r}, expected auto or one of {', '.join(map(str, DESCRIPTOR_BITS))}"
        )
    return int(text)


if __name__ == "__main__":
    sys.exit(main())
