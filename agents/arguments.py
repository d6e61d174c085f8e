"""What the endpoints' command lines share: two sides, their addresses, and types; a refusal shows what was wanted."""

import argparse
from pathlib import Path

from agents.udp import Address


def add_sides(
    parser: argparse.ArgumentParser, *, sends: str, receives: str
) -> tuple[argparse.ArgumentParser, argparse.ArgumentParser]:
    """`send --file` and `receive --output`, with a line of help each. They land in `side` and `path`."""
    sides = parser.add_subparsers(dest="side", required=True)
    sender = sides.add_parser("send", help=sends)
    sender.add_argument("--file", dest="path", type=Path, required=True)
    receiver = sides.add_parser("receive", help=receives)
    receiver.add_argument("--output", dest="path", type=Path, required=True, help="where the whole file appears")
    return sender, receiver


def add_addresses(side: argparse.ArgumentParser) -> None:
    """`--local` and `--peer`, where both sides are given both."""
    side.add_argument("--local", type=address, required=True, metavar="ADDRESS:PORT")
    side.add_argument("--peer", type=address, required=True, metavar="ADDRESS:PORT")


def address(text: str) -> Address:
    """`10.77.0.1:2501`."""
    try:
        return Address.parse(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def not_negative(text: str) -> float:
    """A finite number from 0 up."""
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number < float("inf"):
        raise argparse.ArgumentTypeError(f"got {text!r}, wanted a number from 0 up")
    return number


def count(text: str) -> int:
    """A whole number from 0 up."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"got {text!r}, wanted a whole number from 0 up")
    return int(text)
