"""Command line of the CFDP endpoint: `send` and `receive`, one file each, on UDP."""

import argparse
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from owlt.agents.cfdp.settings import Settings
from owlt.agents.endpoint.command_line import two_sides
from owlt.agents.endpoint.event_loop import CancelSignal, Pacer, SuspendableClock, converse, transfer_on_command
from owlt.agents.endpoint.udp import Address, Endpoint


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
    # Imported late: a wrong option is answered at once, and the engine takes a tenth of a second to import.
    from owlt.agents.cfdp.receiving import Receiving
    from owlt.agents.cfdp.sending import Sending

    settings = Settings(**choices, over_ipv6=local.is_ipv6)
    party: Sending | Receiving
    with Endpoint(local, peer) as endpoint, ExitStack() as files:
        endpoint.wait.end_on(is_cancelled.alarm)
        if side == "send":
            party = Sending(path, settings, is_cancelled)
        else:
            party = files.enter_context(Receiving(path, settings, clock(), is_cancelled))
            print(f"listening on {local}", flush=True)
        return converse(party, endpoint, Pacer(settings.rate_bps, local.is_ipv6), clock)


def _parser() -> argparse.ArgumentParser:
    sends, receives = "send one file and end when the receiver has finished", "receive one file and end"
    return two_sides(
        "owlt.agents.cfdp", "CFDP class 2 over UDP, engine: cfdp-py", Settings, sends=sends, receives=receives
    )[0]


if __name__ == "__main__":
    sys.exit(main())
