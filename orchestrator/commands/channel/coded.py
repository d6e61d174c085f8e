"""`owlt channel coded`: a link with coded frames as a channel, from a code and an Eb/N0 or a frame error rate."""

from __future__ import annotations

import csv
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from owlt.inputs.mistake import Invalid, Mistake
from owlt.orchestrator.commands.channel.computing import Out, compute_links, write_computed
from owlt.orchestrator.commands.channel.options import BothFields, ForwardFields, ReverseFields
from owlt.orchestrator.errors import NoSuchFile, OwltError
from owlt.orchestrator.terminal.options import Json

if TYPE_CHECKING:
    from owlt.emulator.channel.channel_file import ChannelProfile

LEAST_ERROR_RATE = 1e-12
MOST_EBN0_DB = 100.0
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


class Side(StrEnum):
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
class CodedRequest:
    """The options of `owlt channel coded` about frames and their code."""

    kind: FrameKind
    code: Code
    interleaving: int | None
    header: int | None
    error_control: bool
    frame_bytes: int | None
    coded_bytes: int | None


@dataclass(frozen=True)
class Frames:
    """The frames of a link: bytes of packets, bytes that are sent, their description, and their error rate by Eb/N0."""

    data_bytes: int
    coded_bytes: int
    text: str
    error_rate_at: Callable[[float], float] | None
    """None: a table has to give it."""


def coded(
    rate: Annotated[str, typer.Option("--rate", metavar="RATE", help="Rate of the coded link, such as 2Mbit/s.")],
    frame: Annotated[
        FrameKind, typer.Option("--frame", help="Transfer frames, with a header of 6 (tm, aos) or 5 bytes (tc).")
    ] = FrameKind.tm,
    code: Annotated[
        Code | None,
        typer.Option(
            "--code",
            help="Reed-Solomon with 223 (default of tm and aos) or 239 data symbols of 255; BCH (63,56) that corrects "
            "one wrong bit (default of tc) or detects up to three; or another code.",
        ),
    ] = None,
    interleaving: Annotated[
        int | None,
        typer.Option("--interleaving", metavar="DEPTH", help="Reed-Solomon codewords in a frame; default: 5."),
    ] = None,
    header: Annotated[
        int | None,
        typer.Option(
            "--header", metavar="BYTES", min=0, help="Length of header and trailer; default: the header of --frame."
        ),
    ] = None,
    error_control: Annotated[
        bool, typer.Option("--error-control", help="Frames end with an error control field of 2 bytes.")
    ] = False,
    frame_bytes: Annotated[
        int | None,
        typer.Option(
            "--frame-bytes",
            metavar="BYTES",
            help="Bytes of packets in a frame, for tc (default: the maximum) or for another code.",
        ),
    ] = None,
    coded_bytes: Annotated[
        int | None, typer.Option("--coded-bytes", metavar="BYTES", help="Bytes sent for a frame, of another code.")
    ] = None,
    ebn0: Annotated[float | None, typer.Option("--ebn0", metavar="DB", help="Eb/N0 of the link, in dB.")] = None,
    table: Annotated[
        Path | None,
        typer.Option("--table", metavar="FILE.csv", help="Frame error rate by Eb/N0: ebn0_db,frame_error_rate."),
    ] = None,
    error_rate: Annotated[
        float | None, typer.Option("--frame-error-rate", metavar="SHARE", help="Instead of --ebn0.")
    ] = None,
    link: Annotated[Side, typer.Option("--link", help="The link that is coded.")] = Side.forward,
    base: Annotated[
        str | None,
        typer.Option(
            "--base", metavar="CHANNEL", help="Channel that provides all other values, such as the other link."
        ),
    ] = None,
    forward: ForwardFields = None,
    reverse: ReverseFields = None,
    both: BothFields = None,
    out: Out = None,
    as_json: Json = False,
) -> None:
    """Compute a channel with coded frames on one link.

    The frames are TM or AOS frames with Reed-Solomon codewords, TC frames in BCH codeblocks, or frames of another code.

    The rate of the link is --rate without headers, parity and markers. Without --table, the frame error rate at an
    Eb/N0 is computed for BPSK or QPSK with this code alone. To code both links, compute one, and then the other with
    --base.
    """
    from owlt.inputs.quantities import format_rate
    from owlt.orchestrator.commands.channel.computed_files import ComputedChannel

    request = CodedRequest(
        frame, code or CODES[frame][0], interleaving, header, error_control, frame_bytes, coded_bytes
    )
    frames = _frames(request)
    lost = _error_rate(frames, ebn0, table, error_rate)
    share = frames.data_bytes / frames.coded_bytes
    packet_rate_bps = _rate_bps(rate) * share
    before = _base(base) if base else None
    links = compute_links(forward, reverse, both)
    if before is not None:
        links = {way: before.channel.link(way).to_wire() | keys for way, keys in links.items()}
    links[link.value] |= {
        "rate": format_rate(round(packet_rate_bps)),
        "coding": {"frame_bytes": frames.data_bytes, "frame_error_rate": lost},
    }
    at = f" at an Eb/N0 of {ebn0:g} dB" if ebn0 is not None else ""
    side = "Coded link" if link is Side.forward else "Coded reverse link"
    title = f"{side} of {rate}, {frames.text}{at}"
    source = (
        f"Computed by owlt channel coded: {frames.text}: {frames.data_bytes} B of packets in {frames.coded_bytes} B, "
        f"so packets have {share:.1%} of {rate}; "
        f"frame error rate {lost:.3g}{f' from {table.name}' if table else ''}"
    )
    if before is not None:
        title = f"{before.title}; {title[0].lower()}{title[1:]}" if before.title else title
        source = f"{before.source.strip()} {source}; other values of {before.name}".strip()
    channel = ComputedChannel(title, f"{source}.", links)
    facts = {
        "frame_bytes": frames.data_bytes,
        "coded_bytes": frames.coded_bytes,
        "frame_error_rate": lost,
        "rate_bps": packet_rate_bps,
    }
    ending = "" if link is Side.forward else "-reverse"
    write_computed(channel, out or Path(f"coded-{request.code.value}{ending}.yaml"), facts, as_json)


def read_error_rates(path: Path) -> list[tuple[float, float]]:
    """The rows of a CSV file with the columns ebn0_db and frame_error_rate. Raises OwltError."""
    try:
        rows = [row for row in csv.reader(path.read_text().splitlines()) if row and not row[0].startswith("#")]
    except (OSError, UnicodeDecodeError):
        raise NoSuchFile(Mistake.of(f"--table {path}", "no such file, or it is not text")) from None
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


def _frames(request: CodedRequest) -> Frames:
    from owlt.emulator.models.coded_link import ERROR_CONTROL_BYTES, FRAME_OVERHEAD_BYTES

    if request.code not in CODES[request.kind]:
        expected = f"one of {', '.join(code.value for code in CODES[request.kind])} for {request.kind.value} frames"
        raise OwltError(Mistake.of("--code", f"got {request.code.value}", expected))
    if request.header is not None and request.error_control:
        problem = "got it together with --error-control"
        raise OwltError(Mistake.of("--header", problem, "one of them", "add 2 bytes to --header"))
    own = FRAME_OVERHEAD_BYTES[request.kind.value] + (ERROR_CONTROL_BYTES if request.error_control else 0)
    header = own if request.header is None else request.header
    if request.code is Code.other:
        return _other_frames(request)
    _refuse(request.coded_bytes is not None, "--coded-bytes", request.code)
    if request.kind is FrameKind.tc:
        return _command_frames(request, header)
    _refuse(request.frame_bytes is not None, "--frame-bytes", request.code)
    return _telemetry_frames(request, header)


def _telemetry_frames(request: CodedRequest, header: int) -> Frames:
    from owlt.emulator.models.coded_link import INTERLEAVING_DEPTHS, CodedFrame, bit_error_rate_of, frame_error_rate

    depth = 5 if request.interleaving is None else request.interleaving
    if depth not in INTERLEAVING_DEPTHS:
        expected = f"one of the depths of CCSDS 131.0-B, {', '.join(map(str, INTERLEAVING_DEPTHS))}"
        raise OwltError(Mistake.of("--interleaving", f"got {depth}", expected))
    code = request.code.value
    frame = CodedFrame(code, depth, header)
    if frame.data_bytes < LEAST_FRAME_BYTES:
        raise OwltError(Mistake.of("--header", f"got {header}", "fewer bytes than a frame has"))
    text = f"{request.kind.value.upper()} frames, Reed-Solomon (255,{code[3:]}), interleaving {depth}"
    return Frames(
        frame.data_bytes,
        frame.coded_bytes,
        text,
        lambda ebn0_db: frame_error_rate(frame, bit_error_rate_of(ebn0_db, code)),
    )


def _command_frames(request: CodedRequest, header: int) -> Frames:
    from owlt.emulator.models.coded_link import CommandFrame, bit_error_rate_of, command_error_rate

    _refuse(request.interleaving is not None, "--interleaving", request.code)
    most = _most_tc_bytes(header)
    data_bytes = most if request.frame_bytes is None else request.frame_bytes
    if not LEAST_FRAME_BYTES <= data_bytes <= most:
        name, got = ("--header", header) if request.frame_bytes is None else ("--frame-bytes", data_bytes)
        expected = f"{LEAST_FRAME_BYTES} to {most} bytes of packets: a TC frame has 1024 with its header"
        raise OwltError(Mistake.of(name, f"got {got}", expected))
    code = request.code.value
    frame = CommandFrame(code, data_bytes, header)
    mode = "single error correction" if request.code is Code.bch_sec else "triple error detection"
    return Frames(
        frame.data_bytes,
        frame.coded_bytes,
        f"TC frames, BCH (63,56), {mode}",
        lambda ebn0_db: command_error_rate(frame, bit_error_rate_of(ebn0_db, code)),
    )


def _other_frames(request: CodedRequest) -> Frames:
    """Their sizes are given, headers included."""
    for option, given in (
        ("--interleaving", request.interleaving is not None),
        ("--header", request.header is not None),
        ("--error-control", request.error_control),
    ):
        _refuse(given, option, request.code, "leave it out: --frame-bytes counts packets only, --coded-bytes the rest")
    data_bytes, coded_bytes = request.frame_bytes, request.coded_bytes
    if data_bytes is None or coded_bytes is None or not LEAST_FRAME_BYTES <= data_bytes <= coded_bytes:
        expected = f"--frame-bytes of at least {LEAST_FRAME_BYTES}, and --coded-bytes of at least as many"
        missing = data_bytes is None or coded_bytes is None
        problem = "frame sizes are missing" if missing else f"got {data_bytes} and {coded_bytes}"
        raise OwltError(Mistake.of("--code other", problem, expected))
    text = f"{request.kind.value.upper()} frames of {data_bytes} B in {coded_bytes} B"
    return Frames(data_bytes, coded_bytes, text, None)


def _most_tc_bytes(header: int) -> int:
    from owlt.emulator.models.coded_link import LONGEST_TC_FRAME_BYTES

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


def _error_rate(frames: Frames, ebn0: float | None, table: Path | None, given: float | None) -> float:
    if (ebn0 is None) == (given is None):
        given_options = "neither --ebn0 nor" if ebn0 is None else "both --ebn0 and"
        raise OwltError(Mistake(f"got {given_options} --frame-error-rate", "one of them"))
    if given is not None and table is not None:
        raise OwltError(Mistake.of("--table", "got it with --frame-error-rate", "one of them"))
    if ebn0 is not None and not abs(ebn0) <= MOST_EBN0_DB:
        raise OwltError(Mistake.of("--ebn0", f"got {ebn0:g}", f"-{MOST_EBN0_DB:g} to {MOST_EBN0_DB:g} dB"))
    lost = given if ebn0 is None else _error_rate_at(frames, ebn0, table)
    assert lost is not None
    if not LEAST_ERROR_RATE <= lost < 1:
        expected = f"{LEAST_ERROR_RATE:g} to less than 1"
        fix = "such a link has hardly any errors: give a profile the rate alone" if lost < 1 else ""
        raise OwltError(Mistake(f"got a frame error rate of {lost:.3g}", expected, fix))
    return lost


def _error_rate_at(frames: Frames, ebn0: float, table: Path | None) -> float:
    from owlt.emulator.models.coded_link import interpolated_error_rate

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


def _rate_bps(text: str) -> float:
    from owlt.inputs.quantities import parse_rate_bps

    try:
        return parse_rate_bps(text)
    except Invalid as problem:
        raise OwltError(*(mistake.below("--rate") for mistake in problem.mistakes)) from problem
