"""Command line of the CFDP endpoint with LibreCube's engine: that of agents.cfdp, as far as the engine can."""

import argparse
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

from owlt.agents.endpoint.command_line import two_sides
from owlt.agents.endpoint.event_loop import CancelSignal, Pacer, SuspendableClock, converse, transfer_on_command
from owlt.agents.endpoint.udp import Address, Endpoint
from owlt.agents.librecube.settings import Settings


def main(arguments: list[str] | None = None) -> int:
    """Run one side. Exit status: 0 complete, 1 not complete, 2 bad usage, 127 not supported."""
    return transfer_on_command(_transfer, vars(_parser().parse_args(arguments)))


def _transfer(
    is_cancelled: CancelSignal,
    clock: SuspendableClock,
    side: str,
    path: Path,
    local: Address,
    peer: Address,
    **choices: Any,
) -> str:
    # Imported late: a wrong option is answered at once.
    from owlt.agents.librecube.parties import Receiving, Sending

    settings = Settings(**choices, over_ipv6=local.is_ipv6)
    party: Sending | Receiving
    with Endpoint(local, peer) as endpoint:
        endpoint.wait.end_on(is_cancelled.alarm)
        if side == "send":
            party = Sending(path, settings, clock(), is_cancelled)
        else:
            party = Receiving(path, settings, clock(), is_cancelled)
            print(f"listening on {local}", flush=True)
        with closing(party):
            return converse(party, endpoint, Pacer(settings.rate_bps, local.is_ipv6), clock)


def _parser() -> argparse.ArgumentParser:
    sends, receives = "send one file and end when the receiver has finished", "receive one file and end"
    return two_sides(
        "owlt.agents.librecube", "CFDP class 2 over UDP, engine: LibreCube", Settings, sends=sends, receives=receives
    )[0]


if __name__ == "__main__":
    sys.exit(main())
