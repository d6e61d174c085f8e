"""Command line of the Saratoga endpoint: `send` and `receive`, one file each, on UDP."""

import argparse
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from owlt.agents.endpoint.command_line import two_sides
from owlt.agents.endpoint.event_loop import Pacer, converse
from owlt.agents.endpoint.exit import exit_status
from owlt.agents.endpoint.udp import Address, Endpoint
from owlt.agents.saratoga.receiving import Receiving
from owlt.agents.saratoga.sending import Sending
from owlt.agents.saratoga.settings import Settings


def main(arguments: list[str] | None = None) -> int:
    """Run one side. Exit status: 0 complete, 1 not complete, 2 bad usage, 127 not supported."""
    parser = _parser()
    options = vars(parser.parse_args(arguments))
    if options["side"] == "receive" and (options["transfer"] == "get") != (options["wanted"] is not None):
        parser.error("expected --wanted with --transfer get, and only with it; add or remove --wanted")
    return exit_status(lambda: _transfer(**options))


def _transfer(side: str, path: Path, local: Address, peer: Address, wanted: str | None = None, **choices: Any) -> str:
    settings = Settings(**choices, over_ipv6=local.is_ipv6)
    party: Sending | Receiving
    with Endpoint(local, peer) as endpoint, ExitStack() as files:
        if side == "send":
            party = Sending(path, settings, time.monotonic())
        else:
            party = files.enter_context(Receiving(path, settings, time.monotonic(), wanted))
        print(f"listening on {local}", flush=True)
        return converse(party, endpoint, Pacer(settings.rate_bps, local.is_ipv6))


def _parser() -> argparse.ArgumentParser:
    parser, _, receiver = two_sides(
        "owlt.agents.saratoga",
        "Saratoga over UDP",
        Settings,
        sends="send one file and end when the receiver has it",
        receives="receive one file, stay for the last questions",
    )
    receiver.add_argument("--wanted", type=_base_name, help="name of the file to get, as the sender has it")
    return parser


def _base_name(text: str) -> str:
    return Path(text).name


if __name__ == "__main__":
    sys.exit(main())
