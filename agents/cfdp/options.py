"""The command line that CFDP endpoints share: two sides, two addresses, one file, and when to give up what."""

import argparse
from collections.abc import Callable

from owlt.agents.endpoint.command_line import add_addresses, add_sides, count, not_negative, seconds_or_auto


def sides(prog: str, description: str, add_own: Callable[[argparse.ArgumentParser], None]) -> argparse.ArgumentParser:
    """`send` and `receive` with the options of both, and those that `add_own` adds to each.

    Options that are not given are not in the namespace: the endpoint's settings have their defaults.
    """
    root = argparse.ArgumentParser(prog=prog, description=description)
    sender, receiver = add_sides(
        root, sends="send one file and end when the receiver has finished", receives="receive one file and end"
    )
    for side in (sender, receiver):
        side.argument_default = argparse.SUPPRESS
        _add_common(side)
        add_own(side)
    return root


def _add_common(side: argparse.ArgumentParser) -> None:
    add = side.add_argument
    add_addresses(side)
    add("--rate-bps", type=not_negative, required=True, help="pacing rate in bit/s of layer-2 bytes; 0: no pacing")
    add("--rtt-s", type=not_negative, required=True, help="round-trip time, for the timers")
    add("--segment-bytes", type=count, help="bytes of file data per PDU; default: 1000")
    add("--timer-margin-s", type=not_negative, help="margin of the timers, in addition to the round trip; default: 0.1")
    add(
        "--ack-timer-s",
        type=seconds_or_auto,
        help="time until EOF or Finished is repeated; default: auto, the time of an answer",
    )
    add("--ack-limit", type=_at_least_one, help="limit of such repetitions; default: 250")
    add(
        "--nak-timer-s",
        type=seconds_or_auto,
        help="time until a NAK is repeated; default: auto, the time of an answer",
    )
    add("--nak-limit", type=_at_least_one, help="limit of such repetitions; default: 250")
    add(
        "--idle-limit-s",
        type=seconds_or_auto,
        help="silence of the peer that ends a run; default: auto, 30 and 10 timers",
    )
    add("--sender-entity", type=count, help="entity id of the sender; default: 101")
    add("--receiver-entity", type=count, help="entity id of the receiver; default: 102")


def _at_least_one(text: str) -> int:
    number = count(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"got {text!r}, expected a whole number of at least 1")
    return number
