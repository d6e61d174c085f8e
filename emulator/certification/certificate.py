"""The certificate of a measured channel: each quantity as specified and as measured, with the verdict on each.

Quantities are named with their unit. All values are plain, so that a certificate can be sent and stored: the emulator's
service sends what `to_wire` returns, and `owlt.results.certificates` keeps and reads it.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal, Self

from pydantic import TypeAdapter

VIRTUAL_TOLERANCE_NS = 1_000
"""How much longer than specified a packet may take on a clock that stands still while the machine computes."""
REAL_TOLERANCE_NS = 200_000
"""Likewise on other clocks, if the machine is not too busy."""
_ROUNDING = 1e-6

CheckVerdict = Literal["ok", "failed", "not measured"]
ChannelVerdict = Literal["ok", "failed", "incomplete"]


@dataclass(frozen=True)
class Check:
    """One quantity of one direction.

    `low` and `high` enclose the channel's true value, according to the measurement with `count` probes or events.
    Values that do not exist are None. `reason` says why the verdict is not "ok".

    With the probability `detection_probability`, a sample of this size detects a value of `detectable_low` or less, or
    of `detectable_high` or more; None: there is no such value. `aim_low` and `aim_high` are the values for whose
    detection the size of the sample was chosen.
    """

    direction: str
    quantity: str
    verdict: CheckVerdict
    specified: float | None = None
    measured: float | None = None
    low: float | None = None
    high: float | None = None
    count: int = 0
    reason: str = ""
    detectable_low: float | None = None
    detectable_high: float | None = None
    detection_probability: float | None = None
    aim_low: float | None = None
    aim_high: float | None = None

    @property
    def falls_short(self) -> bool:
        """Whether the sample was too small, or the clock too coarse, for the errors that it should detect."""
        low, high = self.detectable_low, self.detectable_high
        return self.verdict != "not measured" and (
            (self.aim_low is not None and (low is None or low < self.aim_low * (1 - _ROUNDING)))
            or (self.aim_high is not None and (high is None or high > self.aim_high * (1 + _ROUNDING)))
        )

    def to_wire(self) -> dict[str, Any]:
        """Return plain values that XML-RPC carries exactly; None values are omitted.

        An XML-RPC integer has 32 bits, too few for a delay above 2.1 s in nanoseconds: quantities are sent as floats.
        """
        present = {name: value for name, value in asdict(self).items() if value is not None}
        return {name: float(value) if name in _QUANTITIES else value for name, value in present.items()}


_QUANTITIES = {field.name for field in fields(Check) if field.type == float | None}
_CHECKS = TypeAdapter(tuple[Check, ...])


@dataclass(frozen=True)
class Certificate:
    """The result of a measurement. `alpha`: the highest probability with which a channel as specified fails."""

    channel: Mapping[str, Any]
    """The specified channel in its written form, which is not parsed again: a timeline may have 100,000 steps."""
    checks: tuple[Check, ...]
    started_at_ns: int
    duration_s: float
    kernel: str
    alpha: float

    @property
    def verdict(self) -> ChannelVerdict:
        """ "failed" if any check failed, "incomplete" if one was not measured."""
        verdicts = {check.verdict for check in self.checks}
        return "failed" if "failed" in verdicts else "incomplete" if "not measured" in verdicts else "ok"

    def suspicion(self) -> list[str]:
        """Return a sentence for each quantity that failed."""
        return [_sentence(check) for check in self.checks if check.verdict == "failed"]

    def limits(self) -> list[str]:
        """Return a sentence for each quantity whose sample excludes less than intended."""
        return [
            f"{check.direction}: {check.quantity}: {power_text(check)}" for check in self.checks if check.falls_short
        ]

    def to_wire(self) -> dict[str, Any]:
        """Return plain values that XML-RPC and JSON carry exactly. Nanoseconds since 1970 need 61 bits: a text."""
        return {
            "verdict": self.verdict,
            "channel": dict(self.channel),
            "checks": [check.to_wire() for check in self.checks],
            "started_at_ns": str(self.started_at_ns),
            "duration_s": self.duration_s,
            "kernel": self.kernel,
            "alpha": self.alpha,
        }

    @classmethod
    def from_wire(cls, wire: Mapping[str, Any]) -> Self:
        """Return the certificate that `to_wire` wrote; its verdict is that of its checks.

        Raises ValueError or TypeError for anything else.
        """
        names = {field.name for field in fields(cls)}
        if set(wire) != names | {"verdict"}:
            raise ValueError(f"certificate: expected the keys {sorted(names | {'verdict'})}, got {sorted(wire)}")
        return cls(
            channel=dict(wire["channel"]),
            checks=_CHECKS.validate_python(tuple(wire["checks"])),
            started_at_ns=int(wire["started_at_ns"]),
            duration_s=float(wire["duration_s"]),
            kernel=str(wire["kernel"]),
            alpha=float(wire["alpha"]),
        )


def _sentence(check: Check) -> str:
    values = (check.specified, check.measured, check.low, check.high)
    specified, measured, low, high = map(number_text, values)
    between = f" (between {low} and {high})" if check.low is not None and check.high is not None else ""
    reason = f": {check.reason}" if check.reason else ""
    return f"{check.direction}: {check.quantity}: specified {specified}, measured {measured}{between}{reason}"


def power_text(check: Check) -> str:
    """Return the values that the sample of a check excludes: "excludes 0.0067 or less, 0.014 or more"."""
    ends = [
        *([f"{number_text(check.detectable_low)} or less"] if check.detectable_low is not None else []),
        *([f"{number_text(check.detectable_high)} or more"] if check.detectable_high is not None else []),
    ]
    if not ends:
        nothing = "can exclude no other value" if check.falls_short else "not stated"
        return "excludes every other value" if check.detection_probability == 1 else nothing
    return f"{'can only exclude' if check.falls_short else 'excludes'} {', '.join(ends)}"


def number_text(value: float | None) -> str:
    """Return a number with its significant digits."""
    if value is None:
        return "nothing"
    whole = float(value).is_integer() or abs(value) >= 1e6
    return f"{value:,.0f}" if whole and abs(value) < 1e15 else f"{value:.6g}"
