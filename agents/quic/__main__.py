"""Command line of the QUIC endpoint: `send` and `receive`, one file each, on UDP."""

import argparse
import sys
import time
from pathlib import Path
from typing import Any

from owlt.agents.endpoint.command_line import add_addresses, add_sides, count, not_negative
from owlt.agents.endpoint.event_loop import Pacer, converse
from owlt.agents.endpoint.exit import exit_status
from owlt.agents.endpoint.files import WRITE_BYTES
from owlt.agents.endpoint.udp import Address, Endpoint


def main(arguments: list[str] | None = None) -> int:
    """Run one side. Exit status: 0 complete, 1 not complete, 2 bad usage, 127 not supported."""
    options = _parser().parse_args(arguments)
    return exit_status(lambda: _transfer(**vars(options)))


def _transfer(
    side: str, path: Path, local: Address, peer: Address, secrets_log: str, qlog_dir: str, **choices: Any
) -> str:
    # Imported late: a wrong option is answered at once, and the engine takes a quarter of a second to import.
    from owlt.agents.quic.configuration import kept_logs, receiver_configuration, sender_configuration
    from owlt.agents.quic.receiving import Receiving
    from owlt.agents.quic.sending import Sending
    from owlt.agents.quic.settings import Settings

    settings = Settings(**choices)
    party: Sending | Receiving
    with Endpoint(local, peer) as endpoint, kept_logs(secrets_log, qlog_dir, side) as logs:
        if side == "send":
            with path.open("rb") as file:
                party = Sending(file, settings, sender_configuration(settings, logs), time.monotonic())
                return converse(party, endpoint, Pacer(0))
        with path.with_name(path.name + ".part").open("wb", WRITE_BYTES) as store:
            configuration = receiver_configuration(settings, logs)
            party = Receiving(path, store, settings, configuration, time.monotonic())
            print(f"listening on {local}", flush=True)
            return converse(party, endpoint, Pacer(0))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="owlt.agents.quic", description="QUIC (RFC 9000), engine: aioquic")
    sender, receiver = add_sides(
        parser,
        sends="connect, send one file and end when the receiver has confirmed it",
        receives="accept one connection, receive one file and end",
    )
    for side in (sender, receiver):
        _add_common(side)
    return parser


def _add_common(side: argparse.ArgumentParser) -> None:
    """Options of both sides; their defaults are those of Settings."""
    add = side.add_argument
    add("--secrets-log", default="none", metavar="FILE", help="secrets for tshark; - is standard output; default: none")
    add(
        "--qlog-dir",
        default="none",
        metavar="DIRECTORY",
        help="directory for qlogs, in send/ and receive/, written at the end; default: none",
    )
    side.argument_default = argparse.SUPPRESS
    add_addresses(side)
    add(
        "--rate-bps", type=not_negative, required=True, help="rate of the channel, for windows and timers; 0: unlimited"
    )
    add("--rtt-s", type=not_negative, required=True, help="round-trip time before it is measured")
    add("--congestion-control", choices=["reno", "cubic"], help="congestion control of aioquic; default: reno")
    add("--datagram-bytes", type=count, help="largest UDP payload, 1200 to 1472; default: 1200")
    add(
        "--flow-window-bytes", type=count, help="receive window; 0: 16 MiB or four bandwidth-delay products; default: 0"
    )
    add("--timer-margin-s", type=not_negative, help="added to the first estimate of the round trip; default: 0.1")
    add(
        "--idle-limit-s",
        type=not_negative,
        help="silence of the peer that ends a run; 0: 30 s and 64 round trips; default: 0",
    )
    add(
        "--linger-rtts",
        type=not_negative,
        help="round trips for which the sender repeats CONNECTION_CLOSE; default: 10",
    )
    add("--seed", type=count, help="seed of the receiver's key; default: 1")


if __name__ == "__main__":
    sys.exit(main())
