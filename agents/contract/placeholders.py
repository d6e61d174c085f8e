"""The {placeholders} of a launch command: names, values in a run, how they are filled, arithmetic on numbers."""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from decimal import Decimal
from pathlib import PurePath
from string import Formatter
from typing import Any, SupportsIndex

from owlt.inputs.mistake import Mistake, did_you_mean


class Figure(str):
    """The text of a number. Arithmetic and comparison with a number use its value; everything else uses its text.

    So `{{ rtt_s * 2 }}` is twice the round trip and not its digits twice, and `rate_bps != "0"` is still true for a
    rate of 5.
    """

    __slots__ = ()

    @property
    def value(self) -> int | float:
        """The number: an int if the text is one."""
        text = str(self)
        return int(text) if text.removeprefix("-").isdecimal() else float(text)

    def __int__(self) -> int:
        return int(self.value)

    def __float__(self) -> float:
        return float(self.value)

    def __bool__(self) -> bool:
        return self.value != 0

    def __index__(self) -> int:
        value = self.value
        if isinstance(value, float):
            raise TypeError(f"{self} is not a whole number")
        return value

    def __round__(self, digits: SupportsIndex | None = None) -> int | float:
        return round(self.value, digits)

    def __format__(self, form: str) -> str:
        return format(self.value, form) if form else str(self)

    def __pos__(self) -> int | float:
        return self.value

    def __neg__(self) -> int | float:
        return -self.value

    def __abs__(self) -> int | float:
        return abs(self.value)

    def __hash__(self) -> int:
        return str.__hash__(self)

    def lower(self) -> Figure:
        """The number itself: Jinja2 calls `lower` on every text before it looks for the largest."""
        return self


def _operator(name: str, turned: bool) -> Callable[[Figure, Any], Any]:
    """The operator `name` on numbers; with other text, on text."""
    of_numbers, of_text = getattr(operator, name), getattr(str, f"__{name}__", None)

    def method(self: Figure, other: Any) -> Any:
        if isinstance(other, str) and not isinstance(other, Figure):
            texts = (other, self) if turned else (self, other)
            return of_text(*texts) if of_text else NotImplemented
        number = other.value if isinstance(other, Figure) else other
        return of_numbers(*((number, self.value) if turned else (self.value, number)))

    return method


for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow"):
    setattr(Figure, f"__{_name}__", _operator(_name, turned=False))
    setattr(Figure, f"__r{_name}__", _operator(_name, turned=True))
for _name in ("eq", "ne", "lt", "le", "gt", "ge"):
    setattr(Figure, f"__{_name}__", _operator(_name, turned=False))


RUN_PLACEHOLDERS = {
    "python": "the Python interpreter in whose environment owlt is installed",
    "third_party": "the directory into which `owlt third-party install` installs, one subdirectory per implementation",
    "file": "the file to send, on the sender",
    "file_name": "the file's name without its directory",
    "file_dir": "the file's directory",
    "received_file": "where the receiver writes the file",
    "received_dir": "the directory of the received file",
    "file_size_bytes": "size of the file",
    "duration_s": "how long the sender is to send; only under duration",
    "outages": "announced if this side may be suspended and resumed during the run; otherwise silent",
    "rate_bps": "advertised rate in bit/s of layer-2 bytes: the forward channel's unless the sweep advertises another; "
    "0 if unlimited",
    "rate_kbps": "the same in units of 1000 bit/s",
    "rate_bytes_per_s": "the same in bytes per second",
    "reverse_rate_bps": "rate of the reverse channel, 0 if unlimited",
    "one_way_delay_s": "advertised one-way delay: the forward channel's unless the sweep advertises another",
    "one_way_delay_ms": "the same in ms",
    "rtt_s": "advertised round trip: the sum of the delays of both directions",
    "rtt_ms": "the same in ms",
    "channel_rate_bps": "rate of the forward channel, even if another is advertised",
    "channel_one_way_delay_s": "delay of the forward channel, even if another is advertised",
    "mtu_bytes": "the largest IP packet of the test path",
    "packet_error_rate": "packet error rate of the forward channel, 0 to 1",
    "bit_error_rate": "bit error rate of the forward channel, 0 to 1; for a packet error rate or losses in bursts, the "
    "bit error rate that damages a frame of {mtu_bytes} + 14 bytes with the same probability",
    "reverse_bit_error_rate": "the same for the reverse channel",
    "sender_address": "IP address of the sender on the test path",
    "receiver_address": "IP address of the receiver on the test path",
    "ip_version": "version of IP on the test path: 4 or 6",
    "sender_host": "the sender's address as it is written before a port or in a URL: IPv6 in brackets (RFC 3986)",
    "receiver_host": "the same of the receiver",
    "sender_interface": "the sender's interface on the test path",
    "receiver_interface": "the receiver's interface on the test path",
    "run_dir": "a directory on each host, private to the run; programs start in it",
    "seed": "the run's seed, an integer from 0 to 2^32 - 1",
}
"""Name and meaning of every placeholder that a run fills."""

ERROR_RATES = {"packet_error_rate", "bit_error_rate", "reverse_bit_error_rate"}

LAUNCH_PLACEHOLDERS = {"python", "third_party"}
"""The placeholders known before a run: a version command has these and the implementation's own programs."""

RECEIVED_PLACEHOLDERS = {"run_dir", "file_name"}
"""The placeholders available in the path of the received file."""


@dataclass(frozen=True, kw_only=True)
class RunValues:
    """The values of the placeholders in one run. The names are those of RUN_PLACEHOLDERS."""

    python: str
    third_party: str
    file: str
    received_file: str
    file_size_bytes: int
    duration_s: float = 0.0
    outages: str = "silent"
    rate_bps: float | None
    reverse_rate_bps: float | None
    one_way_delay_s: float
    rtt_s: float
    channel_rate_bps: float | None
    channel_one_way_delay_s: float
    mtu_bytes: int
    packet_error_rate: float
    bit_error_rate: float
    reverse_bit_error_rate: float
    sender_address: str
    receiver_address: str
    sender_interface: str
    receiver_interface: str
    run_dir: str
    seed: int

    def as_text(self) -> dict[str, str]:
        """Every placeholder as it appears on a command line: plain decimal numbers, no exponents."""
        given = {name: 0.0 if value is None else value for name, value in asdict(self).items()}
        derived = {
            "file_name": PurePath(self.file).name,
            "file_dir": str(PurePath(self.file).parent),
            "received_dir": str(PurePath(self.received_file).parent),
            "rate_kbps": given["rate_bps"] / 1000,
            "rate_bytes_per_s": given["rate_bps"] / 8,
            "one_way_delay_ms": 1000 * self.one_way_delay_s,
            "ip_version": 6 if ":" in self.sender_address else 4,
            "sender_host": _host(self.sender_address),
            "receiver_host": _host(self.receiver_address),
            "rtt_ms": 1000 * self.rtt_s,
        }
        return {name: as_text(value) for name, value in (given | derived).items()}


def _host(address: str) -> str:
    return f"[{address}]" if ":" in address else address


def as_text(value: float | str) -> str:
    """A value as programs accept it: 10000000 and not 1e7, 0.0001 and not 1e-04. A number becomes a `Figure`."""
    if isinstance(value, str):
        return value
    whole = isinstance(value, int) or value.is_integer()
    return Figure(int(value) if whole else format(Decimal(f"{value:.15g}"), "f"))


def render(templates: Sequence[str], values: Mapping[str, str]) -> list[str]:
    """The templates with their placeholders filled. One template stays one argument, for any value.

    Raises:
        KeyError: a placeholder has no value.
    """
    return [template.format_map(values) for template in templates]


def names_in(template: str) -> set[str]:
    """The placeholders of a template in which `mistake_in` finds nothing."""
    return {name for _, name, _, _ in Formatter().parse(template) if name is not None}


def mistake_in(template: str, known: Collection[str]) -> Mistake | None:
    """What `render` could not fill: an unknown placeholder or an unpaired brace. None if there is nothing."""
    try:
        parts = list(Formatter().parse(template))
    except ValueError as error:
        return Mistake(f"got {template!r} ({error})", fix="write a literal brace twice")
    for _, name, format_spec, conversion in parts:
        if name is not None and name not in known:
            braced = [f"{{{each}}}" for each in known]
            choice = did_you_mean(f"{{{name}}}", braced, f"known: {', '.join(sorted(known))}.")
            return Mistake(
                f"{{{name}}} is not a known placeholder",
                fix=f"{choice} Define your own placeholders under parameters; write a literal brace twice",
            )
        if format_spec or conversion:
            return Mistake(f"got {template!r}", f"{{{name}}} without a conversion or a format")
    return None
