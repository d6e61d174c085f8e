"""Command line of the NORM endpoint: `send` and `receive`, one file each."""

import argparse
import sys
from pathlib import Path
from typing import Any

from owlt.agents.endpoint.command_line import add_settings, add_sides, address, count
from owlt.agents.endpoint.exit import exit_status
from owlt.agents.endpoint.udp import Address
from owlt.agents.norm.session import SessionPlace, receive, send
from owlt.agents.norm.settings import RECEIVER_ID, SENDER_ID, Settings


def main(arguments: list[str] | None = None) -> int:
    """Run one side. Exit status: 0 complete, 1 not complete, 2 bad usage, 127 not supported."""
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.destination == "address" and options.receiver_address is None:
        parser.error("--destination address: got no --receiver-address, expected the receiver's own")
    least, greatest = getattr(options, "least_rate_bps", 0), getattr(options, "greatest_rate_bps", 0)
    if 0 < greatest < least:
        parser.error(f"--least-rate-bps: got {least}, expected no more than --greatest-rate-bps {greatest}")
    return exit_status(lambda: _transfer(**vars(options)))


def _transfer(side: str, path: Path, session: Address, destination: str, receiver_address: str, **options: Any) -> str:
    node_id = SENDER_ID if side == "send" else RECEIVER_ID
    if destination == "address":
        session = session._replace(host=receiver_address)
    place = SessionPlace(session, options.pop("interface"), options.pop("tx_port"), node_id)
    if side == "send":
        return send(path, Settings(file_bytes=path.stat().st_size, **options), place)
    return receive(path, Settings(**options), place)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="owlt.agents.norm", description="NORM (RFC 5740), engine: libnorm")
    sender, receiver = add_sides(
        parser, sends="send one file to its end", receives="receive one file, stay for the last questions"
    )
    for side in (sender, receiver):
        _add_place(side)
    add_settings(sender, receiver, Settings)
    return parser


def _add_place(side: argparse.ArgumentParser) -> None:
    add = side.add_argument
    add("--session", type=address, required=True, metavar="ADDRESS:PORT", help="multicast group, or the receiver")
    add(
        "--destination",
        choices=["group", "address"],
        default="group",
        help="destination: the group of the session, or --receiver-address",
    )
    add("--receiver-address", help="the receiver's own address, for a session without a group")
    add("--interface", help="interface on which the group is joined and sent to")
    add("--tx-port", type=count, required=True, help="source UDP port of this side")


if __name__ == "__main__":
    sys.exit(main())
