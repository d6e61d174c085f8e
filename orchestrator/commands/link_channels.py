"""Channels with fading and hybrid ARQ, or with coded frames, on one link.

Each class is a model: its fields are the options of its command, its docstring is the help page. Fading belongs to
`land_mobile_channel`, codes to `emulator.models`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from owlt.inputs.mistake import Mistake
from owlt.orchestrator.commands.computed_channels import (
    ComputedChannel,
    Hours,
    Links,
    moments_s,
    parse_seconds,
    table_rows,
)
from owlt.orchestrator.commands.usage import parsed
from owlt.orchestrator.errors import OwltError

if TYPE_CHECKING:
    from owlt.emulator.channel.channel_file import ChannelProfile

LEAST_ERROR_RATE = 1e-12
MOST_EBN0_DB = 100.0
LEAST_COHERENCE_NS = 1_000_000
LEAST_FRAME_BYTES = 32


class FrameKind(StrEnum):
    """Transfer frames."""

    tm = "tm"
    aos = "aos"
    tc = "tc"


class Code(StrEnum):
    """Codes whose frame error rate is computed, and any other one."""

    rs_223 = "rs-223"
    rs_239 = "rs-239"
    bch_sec = "bch-sec"
    bch_ted = "bch-ted"
    other = "other"


class LinkEnd(StrEnum):
    """The link that is coded."""

    forward = "forward"
    reverse = "reverse"


CODES = {
    FrameKind.tm: (Code.rs_223, Code.rs_239, Code.other),
    FrameKind.aos: (Code.rs_223, Code.rs_239, Code.other),
    FrameKind.tc: (Code.bch_sec, Code.bch_ted, Code.other),
}
"""The codes of each kind of frame; the first one is the default."""


@dataclass(frozen=True)
class Frames:
    """The frames of a link: bytes of packets, bytes that are sent, their description, and their error rate by Eb/N0."""

    data_bytes: int
    coded_bytes: int
    text: str
    error_rate_at: Callable[[float], float] | None
    """None: a table has to give it."""


@dataclass(frozen=True)
class LandMobile:
    """Compute a fading channel to a land-mobile terminal.

    Its forward link has type II HARQ.

    The fading is that of trees (Perez-Fontan's three-state model, S band). --base adds a channel of 'owlt channel leo'.
    With --average, attempts are drawn for each packet independently, as if fading were fast against the packet rate, or
    with --coherence for packets that follow each other closely.
    """

    snr: Annotated[float, typer.Option(metavar="DB", help="Mean signal-to-noise ratio in dB.")]
    seed: Annotated[int, typer.Option(metavar="NUMBER", min=0, help="Seed of the fading.")] = 1
    speed: Annotated[float, typer.Option(metavar="M/S", min=0.1, max=100, help="Speed of the terminal in m/s.")] = 1
    attempts: Annotated[int, typer.Option(metavar="COUNT", help="How many times a packet is sent at most.")] = 4
    first_attempt: Annotated[str, typer.Option(metavar="TIME", help="Duration of the first attempt.")] = "10 ms"
    retransmission: Annotated[str, typer.Option(metavar="TIME", help="Duration of each further attempt.")] = "20 ms"
    step: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="From one value to the next: a multiple of --retransmission; default: five times it.",
        ),
    ] = None
    table: Annotated[
        Path | None,
        typer.Option(metavar="FILE.csv", help="Success probability by SNR and attempt; default: computed."),
    ] = None
    average: Annotated[
        bool,
        typer.Option(
            "--average", help="Use the averages over --hours: the same shares of attempts and losses at every moment."
        ),
    ] = False
    coherence: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="With --average: packets within this time share a fade, and need the same number of attempts; "
            "default: each packet has its own.",
        ),
    ] = None
    in_order: Annotated[
        bool, typer.Option("--in-order", help="Packets wait for those before them; default: they overtake.")
    ] = False
    base: Annotated[
        str | None, typer.Option(metavar="CHANNEL", help="Channel whose links, delays and outages are added.")
    ] = None
    hours: Hours = 0.2

    def compute(self, links: Links) -> ComputedChannel:
        """Compute the channel. Raises OwltError."""
        from owlt.orchestrator.commands.land_mobile_channel import (
            STEP_ATTEMPTS,
            HarqRequest,
            average_channel,
            default_table,
            land_mobile_channel,
            read_success_table,
        )
        from owlt.orchestrator.profiles.catalogue import find_channel

        again_ns = round(parse_seconds("--retransmission", self.retransmission) * 1e9)
        if not 10**6 <= again_ns <= 10**9:
            raise OwltError(Mistake.of("--retransmission", f"got {self.retransmission!r}", "1 ms to 1 s"))
        moments_s(self.hours, again_ns / 1e9)
        step_ns = round(parse_seconds("--step", self.step) * 1e9) if self.step else STEP_ATTEMPTS * again_ns
        if step_ns < again_ns or step_ns % again_ns:
            expected = f"a multiple of --retransmission, {self.retransmission}"
            raise OwltError(Mistake.of("--step", f"got {self.step!r}", expected))
        coherence_ns = round(parse_seconds("--coherence", self.coherence) * 1e9) if self.coherence else None
        if coherence_ns is not None and not (self.average and coherence_ns >= LEAST_COHERENCE_NS):
            problem = f"got {self.coherence!r}" if self.average else "needs --average"
            raise OwltError(Mistake.of("--coherence", problem, "at least 1 ms, with --average"))
        request = HarqRequest(
            mean_snr_db=self.snr,
            speed_m_per_s=self.speed,
            first_ns=round(parse_seconds("--first-attempt", self.first_attempt) * 1e9),
            again_ns=again_ns,
            step_ns=step_ns,
            coherence_ns=coherence_ns,
            in_order=self.in_order,
            seed=self.seed,
            seconds=self.hours * 3600,
            table=read_success_table(self.table) if self.table else default_table(self.attempts),
            links=links,
        )
        compute, kind = (average_channel, "average-") if self.average else (land_mobile_channel, "")
        channel = compute(request, find_channel(self.base) if self.base else None)
        return replace(channel, default_name=f"land-mobile-{kind}{self.snr:g}dB-{self.seed}")


@dataclass(frozen=True)
class Coded:
    """Compute a channel with coded frames on one link.

    The frames are TM or AOS frames with Reed-Solomon codewords, TC frames in BCH codeblocks, or frames of another code.

    The rate of the link is --rate without headers, parity and markers. Without --table, the frame error rate at an
    Eb/N0 is computed for BPSK or QPSK with this code alone. To code both links, compute one, and then the other with
    --base.
    """

    rate: Annotated[str, typer.Option(metavar="RATE", help="Rate of the coded link, such as 2Mbit/s.")]
    frame: Annotated[
        FrameKind, typer.Option("--frame", help="Transfer frames, with a header of 6 (tm, aos) or 5 bytes (tc).")
    ] = FrameKind.tm
    code: Annotated[
        Code | None,
        typer.Option(
            help="Reed-Solomon with 223 (default of tm and aos) or 239 data symbols of 255; BCH (63,56) that corrects "
            "one wrong bit (default of tc) or detects up to three; or another code.",
        ),
    ] = None
    interleaving: Annotated[
        int | None,
        typer.Option(metavar="DEPTH", help="Interleaving depth of the Reed-Solomon code; default: 5."),
    ] = None
    header: Annotated[
        int | None,
        typer.Option(metavar="BYTES", min=0, help="Length of header and trailer; default: the header of --frame."),
    ] = None
    error_control: Annotated[
        bool, typer.Option("--error-control", help="Frames have a frame error control field (2 bytes).")
    ] = False
    frame_bytes: Annotated[
        int | None,
        typer.Option(
            metavar="BYTES",
            help="Bytes of packets in a frame, for tc (default: the maximum) or for another code.",
        ),
    ] = None
    coded_bytes: Annotated[
        int | None, typer.Option(metavar="BYTES", help="Bytes sent for a frame, of another code.")
    ] = None
    ebn0: Annotated[float | None, typer.Option(metavar="DB", help="Eb/N0 of the link, in dB.")] = None
    table: Annotated[
        Path | None,
        typer.Option(metavar="FILE.csv", help="Frame error rate by Eb/N0: ebn0_db,frame_error_rate."),
    ] = None
    error_rate: Annotated[
        str | None,
        typer.Option("--frame-error-rate", metavar="PROBABILITY", help="Instead of --ebn0, such as 0.001 or 0.1%."),
    ] = None
    link: Annotated[LinkEnd, typer.Option(help="The link that is coded.")] = LinkEnd.forward
    base: Annotated[
        str | None,
        typer.Option(metavar="CHANNEL", help="Channel that provides all other values, such as the other link."),
    ] = None

    @property
    def chosen_code(self) -> Code:
        """The code that is given, or the usual one of the frames."""
        return self.code or CODES[self.frame][0]

    def compute(self, links: Links) -> ComputedChannel:
        """Compute the rate of packets and the frame error rate. Raises OwltError."""
        from owlt.inputs.quantities import format_rate, parse_rate_bps

        frames = _frames(self)
        lost = _error_rate(frames, self)
        share = frames.data_bytes / frames.coded_bytes
        packet_rate_bps = parsed("--rate", self.rate, parse_rate_bps) * share
        before = _base(self.base) if self.base else None
        if before is not None:
            links = {way: before.channel.link(way).to_wire() | keys for way, keys in links.items()}
        links[self.link.value] |= {
            "rate": format_rate(round(packet_rate_bps)),
            "coding": {"frame_bytes": frames.data_bytes, "frame_error_rate": lost},
        }
        at = f" at an Eb/N0 of {self.ebn0:g} dB" if self.ebn0 is not None else ""
        is_forward = self.link is LinkEnd.forward
        title = f"{'Coded link' if is_forward else 'Coded reverse link'} of {self.rate}, {frames.text}{at}"
        source = (
            f"Computed by owlt channel coded: {frames.text}: {frames.data_bytes} B of packets in {frames.coded_bytes} "
            f"B, so packets have {share:.1%} of {self.rate}; "
            f"frame error rate {lost:.3g}{f' from {self.table.name}' if self.table else ''}"
        )
        if before is not None:
            title = f"{before.title}; {title[0].lower()}{title[1:]}" if before.title else title
            source = f"{before.source.strip()} {source}; other values of {before.name}".strip()
        return ComputedChannel(
            title,
            f"{source}.",
            links,
            facts={
                "frame_bytes": frames.data_bytes,
                "coded_bytes": frames.coded_bytes,
                "frame_error_rate": lost,
                "rate_bps": packet_rate_bps,
            },
            default_name=f"coded-{self.chosen_code.value}{'' if is_forward else '-reverse'}",
        )


def read_error_rates(path: Path) -> list[tuple[float, float]]:
    """The rows of a CSV file with the columns ebn0_db and frame_error_rate. Raises OwltError."""
    rows = table_rows(path)
    numbers: list[tuple[float, float]] = []
    try:
        header, *values = rows
        numbers = [(float(decibels), float(rate)) for decibels, rate in values]
        well_formed = [cell.strip() for cell in header] == ["ebn0_db", "frame_error_rate"]
    except ValueError:
        well_formed = False
    rising = all(one[0] < other[0] for one, other in pairwise(numbers))
    if not (well_formed and rising and len(numbers) > 1 and all(0 < rate <= 1 for _, rate in numbers)):
        expected = "the header ebn0_db,frame_error_rate and two rows or more, by increasing Eb/N0, with rates above 0"
        raise OwltError(Mistake.of(str(path), "got no table of frame error rates", expected))
    return numbers


def _frames(request: Coded) -> Frames:
    from owlt.emulator.models.links import ERROR_CONTROL_BYTES, FRAME_OVERHEAD_BYTES

    if request.chosen_code not in CODES[request.frame]:
        expected = f"one of {', '.join(code.value for code in CODES[request.frame])} for {request.frame.value} frames"
        raise OwltError(Mistake.of("--code", f"got {request.chosen_code.value}", expected))
    if request.header is not None and request.error_control:
        problem = "got it together with --error-control"
        raise OwltError(Mistake.of("--header", problem, "one of them", "add 2 bytes to --header"))
    own = FRAME_OVERHEAD_BYTES[request.frame.value] + (ERROR_CONTROL_BYTES if request.error_control else 0)
    header = own if request.header is None else request.header
    if request.chosen_code is Code.other:
        return _other_frames(request)
    _refuse(request.coded_bytes is not None, "--coded-bytes", request.chosen_code)
    if request.frame is FrameKind.tc:
        return _command_frames(request, header)
    _refuse(request.frame_bytes is not None, "--frame-bytes", request.chosen_code)
    return _telemetry_frames(request, header)


def _telemetry_frames(request: Coded, header: int) -> Frames:
    from owlt.emulator.models.links import INTERLEAVING_DEPTHS, CodedFrame, bit_error_rate_of, frame_error_rate

    depth = 5 if request.interleaving is None else request.interleaving
    if depth not in INTERLEAVING_DEPTHS:
        expected = f"one of the depths of CCSDS 131.0-B, {', '.join(map(str, INTERLEAVING_DEPTHS))}"
        raise OwltError(Mistake.of("--interleaving", f"got {depth}", expected))
    code = request.chosen_code.value
    frame = CodedFrame(code, depth, header)
    if frame.data_bytes < LEAST_FRAME_BYTES:
        raise OwltError(Mistake.of("--header", f"got {header}", "fewer bytes than a frame has"))
    text = f"{request.frame.value.upper()} frames, Reed-Solomon (255,{code[3:]}), interleaving {depth}"
    return Frames(
        frame.data_bytes,
        frame.coded_bytes,
        text,
        lambda ebn0_db: frame_error_rate(frame, bit_error_rate_of(ebn0_db, code)),
    )


def _command_frames(request: Coded, header: int) -> Frames:
    from owlt.emulator.models.links import CommandFrame, bit_error_rate_of, command_error_rate

    _refuse(request.interleaving is not None, "--interleaving", request.chosen_code)
    most = _most_tc_bytes(header)
    data_bytes = most if request.frame_bytes is None else request.frame_bytes
    if not LEAST_FRAME_BYTES <= data_bytes <= most:
        name, got = ("--header", header) if request.frame_bytes is None else ("--frame-bytes", data_bytes)
        expected = f"{LEAST_FRAME_BYTES} to {most} bytes of packets: a TC frame has 1024 with its header"
        raise OwltError(Mistake.of(name, f"got {got}", expected))
    code = request.chosen_code.value
    frame = CommandFrame(code, data_bytes, header)
    mode = "single error correction" if request.chosen_code is Code.bch_sec else "triple error detection"
    return Frames(
        frame.data_bytes,
        frame.coded_bytes,
        f"TC frames, BCH (63,56), {mode}",
        lambda ebn0_db: command_error_rate(frame, bit_error_rate_of(ebn0_db, code)),
    )


def _other_frames(request: Coded) -> Frames:
    """Their sizes are given, headers included."""
    for option, given in (
        ("--interleaving", request.interleaving is not None),
        ("--header", request.header is not None),
        ("--error-control", request.error_control),
    ):
        _refuse(
            given,
            option,
            request.chosen_code,
            "leave it out: --frame-bytes counts packets only, --coded-bytes the rest",
        )
    data_bytes, coded_bytes = request.frame_bytes, request.coded_bytes
    if data_bytes is None or coded_bytes is None or not LEAST_FRAME_BYTES <= data_bytes <= coded_bytes:
        expected = f"--frame-bytes of at least {LEAST_FRAME_BYTES}, and --coded-bytes of at least as many"
        missing = data_bytes is None or coded_bytes is None
        problem = "frame sizes are missing" if missing else f"got {data_bytes} and {coded_bytes}"
        raise OwltError(Mistake.of("--code other", problem, expected))
    text = f"{request.frame.value.upper()} frames of {data_bytes} B in {coded_bytes} B"
    return Frames(data_bytes, coded_bytes, text, None)


def _most_tc_bytes(header: int) -> int:
    from owlt.emulator.models.links import LONGEST_TC_FRAME_BYTES

    return LONGEST_TC_FRAME_BYTES - header


def _refuse(given: bool, option: str, code: Code, fix: str = "use --code other") -> None:
    """Raise OwltError if an option is given that has no effect with a code."""
    if given:
        raise OwltError(Mistake.of(option, f"the code {code.value} determines it", fix=fix))


def _base(name: str) -> ChannelProfile:
    from owlt.orchestrator.profiles.catalogue import find_channel

    profile = find_channel(name)
    if profile.channel.timeline is not None or profile.channel.bypass:
        problem = f"{name} has a timeline" if profile.channel.timeline else f"{name} is a bypass"
        fix = "use a constant channel, and give the coding it prints to the other (--forward coding.frame_bytes=N)"
        raise OwltError(Mistake.of("--base", problem, "a channel that does not change", fix))
    return profile


def _error_rate(frames: Frames, request: Coded) -> float:
    from owlt.inputs.quantities import parse_probability_argument

    ebn0, table, given = request.ebn0, request.table, request.error_rate
    if (ebn0 is None) == (given is None):
        given_options = "neither --ebn0 nor" if ebn0 is None else "both --ebn0 and"
        raise OwltError(Mistake(f"got {given_options} --frame-error-rate", "one of them"))
    if given is not None and table is not None:
        raise OwltError(Mistake.of("--table", "cannot be combined with --frame-error-rate", "one of them"))
    if ebn0 is not None and not abs(ebn0) <= MOST_EBN0_DB:
        raise OwltError(Mistake.of("--ebn0", f"got {ebn0:g}", f"-{MOST_EBN0_DB:g} to {MOST_EBN0_DB:g} dB"))
    if given is not None:
        lost = parsed("--frame-error-rate", given, parse_probability_argument)
    else:
        assert ebn0 is not None
        lost = _error_rate_at(frames, ebn0, table)
    if not LEAST_ERROR_RATE <= lost < 1:
        expected = f"{LEAST_ERROR_RATE:g} to less than 1"
        fix = "such a link has hardly any errors: give a profile the rate alone" if lost < 1 else ""
        raise OwltError(Mistake(f"got a frame error rate of {lost:.3g}", expected, fix))
    return lost


def _error_rate_at(frames: Frames, ebn0: float, table: Path | None) -> float:
    from owlt.emulator.models.links import interpolated_error_rate

    if table is not None:
        rows = read_error_rates(table)
        lost = interpolated_error_rate(rows, ebn0)
        if lost is None:
            expected = f"{rows[0][0]:g} to {rows[-1][0]:g} dB, which {table} covers"
            raise OwltError(Mistake.of("--ebn0", f"got {ebn0:g}", expected))
        return lost
    if frames.error_rate_at is None:
        raise OwltError(Mistake.of("--code other", "--table is missing", fix="give one, or --frame-error-rate"))
    return frames.error_rate_at(ebn0)
