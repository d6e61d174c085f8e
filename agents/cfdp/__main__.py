"""Command line of the CFDP endpoint: `send` and `receive`, one file each, on UDP."""

import argparse
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from owlt.agents.cfdp.options import sides
from owlt.agents.endpoint.event_loop import Pacer, converse
from owlt.agents.endpoint.exit import exit_status
from owlt.agents.endpoint.udp import Address, Endpoint


def main(arguments: list[str] | None = None) -> int:
    """Run one side. Exit status: 0 complete, 1 not complete, 2 bad usage, 127 not supported."""
    options = _parser().parse_args(arguments)
    return exit_status(lambda: _transfer(**vars(options)))


def _transfer(side: str, path: Path, local: Address, peer: Address, **choices: Any) -> str:
    # Imported late: a wrong option is answered at once, and the engine takes a tenth of a second to import.
    from owlt.agents.cfdp.receiving import Receiving
    from owlt.agents.cfdp.sending import Sending
    from owlt.agents.cfdp.settings import Settings

    settings = Settings(**choices)
    party: Sending | Receiving
    with Endpoint(local, peer) as endpoint, ExitStack() as files:
        if side == "send":
            party = Sending(path, settings)
        else:
            party = files.enter_context(Receiving(path, settings, time.monotonic()))
            print(f"listening on {local}", flush=True)
        return converse(party, endpoint, Pacer(settings.rate_bps))


def _parser() -> argparse.ArgumentParser:
    return sides("owlt.agents.cfdp", "CFDP class 2 over UDP, engine: cfdp-py", _add_own)


def _add_own(side: argparse.ArgumentParser) -> None:
    add = side.add_argument
    add(
        "--nak",
        choices=["deferred", "immediate"],
        help="request missing data after EOF, or at each gap; default: deferred",
    )
    add("--pdu-crc", choices=["off", "on"], help="a CRC in every PDU, in addition to the UDP checksum; default: off")
    add("--checksum", choices=["crc32", "crc32c", "modular", "null"], help="checksum of the file; default: crc32")
    add("--closure", choices=["on", "off"], help="transaction closure in the Metadata PDU; default: on")


if __name__ == "__main__":
    sys.exit(main())
