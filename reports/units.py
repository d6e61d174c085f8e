"""Quantities formatted as usual in the field: 25 ms, 10 Mbit/s, 100 kB (decimal), packet error rate 10⁻⁴."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from owlt.inputs.axes import Axis
from owlt.inputs.quantities import DELAY, DURATION, IP, NAME, PROBABILITY, RATE, SIZE, Quantity
from owlt.results.permutation import duration_text as duration_text
from owlt.results.permutation import size_text as size_text

_SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")

Units = tuple[tuple[str, float, float], ...]
"""Units of a quantity, the largest first: the unit, its size in the base unit, and the smallest value, in the base
unit, that is written in this unit."""


def unit_for(units: Units, value: float) -> tuple[str, float]:
    """The unit in which a value is written, and its size in the base unit: the smallest unit for smaller values."""
    *larger, (smallest, size_of_smallest, _) = units
    return next(((unit, size) for unit, size, least in larger if value >= least), (smallest, size_of_smallest))


def delay_text(delay_ns: int) -> str:
    """A delay in ns, us or ms up to ten seconds, in s, min or h beyond: 1.25 s is "1250 ms"."""
    for unit, factor, least in (
        ("h", 3_600 * 10**9, 3_600 * 10**9),
        ("min", 60 * 10**9, 120 * 10**9),
        ("s", 10**9, 10 * 10**9),
        ("ms", 10**6, 10**5),
        ("µs", 10**3, 10**3),
    ):
        if delay_ns >= least:
            return f"{delay_ns / factor:.6g} {unit}"
    return f"{delay_ns} ns" if delay_ns else "0 ms"


def moment_text(time_ns: int) -> str:
    """A time since a beginning: 11,760 s are "3 h 16 min", half a second is "500 ms"."""
    seconds, rest_ns = divmod(time_ns, 10**9)
    if rest_ns:
        return delay_text(time_ns)
    minutes, seconds = divmod(seconds, 60)
    parts = ((minutes // 60, "h"), (minutes % 60, "min"), (seconds, "s"))
    return " ".join(f"{number} {unit}" for number, unit in parts if number) or "0 s"


def rate_text(rate_bps: float | None) -> str:
    """A rate in bit/s with its decimal prefix; None is no limit."""
    if rate_bps is None:
        return "unlimited rate"
    for prefix, factor in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if rate_bps >= factor:
            return f"{rate_bps / factor:.6g} {prefix}bit/s"
    return f"{rate_bps:g} bit/s"


def probability_text(probability: float) -> str:
    """A probability: 0, 0.01, and as a power of ten below a thousandth."""
    return _small_text(probability) if 0 < probability < 1e-3 else f"{probability:g}"


def _small_text(value: float) -> str:
    """A number as a power of ten: 10⁻⁴, 2.5·10⁻⁵."""
    mantissa, exponent = f"{value:.3e}".split("e")
    power = "10" + str(int(exponent)).translate(_SUPERSCRIPT)
    factor = f"{float(mantissa):g}"
    return power if factor == "1" else f"{factor}·{power}"


def number_text(value: float) -> str:
    """A number without trailing zeros: 0.01, 10, 1 019.5."""
    text = f"{value:,.9f}".rstrip("0").rstrip(".")
    return text.replace(",", "\N{NARROW NO-BREAK SPACE}")


def measured_text(value: float) -> str:
    """A measured number to four significant digits, zeros included: 4.950; 3.281·10⁻⁵ below a thousandth."""
    if 0 < value < 1e-3:
        mantissa, exponent = f"{value:.3e}".split("e")
        return f"{mantissa}·10{str(int(exponent)).translate(_SUPERSCRIPT)}"
    return f"{value:#.4g}".rstrip(".")


def tick_text(value: float) -> str:
    """A number on an axis, short: 0.01, 1 000, and as a power of ten below a thousandth."""
    return _small_text(value) if 0 < value < 0.9995e-3 else number_text(value)


def listed(texts: list[str], between: str = ", ") -> str:
    """Words joined for a sentence: "a, b and c"."""
    return texts[0] if len(texts) == 1 else between.join(texts[:-1]) + " and " + texts[-1]


def all_of(number: int, noun: str) -> str:
    """All of several things, by their number and their plural: "all 3 cells", "both cells"."""
    return f"both {noun}" if number == 2 else f"all {number} {noun}"


_TEXTS: dict[Quantity, Callable[[Any], str]] = {
    NAME: str,
    IP: lambda value: f"IPv{value}",
    SIZE: lambda value: size_text(int(value)),
    DURATION: lambda value: duration_text(int(value)),
    RATE: rate_text,
    DELAY: lambda value: delay_text(int(value)),
    PROBABILITY: probability_text,
}


def axis_text(axis: Axis, value: Any) -> str:
    """A value of an axis of the grid, such as "25 ms" or "0.01"; "" if a point has no file or no duration."""
    return "" if value is None and axis.quantity is not RATE else _TEXTS[axis.quantity](value)


def named_axis_text(axis: Axis, value: Any) -> str:
    """A value with the name of its quantity if it has no unit, or a direction: "PER 0.01", "reverse 1 Mbit/s"."""
    return with_head(axis, axis_text(axis, value))


def with_head(axis: Axis, words: str) -> str:
    """Values of an axis in words, after its name if they have no unit, and after the direction of a link."""
    return f"{axis.head} {words}" if axis.quantity is PROBABILITY else f"{axis.way} {words}".lstrip()
