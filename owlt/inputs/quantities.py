"""Delays, rates, sizes and queues as users write them, "25 ms" and "10 Mbit/s", to and from ns, bit/s and bytes.

Units are decimal and case matters. A number without a unit is refused: 25 could be seconds or milliseconds. `Quantity`
describes the values of an axis: how one is read, how it is written, and whether it is an integer.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from math import isfinite
from typing import Any, Literal, get_args

from owlt.inputs.mistake import Invalid, Mistake, got, unexpected

UNLIMITED = "unlimited"
SHORTEST_NS, LONGEST_NS = 10**7, 86_400 * 10**9
"""The limits of the durations for which a sender may send."""

_DELAY_UNITS_NS = {
    "ns": Decimal(1),
    "us": Decimal(10) ** 3,
    "\N{MICRO SIGN}s": Decimal(10) ** 3,
    "ms": Decimal(10) ** 6,
    "s": Decimal(10) ** 9,
    "min": Decimal(60) * 10**9,
    "h": Decimal(3600) * 10**9,
}
_RATE_UNITS_BPS = {
    "bit/s": Decimal(1),
    "kbit/s": Decimal(10) ** 3,
    "Mbit/s": Decimal(10) ** 6,
    "Gbit/s": Decimal(10) ** 9,
    "Tbit/s": Decimal(10) ** 12,
}
_SIZE_UNITS_BYTES = {"B": Decimal(1), "kB": Decimal(10) ** 3, "MB": Decimal(10) ** 6, "GB": Decimal(10) ** 9}
_NUMBER_AND_UNIT = re.compile(
    r"(?P<number>[0-9]+(?:\.[0-9]+)?(?:e[+-]?[0-9]{1,2})?) *(?P<unit>[A-Za-z\u00B5/]*)", re.ASCII
)
_SAME_CHARACTER = str.maketrans(
    {
        "\N{GREEK SMALL LETTER MU}": "\N{MICRO SIGN}",
        "\N{NO-BREAK SPACE}": " ",
        "\N{NARROW NO-BREAK SPACE}": " ",
        "\N{THIN SPACE}": " ",
    }
)
"""Characters that are equivalent in a quantity. NFKC is not used: it would turn 10\N{SUPERSCRIPT SIX} into 106."""


def parse_delay_ns(text: object, spelling: str = "25 ms", likely: tuple[str, ...] = ("ms", "s")) -> int:
    """Return the delay in whole nanoseconds, e.g. 25_000_000 for "25 ms". `spelling` is the example in a mistake,
    `likely` are the units that it suggests for a number without one.

    Raises Invalid for a number without a unit, an unknown unit, or a fraction of a nanosecond.
    """
    delay_ns = _parse(text, _DELAY_UNITS_NS, spelling=spelling, likely=likely)
    if delay_ns != delay_ns.to_integral_value():
        raise Invalid(Mistake(got(text), "a whole number of nanoseconds"))
    return int(delay_ns)


def parse_rate_bps(text: object) -> float:
    """Return the rate in bit/s, e.g. 10e6 for "10 Mbit/s".

    Raises Invalid for a number without a unit or an unknown unit.
    """
    return float(_parse(text, _RATE_UNITS_BPS, spelling="10 Mbit/s", likely=("bit/s",)))


def parse_size_bytes(text: object, spelling: str = "100 kB") -> int:
    """Return the size in bytes, e.g. 100_000 for "100 kB". `spelling` is the example in a mistake.

    Raises Invalid for a number without a unit, an unknown unit, or part of a byte.
    """
    size_bytes = _parse(text, _SIZE_UNITS_BYTES, spelling=spelling, likely=("B",))
    if size_bytes != size_bytes.to_integral_value():
        raise Invalid(Mistake(got(text), "a whole number of bytes"))
    return int(size_bytes)


def parse_queue(text: object) -> dict[str, int | float]:
    """Return the queue under the name of its unit, e.g. {"queue_bytes": 64_000} for "64 kB".

    Packets ("1000 packets"), bytes, the time that it takes to send them ("50 ms"), or multiples of the
    bandwidth-delay product ("2 BDP"). Raises Invalid for anything else.
    """
    units = {"packets": Decimal(1), **_SIZE_UNITS_BYTES, **_DELAY_UNITS_NS, "BDP": Decimal(1)}
    value = _parse(text, units, spelling="1000 packets", likely=("packets", "B"))
    unit = str(text).strip().lstrip("0123456789.e+- ")
    if unit == "BDP":
        return {"queue_bdp": float(value)}
    if value != value.to_integral_value():
        raise Invalid(Mistake(got(text), "a whole number of packets, bytes or nanoseconds"))
    name = "queue_packets" if unit == "packets" else "queue_bytes" if unit in _SIZE_UNITS_BYTES else "queue_ns"
    return {name: int(value)}


@lru_cache(maxsize=4096)
def format_delay(delay_ns: int) -> str:
    """Return the delay in the largest of s, ms, us, ns that keeps the number at 1 or above; nothing is
    rounded.
    """
    units = {unit: _DELAY_UNITS_NS[unit] for unit in ("s", "ms", "us", "ns")}
    return _format(Decimal(delay_ns), units, zero="0 s")


@lru_cache(maxsize=4096)
def format_rate(rate_bps: float) -> str:
    """Return the rate in the largest unit that keeps the number at 1 or above; nothing is rounded."""
    units = dict(sorted(_RATE_UNITS_BPS.items(), key=lambda item: item[1], reverse=True))
    return _format(Decimal(repr(float(rate_bps))), units, zero="0 bit/s")


def format_size(size_bytes: int) -> str:
    """Return the size in the largest decimal unit that keeps it whole: 100,000 is "100 kB"."""
    units = reversed(_SIZE_UNITS_BYTES.items())
    unit, size = next((unit, size) for unit, size in units if size == 1 or (size_bytes and size_bytes % size == 0))
    return f"{size_bytes // int(size)} {unit}"


def parse_rate_or_unlimited(text: object) -> float | None:
    """A rate, or None for "unlimited": the baseline of the papers over a transparent bridge."""
    return None if text == UNLIMITED else parse_rate_bps(text)


def format_rate_or_unlimited(rate_bps: float | None) -> str:
    """The text of a rate, which `parse_rate_or_unlimited` reads."""
    return UNLIMITED if rate_bps is None else format_rate(rate_bps)


def parse_duration_ns(text: object) -> int:
    """A time for which data is sent, in ns. Raises Invalid for less than SHORTEST_NS or more than LONGEST_NS."""
    duration_ns = parse_delay_ns(text)
    if not SHORTEST_NS <= duration_ns <= LONGEST_NS:
        raise unexpected("a duration from 10 ms to 24 h")
    return duration_ns


PERCENT = r"[0-9]+(\.[0-9]+)?(e[+-]?[0-9]{1,2})? *%"
"""A probability in percent, as a regular expression."""


def parse_probability(value: object) -> float:
    """A probability: a number from 0 to 1, or text in percent, "1 %". Raises Invalid for anything else."""
    number = value
    if isinstance(value, str) and re.fullmatch(PERCENT, plain := value.translate(_SAME_CHARACTER).strip(), re.ASCII):
        number = float(Decimal(plain.rstrip("% ")) / 100)
    if isinstance(number, bool) or not isinstance(number, int | float) or not 0 <= number <= 1:
        raise Invalid(Mistake(got(value), 'a number from 0 to 1, or percent as in "1 %"'))
    return number


def parse_probability_argument(text: str) -> float:
    """A probability in an argument of a command, "0.01" or "1 %". Raises Invalid for anything else."""
    try:
        return parse_probability(float(text))
    except ValueError:
        return parse_probability(text)


def parse_share(text: str, most: float = 1) -> float:
    """A share of at most `most` in an argument of a command, in percent: "5%".

    The sign may be left out of a number that can only be percent, such as "5". Raises Invalid for anything else:
    "0.05" is 5 % to one reader and 0.05 % to another.
    """
    written = re.fullmatch(r"([0-9]*\.?[0-9]+) *(%?)", text.translate(_SAME_CHARACTER).strip(), re.ASCII)
    number = Decimal(written[1]) if written else Decimal(-1)
    if not 0 <= number <= Decimal(repr(most)) * 100:
        raise Invalid(Mistake(got(text), f"a percentage from 0 to {most * 100:g}, such as 5%"))
    if written and not written[2] and 0 < number <= most:
        fix = f"write {number.normalize():f}% or {(number * 100).normalize():f}%"
        raise Invalid(Mistake(got(text), "a percentage with its sign", fix))
    return float(number / 100)


def parse_number(value: object) -> int | float:
    """The value of a parameter that a range is made of. Raises Invalid for anything but a finite number."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value):
        raise unexpected("a number")
    return value


IpVersion = Literal[4, 6]
IP_VERSIONS: tuple[int, ...] = get_args(IpVersion)


def parse_ip_version(value: object) -> int:
    """A version of IP. Raises Invalid for anything but 4 or 6."""
    if not isinstance(value, int) or isinstance(value, bool) or value not in IP_VERSIONS:
        raise Invalid(Mistake(got(value), "4 or 6"))
    return value


def parse_ip_version_argument(text: str) -> int:
    """A version of IP in an argument of a command. Raises Invalid for anything but "4" or "6"."""
    return parse_ip_version(int(text) if text in map(str, IP_VERSIONS) else text)


def parse_name(value: object) -> Any:
    """A name. Raises Invalid for anything but text that is not empty."""
    if not isinstance(value, str) or not value:
        raise Invalid(Mistake(got(value), "a name"))
    return value


def unchanged(value: Any) -> Any:
    """A value that is written as it is."""
    return value


@dataclass(frozen=True)
class Quantity:
    """The kind of the values of an axis."""

    parse: Callable[[Any], Any]
    """Converts a written value to a number in the base unit (None: unlimited), or to a name. Raises Invalid."""
    write: Callable[[Any], Any] = unchanged
    """Converts a number or a name to a value as a file has it."""
    is_whole: bool = False
    """Whether its numbers are integers: nanoseconds and bytes."""
    parse_argument: Callable[[str], Any] | None = None
    """Converts a value in an argument of a command, where everything is text; None: as in a file."""

    def text(self, value: Any) -> str:
        """A value as written, in a message: "25 ms", "unlimited", "0.0001"."""
        written = self.write(value)
        return f"{written:g}" if isinstance(written, float) else str(written)

    def of_argument(self, text: str) -> Any:
        """The value that an argument of a command has. Raises Invalid."""
        return (self.parse_argument or self.parse)(text)


SIZE = Quantity(parse_size_bytes, format_size, is_whole=True)
RATE = Quantity(parse_rate_or_unlimited, format_rate_or_unlimited)
DELAY = Quantity(parse_delay_ns, format_delay, is_whole=True)
DURATION = Quantity(parse_duration_ns, format_delay, is_whole=True)
PROBABILITY = Quantity(parse_probability, parse_argument=parse_probability_argument)
IP = Quantity(parse_ip_version, is_whole=True, parse_argument=parse_ip_version_argument)
NAME = Quantity(parse_name, parse_argument=str)
NUMBER = Quantity(parse_number)


def _parse(text: object, units: Mapping[str, Decimal], *, spelling: str, likely: tuple[str, ...]) -> Decimal:
    """The value in the unit that is 1. `likely`: the units to suggest for a number without a unit."""
    match = _NUMBER_AND_UNIT.fullmatch(text.translate(_SAME_CHARACTER).strip()) if isinstance(text, str) else None
    if match is None or match["unit"] not in units:
        bare = isinstance(text, int | float) or (match is not None and not match["unit"])
        examples = [f'"{text} {unit}"' for unit in likely] if bare else [f'"{spelling}"']
        fix = f"write {'the unit,' if bare else 'it'} as in {' or '.join(examples)}"
        number = (
            "a number without a minus sign," if isinstance(text, str) and text.strip().startswith("-") else "a number"
        )
        raise Invalid(Mistake(got(text), f"{number} with one of the units {', '.join(units)}", fix))
    return Decimal(match["number"]) * units[match["unit"]]


def _format(value: Decimal, units: Mapping[str, Decimal], *, zero: str) -> str:
    if value == 0:
        return zero
    unit = next((unit for unit, size in units.items() if abs(value) >= size), list(units)[-1])
    number = format(value / units[unit], "f")
    return f"{number.rstrip('0').rstrip('.') if '.' in number else number} {unit}"
