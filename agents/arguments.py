"""Types of command-line arguments that the endpoints share; each refusal shows what was wanted."""

import argparse

from agents.udp import Address


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
