"""A certificate in words: the verdict on a channel, and what was measured of each quantity, in readable units."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from math import isinf

from owlt.reports.results.load import Channel
from owlt.reports.units import number_text, probability_text, rate_text
from owlt.results.certificates import Check
from owlt.results.files import CERTIFICATES

NONE = "–"
_TIMES = (("s", 10**9, 10**10), ("ms", 10**6, 10**5), ("µs", 10**3, 10**3), ("ns", 1, 0))
"""Unit, its ns, and from how many ns on it is used."""
_RATES = (("Gbit/s", 1e9), ("Mbit/s", 1e6), ("kbit/s", 1e3), ("bit/s", 1.0))
_UNITS = ("ns", "bit/s", "bytes", "packets")


@dataclass(frozen=True)
class CheckWords:
    """A check as a table shows it."""

    direction: str
    quantity: str
    specified: str
    measured: str
    interval: str
    count: str
    power: str
    verdict: str
    reason: str


def verdict_words(channel: Channel, certify: bool) -> str:
    """The verdict on a channel, or why it has none. `certify` is the sweep's key: whether channels are certified."""
    certificate = channel.certificate
    if certificate is None:
        unknown = "its certificate is damaged" if "damaged" in channel.problem else "its certificate is missing"
        why = "a transparent bridge has no specification" if channel.specified.bypass else unknown
        return (
            f"not certified: {why}"
            if certify or channel.specified.bypass
            else "not certified: the sweep sets certify: false"
        )
    counts = Counter(check.verdict for check in certificate.checks)
    total = sum(counts.values())
    if certificate.verdict == "ok":
        return f"ok: all {total} quantities as specified"
    unmeasured = f"{counts['not measured']} not measured" if counts["not measured"] else ""
    if certificate.verdict == "incomplete":
        return f"incomplete: {unmeasured} of {total} quantities"
    return f"failed: {counts['failed']} of {total} quantities{unmeasured and f', {unmeasured}'}"


def certificate_address(channel: Channel) -> str:
    """Where the certificate's file is, from the page."""
    return f"../{CERTIFICATES}/{channel.key}.json"


def check_words(check: Check) -> CheckWords:
    """A check with its numbers in one unit, the one that suits the specified value."""
    quantity, comma, unit = check.quantity.rpartition(", ")
    if not comma or unit not in _UNITS:
        quantity, unit = check.quantity, ""
    finite = [value for value in (check.specified, check.measured) if value is not None and not isinf(value)]
    scale = _Scale.of(unit, max(finite, default=0.0), "share" in quantity)
    return CheckWords(
        direction=check.direction,
        quantity=quantity,
        specified=scale.text(check.specified),
        measured=scale.text(check.measured),
        interval=_interval(check, scale),
        count=number_text(check.count) if check.count else NONE,
        power=_power(check, scale),
        verdict=check.verdict,
        reason=check.reason,
    )


@dataclass(frozen=True)
class _Scale:
    """How the numbers of a check are written: divided by `per_unit`, with so many decimals or significant digits."""

    unit: str
    per_unit: float = 1.0
    decimals: int | None = None
    is_share: bool = False

    @classmethod
    def of(cls, unit: str, greatest: float, is_share: bool) -> _Scale:
        if unit == "ns":
            name, ns, _ = next(each for each in _TIMES if greatest >= each[2])
            return cls(name, ns, len(str(ns)) - 1)
        if unit == "bit/s":
            return cls(*next((each for each in _RATES if greatest >= each[1]), _RATES[-1]))
        return cls(unit, is_share=is_share)

    def number(self, value: float) -> str:
        if self.is_share:
            return probability_text(float(f"{value:.3g}"))
        value /= self.per_unit
        if self.decimals is not None:
            return number_text(round(value, self.decimals))
        return number_text(value) if value.is_integer() else number_text(float(f"{value:.6g}"))

    def text(self, value: float | None) -> str:
        if value is None:
            return NONE
        if isinf(value):
            return rate_text(None) if self.unit.endswith("bit/s") else "unlimited"
        return f"{self.number(value)} {self.unit}".rstrip()


def _power(check: Check, scale: _Scale) -> str:
    """The values that the sample would detect as wrong: "0.0067 or less, 0.014 or more", "only 24.8 ms or less"."""
    low, high = check.detectable_low, check.detectable_high
    ends = [
        *([f"{scale.text(low)} or less"] if low is not None else []),
        *([f"{scale.text(high)} or more"] if high is not None else []),
    ]
    if not ends:
        return "every other value" if check.detection_probability == 1 else NONE
    return f"{'only ' if check.falls_short else ''}{', '.join(ends)}"


def limits(channel: Channel) -> list[str]:
    """A phrase for each quantity whose sample was too small, or its clock too coarse, for the intended accuracy."""
    checks = channel.certificate.checks if channel.certificate else ()
    words = [check_words(check) for check in checks if check.falls_short]
    return [f"{each.direction} {each.quantity}: detects {each.power}" for each in words]


def _interval(check: Check, scale: _Scale) -> str:
    """The values that the channel may have: "0 to 0.01", "at most 25.05 ms"; one number if only one is possible."""
    low, high = check.low, check.high
    if low is None or high is None:
        return NONE if low is high else f"at least {scale.text(low)}" if high is None else f"at most {scale.text(high)}"
    return scale.text(low) if low == high else f"{scale.number(low)} to {scale.text(high)}"
