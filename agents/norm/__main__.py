"""Command line of the NORM endpoint: `send` and `receive`, one file each."""

import argparse
import sys
from pathlib import Path
from typing import Any

from owlt.agents.endpoint.command_line import add_sides, address, count, not_negative
from owlt.agents.endpoint.exit import exit_status
from owlt.agents.endpoint.udp import Address
from owlt.agents.norm.session import Place, receive, send
from owlt.agents.norm.settings import RECEIVER_ID, SENDER_ID, CongestionControl, End, Settings


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
    place = Place(session, options.pop("interface"), options.pop("tx_port"), node_id)
    if side == "send":
        return send(path, Settings(file_bytes=path.stat().st_size, **options), place)
    return receive(path, Settings(**options), place)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="owlt.agents.norm", description="NORM (RFC 5740), engine: libnorm")
    sender, receiver = add_sides(
        parser, sends="send one file to its end", receives="receive one file, stay for the last questions"
    )
    receiver.add_argument("--file-bytes", type=count, required=True, help="size of the file, for the buffers")
    for side in (sender, receiver):
        _add_common(side)
    return parser


def _add_common(side: argparse.ArgumentParser) -> None:
    """Options of both sides; their defaults are those of Settings."""
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
    side.argument_default = argparse.SUPPRESS
    add("--rate-bps", type=not_negative, required=True, help="pacing rate in bit/s of layer-2 bytes; 0: 1 Gbit/s")
    add(
        "--congestion-control",
        type=CongestionControl,
        choices=list(CongestionControl),
        help="congestion control instead of pacing; default: none",
    )
    add(
        "--least-rate-bps",
        type=not_negative,
        help="lower bound for congestion control; 0: one segment per second or round trip",
    )
    add("--greatest-rate-bps", type=not_negative, help="upper bound for congestion control; 0: no bound")
    add("--rtt-s", type=not_negative, required=True, help="first estimate of the greatest round trip (GRTT)")
    add(
        "--greatest-grtt-s",
        type=not_negative,
        help="upper bound of the measured round trip; 0: four --rtt-s, at least 10",
    )
    add("--seed", type=count, help="seed of the random back-offs; default: 1")
    add("--end", type=End, choices=list(End), help="condition for the end of the sender; default: acknowledged")
    add("--segment-bytes", type=count, help="bytes of file data per message; default: 1000")
    add("--block-segments", type=count, help="data segments in a coding block; default: 64")
    add("--parity-segments", type=count, help="parity segments kept for the repair of a block; default: 8")
    add("--auto-parity-segments", type=count, help="of these, sent without request; default: 0")
    add("--backoff-factor", type=not_negative, help="random wait before a NACK, in GRTT; default: 0")
    add("--group-size", type=count, help="receivers assumed by the random wait; default: 10")
    add("--robust-factor", type=count, help="unanswered flushes that end the session; default: 20")
    add("--probing", choices=["active", "passive", "none"], help="measure the round trip; default: none")
    add(
        "--repair-boundary",
        choices=["block", "object"],
        help="boundary at which a receiver requests repairs; default: object",
    )
    add("--linger-rtts", type=not_negative, help="time that a receiver with the complete file stays, in round trips")
    add("--idle-limit-s", type=not_negative, help="time without progress that ends a run")


if __name__ == "__main__":
    sys.exit(main())
