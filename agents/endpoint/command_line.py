"""The command line of an endpoint: two sides, their addresses, and the options of its settings.

An endpoint ends with one line, the result or the reason, and an exit status that means the same for all.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import Any

from owlt.agents.endpoint.udp import Address


@dataclass(frozen=True)
class Option:
    """A field of a settings class as an option: `--rate-bps` for `rate_bps`, of the command lines of `sides`."""

    help: str
    read: Callable[[str], object]
    choices: tuple[object, ...] | None
    sides: tuple[str, ...]
    required: bool


def option(
    help: str,
    read: Callable[[str], object] = str,
    default: object = MISSING,
    *,
    choices: Iterable[object] | None = None,
    sides: tuple[str, ...] = ("send", "receive"),
    required: bool = False,
) -> Any:
    """A field of a settings class that a user can choose. The option is required without a default, or if `required`.

    The default is part of the help, unless the text already says what it means ("default: ...").
    """
    required = required or default is MISSING
    if not required and default is not None and "default:" not in help:
        help = f"{help}; default: {default:g}" if isinstance(default, float) else f"{help}; default: {default}"
    described = Option(help, read, None if choices is None else tuple(choices), sides, required)
    return field(default=default, metadata={"option": described})


def add_settings(sender: argparse.ArgumentParser, receiver: argparse.ArgumentParser, settings: type) -> None:
    """Adds the options that a settings class describes. Those that are not given are not in the namespace."""
    for name, side in (("send", sender), ("receive", receiver)):
        for each in fields(settings):
            described = each.metadata.get("option")
            if described is not None and name in described.sides:
                side.add_argument(
                    f"--{each.name.replace('_', '-')}",
                    type=described.read,
                    choices=described.choices,
                    default=argparse.SUPPRESS,
                    required=described.required,
                    help=described.help,
                )


def two_sides(
    prog: str, description: str, settings: type, *, sends: str, receives: str
) -> tuple[argparse.ArgumentParser, argparse.ArgumentParser, argparse.ArgumentParser]:
    """The command line of one file between two addresses, with the options of its settings; and its two sides."""
    parser = argparse.ArgumentParser(prog=prog, description=description)
    sender, receiver = add_sides(parser, sends=sends, receives=receives)
    for side in (sender, receiver):
        side.add_argument("--local", type=address, required=True, metavar="ADDRESS:PORT")
        side.add_argument("--peer", type=address, required=True, metavar="ADDRESS:PORT")
    add_settings(sender, receiver, settings)
    return parser, sender, receiver


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


def at_least_one(text: str) -> int:
    """A whole number of at least 1."""
    number = count(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"got {text!r}, expected a whole number of at least 1")
    return number


def count(text: str) -> int:
    """A whole number of at least 0."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"got {text!r}, expected a whole number of at least 0")
    return int(text)
