"""Command line of the CFDP endpoint: `send` and `receive`, one file each, on UDP."""

import argparse
import sys
import time
from pathlib import Path
from typing import Any

from agents.cfdp.options import sides
from agents.conversation import converse
from agents.ending import exit_status
from agents.pacing import Pacer
from agents.udp import Address, Endpoint


def main(arguments: list[str] | None = None) -> int:
    """Run one side. Exit status: 0 complete, 1 not complete, 2 bad usage, 127 not supported."""
    options = _parser().parse_args(arguments)
    return exit_status(lambda: _transfer(**vars(options)))


def _transfer(side: str, path: Path, local: Address, peer: Address, **choices: Any) -> str:
    # Imported late: a wrong option is answered at once, and the engine takes a tenth of a second to import.
    from agents.cfdp.receiving import Receiving
    from agents.cfdp.sending import Sending
    from agents.cfdp.settings import Settings

    settings = Settings(**choices)
    party: Sending | Receiving
    with Endpoint(local, peer) as endpoint:
        if side == "send":
            party = Sending(path, settings)
        else:
            party = Receiving(path, settings, time.monotonic())
            print(f"listening on {local}", flush=True)
        return converse(party, endpoint, Pacer(settings.rate_bps))


def _parser() -> argparse.ArgumentParser:
    return sides("agents.cfdp", "CFDP class 2 over UDP, engine: cfdp-py", _add_own)


def _add_own(side: argparse.ArgumentParser) -> None:
    add = side.add_argument
    add("--nak", choices=["deferred", "immediate"], help="ask after EOF, or at each gap (deferred)")
    add("--pdu-crc", choices=["off", "on"], help="a CRC in every PDU, beside the checksum of UDP (off)")
    add("--checksum", choices=["crc32", "crc32c", "modular", "null"], help="of the whole file (crc32)")
    add("--closure", choices=["on", "off"], help="transaction closure in the Metadata PDU (on)")


if __name__ == "__main__":
    sys.exit(main())
