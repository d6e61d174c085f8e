"""The command line that CFDP endpoints share: two sides, two addresses, one file, and when to give up what."""

import argparse
from collections.abc import Callable

from agents.arguments import add_addresses, add_sides, count, not_negative


def sides(prog: str, description: str, add_own: Callable[[argparse.ArgumentParser], None]) -> argparse.ArgumentParser:
    """`send` and `receive` with the options of both, and those that `add_own` adds to each.

    Options left out are not in the namespace: they take the defaults of the endpoint's settings.
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
    add("--rate-bps", type=not_negative, required=True, help="pace of layer-2 bytes; 0: none")
    add("--rtt-s", type=not_negative, required=True, help="round-trip time, which timers wait for")
    add("--segment-bytes", type=count, help="file data in a PDU (1000)")
    add("--timer-margin-s", type=not_negative, help="of timers, beyond the round trip (0.1)")
    add("--ack-timer-s", type=_seconds_or_auto, help="before EOF or Finished is repeated (auto: an answer's time)")
    add("--ack-limit", type=_at_least_one, help="of such repetitions (250)")
    add("--nak-timer-s", type=_seconds_or_auto, help="before missing data are asked for again (auto: an answer's time)")
    add("--nak-limit", type=_at_least_one, help="of such requests (250)")
    add("--idle-limit-s", type=_seconds_or_auto, help="silence of the peer that ends a run (auto: 30 and 10 timers)")


def _seconds_or_auto(text: str) -> float | None:
    """A number from 0 up; `auto` is None."""
    return None if text == "auto" else not_negative(text)


def _at_least_one(text: str) -> int:
    number = count(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"got {text!r}, wanted a whole number from 1 up")
    return number
