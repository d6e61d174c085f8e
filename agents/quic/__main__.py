"""Command line of the QUIC endpoint: `send` and `receive`, one file each, on UDP."""

import argparse
import sys
import time
from pathlib import Path
from typing import Any

from owlt.agents.endpoint.command_line import two_sides
from owlt.agents.endpoint.event_loop import Pacer, converse
from owlt.agents.endpoint.exit import exit_status
from owlt.agents.endpoint.files import WRITE_BYTES
from owlt.agents.endpoint.udp import Address, Endpoint
from owlt.agents.quic.settings import Settings


def main(arguments: list[str] | None = None) -> int:
    """Run one side. Exit status: 0 complete, 1 not complete, 2 bad usage, 127 not supported."""
    options = _parser().parse_args(arguments)
    return exit_status(lambda: _transfer(**vars(options)))


def _transfer(side: str, path: Path, local: Address, peer: Address, **choices: Any) -> str:
    # Imported late: a wrong option is answered at once, and the engine takes a quarter of a second to import.
    from owlt.agents.quic.connection import client_configuration, kept_logs, server_configuration
    from owlt.agents.quic.http3 import Fetching, Serving
    from owlt.agents.quic.push import Receiving, Sending

    settings = Settings(**choices, over_ipv6=local.is_ipv6)
    party: Sending | Receiving | Serving | Fetching
    is_client = (side == "send") == (settings.application == "push")
    is_http_server = settings.application == "http3" and not is_client
    with Endpoint(local, peer, learns_port=is_http_server) as endpoint, kept_logs(settings, side) as logs:
        configuration = (client_configuration if is_client else server_configuration)(settings, logs)
        with path.open("rb") if side == "send" else path.with_name(path.name + ".part").open("wb", WRITE_BYTES) as file:
            now_s = time.monotonic()
            if side == "send":
                party = (Sending if is_client else Serving)(file, settings, configuration, now_s)
            elif is_client:
                party = Fetching(path, file, settings, configuration, now_s)
            else:
                party = Receiving(path, file, settings, configuration, now_s)
            if not is_client:
                print(f"listening on {local}", flush=True)
            return converse(party, endpoint, Pacer(0))


def _parser() -> argparse.ArgumentParser:
    return two_sides(
        "owlt.agents.quic",
        "QUIC (RFC 9000), engine: aioquic",
        Settings,
        sends="connect, send one file and end when the receiver has confirmed it",
        receives="accept one connection, receive one file and end",
    )[0]


if __name__ == "__main__":
    sys.exit(main())
