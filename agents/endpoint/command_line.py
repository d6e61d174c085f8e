"""The command line of an endpoint: two sides, their addresses, and the options of its settings.

An endpoint ends with one line, the result or the reason, and an exit status that means the same for all.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from owlt.agents.endpoint.udp import Address


def add_sides(
    parser: argparse.ArgumentParser, *, sends: str, receives: str
) -> tuple[argparse.ArgumentParser, argparse.ArgumentParser]:
    """Adds `send --file` and `receive --output`, with a line of help each; results: `side` and `path`."""
    sides = parser.add_subparsers(dest="side", required=True)
    sender = sides.add_parser("send", help=sends)
    sender.add_argument("--file", dest="path", type=Path, required=True)
    receiver = sides.add_parser("receive", help=receives)
    receiver.add_argument("--output", dest="path", type=Path, required=True, help="path of the complete file")
    return sender, receiver


def add_load(sender: argparse.ArgumentParser, receiver: argparse.ArgumentParser) -> None:
    """Adds `--file` or `--duration-s` of a sender, `--output` or `--duration-s` of a receiver.

    Results: `path` and `duration_s`, one of which is None.
    """
    what = sender.add_mutually_exclusive_group(required=True)
    what.add_argument("--file", dest="path", type=Path, help="the file to send")
    what.add_argument("--duration-s", type=positive, help="instead of a file: send data for so many seconds")
    where = receiver.add_mutually_exclusive_group(required=True)
    where.add_argument("--output", dest="path", type=Path, help="path of the complete file")
    where.add_argument(
        "--duration-s", type=positive, help="instead of a file: count the data of so many seconds, and store nothing"
    )


def add_addresses(side: argparse.ArgumentParser) -> None:
    """Adds `--local` and `--peer`, for endpoints whose sides both have both."""
    side.add_argument("--local", type=address, required=True, metavar="ADDRESS:PORT")
    side.add_argument("--peer", type=address, required=True, metavar="ADDRESS:PORT")


def address(text: str) -> Address:
    """`10.77.0.1:2501`."""
    try:
        return Address.parse(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def not_negative(text: str) -> float:
    """A finite number of at least 0."""
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number < float("inf"):
        raise argparse.ArgumentTypeError(f"got {text!r}, expected a number of at least 0")
    return number


def positive(text: str) -> float:
    """A finite number above 0."""
    number = not_negative(text)
    if not number:
        raise argparse.ArgumentTypeError(f"got {text!r}, expected a number above 0")
    return number


def seconds_or_auto(text: str) -> float | None:
    """A finite number of at least 0; `auto` is None."""
    return None if text == "auto" else not_negative(text)


def count(text: str) -> int:
    """A whole number of at least 0."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"got {text!r}, expected a whole number of at least 0")
    return int(text)
