"""Command line of the Bundle Protocol endpoint: `send` and `receive`, one file each."""

import argparse
import sys
import time
from pathlib import Path
from typing import Any

from owlt.agents.bundle.nodes import UNIX_S_OF_DTN_EPOCH, DtnClock
from owlt.agents.bundle.receiving import Receiving
from owlt.agents.bundle.sending import Sending
from owlt.agents.bundle.settings import Settings
from owlt.agents.endpoint.command_line import two_sides
from owlt.agents.endpoint.event_loop import Pacer, converse
from owlt.agents.endpoint.exit import exit_status
from owlt.agents.endpoint.files import IncomingFile, map_file
from owlt.agents.endpoint.udp import Address, Endpoint


def main(arguments: list[str] | None = None) -> int:
    """Run one side. Exit status: 0 complete, 1 not complete, 2 bad usage, 127 not supported."""
    options = _parser().parse_args(arguments)
    return exit_status(lambda: _transfer(**vars(options)))


def _transfer(side: str, path: Path, local: Address, peer: Address, **choices: Any) -> str:
    settings = Settings(**choices, over_ipv6=local.is_ipv6)
    now_s = time.monotonic()
    clock = DtnClock(time.time() - UNIX_S_OF_DTN_EPOCH - now_s)
    if side == "send":
        with Endpoint(local, peer) as endpoint:
            return converse(
                Sending(map_file(path), settings, clock, now_s), endpoint, Pacer(settings.rate_bps, local.is_ipv6)
            )
    with IncomingFile(path) as incoming, Endpoint(local, peer) as endpoint:
        receiving = Receiving(incoming, settings, clock, now_s)
        print(f"listening on {local}", flush=True)
        return converse(receiving, endpoint, Pacer(settings.signal_rate_bps, local.is_ipv6))


def _parser() -> argparse.ArgumentParser:
    return two_sides(
        "owlt.agents.bundle",
        "Bundle Protocol 6 with custody transfer",
        Settings,
        sends="send one file and end when custody of all of it is accepted",
        receives="receive one file, stay to signal again, and end",
    )[0]


if __name__ == "__main__":
    sys.exit(main())
