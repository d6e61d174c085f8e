"""The {placeholders} of a launch command: which there are, what a run puts into them, how they are filled."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from decimal import Decimal
from difflib import get_close_matches
from pathlib import PurePath
from string import Formatter

from agents.figure import Figure

RUN_PLACEHOLDERS = {
    "python": "the Python interpreter that has this package",
    "builds": "the directory into which `make builds` installs, a directory a build",
    "file": "the file to send, on the sender",
    "file_name": "its name alone",
    "file_dir": "the directory that it is in",
    "received_file": "where the receiver puts the file",
    "received_dir": "the directory that it is to be in",
    "file_size_bytes": "size of the file",
    "rate_bps": "rate that the build is told, bit/s of layer-2 bytes: the forward channel's; 0 where it is not limited",
    "rate_kbps": "the same in units of 1000 bit/s",
    "rate_bytes_per_s": "the same in bytes",
    "reverse_rate_bps": "rate of the reverse channel, 0 where it is not limited",
    "one_way_delay_s": "delay that the build is told: the forward channel's",
    "one_way_delay_ms": "the same in ms",
    "rtt_s": "round trip that the build is told: the sum of the delays of both directions",
    "rtt_ms": "the same in ms",
    "channel_rate_bps": "rate of the forward channel, whatever the build is told",
    "channel_one_way_delay_s": "delay of the forward channel, whatever the build is told",
    "mtu_bytes": "the largest IP packet of the test path",
    "packet_error_rate": "packet error rate of the forward channel, 0 to 1",
    "bit_error_rate": "bit error rate of the forward channel, 0 to 1; for a packet error rate or losses in bursts, the "
    "bit error rate that damages a frame of {mtu_bytes} + 14 bytes as often",
    "reverse_bit_error_rate": "the same for the reverse channel",
    "sender_address": "IPv4 address of the sender on the test path",
    "receiver_address": "IPv4 address of the receiver on the test path",
    "sender_interface": "the sender's interface on the test path",
    "receiver_interface": "the receiver's interface on the test path",
    "run_dir": "a directory on each host private to the run; programs start in it",
    "seed": "the run's seed, a whole number from 0 to 2^32 - 1",
}
"""Name and meaning of every placeholder that a run fills."""

LAUNCH_PLACEHOLDERS = {"python", "builds"}
"""Those that are known before there is a run: a version command has these and the build's own programs."""

RECEIVED_PLACEHOLDERS = {"run_dir", "file_name"}
"""Those of which the place of the received file is made."""


@dataclass(frozen=True, kw_only=True)
class RunValues:
    """What one run puts into the placeholders. The names are those of RUN_PLACEHOLDERS."""

    python: str
    builds: str
    file: str
    received_file: str
    file_size_bytes: int
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
            "rtt_ms": 1000 * self.rtt_s,
        }
        return {name: as_text(value) for name, value in (given | derived).items()}


def as_text(value: float | str) -> str:
    """A value as programs take it: 10000000 and not 1e7, 0.0001 and not 1e-04. Of a number it is a `Figure`."""
    if isinstance(value, str):
        return value
    whole = isinstance(value, int) or value.is_integer()
    return Figure(int(value) if whole else format(Decimal(f"{value:.15g}"), "f"))


def render(templates: Sequence[str], values: Mapping[str, str]) -> list[str]:
    """The templates with their placeholders filled. One template stays one argument, whatever a value holds.

    Raises:
        KeyError: a placeholder has no value.
    """
    return [template.format_map(values) for template in templates]


def names_in(template: str) -> set[str]:
    """The placeholders of a template that `check` has let pass."""
    return {name for _, name, _, _ in Formatter().parse(template) if name is not None}


def check(where: str, template: str, known: Collection[str]) -> None:
    """Refuse what `render` could not fill.

    Raises:
        ValueError: an unknown placeholder or an unpaired brace; names the place and the next step.
    """
    try:
        parts = list(Formatter().parse(template))
    except ValueError as error:
        raise ValueError(f"{where}: got {template!r} ({error}); a literal brace is written twice") from error
    for _, name, format_spec, conversion in parts:
        if name is None:
            continue
        if format_spec or conversion or name not in known:
            near = get_close_matches(name, known, n=1)
            choice = f"did you mean {{{near[0]}}}?" if near else f"known here: {', '.join(sorted(known))}."
            raise ValueError(
                f"{where}: got {template!r}, whose {{{name}}} is not a plain known placeholder; "
                f"{choice} A build's own go under parameters, and a literal brace is written twice"
            )
