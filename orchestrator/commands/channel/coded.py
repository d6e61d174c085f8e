"""`owlt channel coded`: a link with coded frames as a channel, from a code and an Eb/N0 or a frame error rate."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from pathlib import Path
from typing import Annotated

import typer

from agents.inputs.mistake import Invalid, Mistake
from orchestrator.commands.channel.computing import Out, compute_links, write_computed
from orchestrator.commands.channel.options import BothFields, ForwardFields, ReverseFields
from orchestrator.errors import NoSuchFile, OwltError
from orchestrator.terminal.options import Json

LEAST_ERROR_RATE = 1e-12
MOST_EBN0_DB = 100.0
LEAST_FRAME_BYTES = 32


class Code(StrEnum):
    """Codes whose frame error rate is computed, and any other one."""

    rs_223 = "rs-223"
    rs_239 = "rs-239"
    other = "other"


@dataclass(frozen=True)
class Frames:
    """The frames of a link: bytes of packets, bytes that are sent, and their description."""

    data_bytes: int
    coded_bytes: int
    text: str


def coded(
    rate: Annotated[str, typer.Option("--rate", metavar="RATE", help="Rate of the coded link, such as 2Mbit/s.")],
    code: Annotated[
        Code, typer.Option("--code", help="Reed-Solomon with 223 or 239 data symbols of 255, or another code.")
    ] = Code.rs_223,
    interleaving: Annotated[
        int, typer.Option("--interleaving", metavar="DEPTH", min=1, max=8, help="Codewords in a frame.")
    ] = 5,
    header: Annotated[
        int, typer.Option("--header", metavar="BYTES", min=0, help="Header and trailer of a frame; TM and AOS: 6.")
    ] = 6,
    frame_bytes: Annotated[
        int | None, typer.Option("--frame-bytes", metavar="BYTES", help="Bytes of packets in a frame, of another code.")
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
    forward: ForwardFields = None,
    reverse: ReverseFields = None,
    both: BothFields = None,
    out: Out = None,
    as_json: Json = False,
) -> None:
    """Compute a channel with coded frames on the forward link.

    The frames are, for example, TM frames with Reed-Solomon codewords.

    The rate of the forward link is what headers, parity and sync markers leave of --rate. Without --table, the frame
    error rate at an Eb/N0 is that of BPSK or QPSK with Reed-Solomon codewords alone.
    """
    from emulator.channel.quantities import format_rate
    from orchestrator.commands.channel.computed_files import ComputedChannel

    frames = _frames(code, interleaving, header, frame_bytes, coded_bytes)
    lost = _error_rate(code, interleaving, header, ebn0, table, error_rate)
    share = frames.data_bytes / frames.coded_bytes
    packet_rate_bps = _rate_bps(rate) * share
    links = compute_links(forward, reverse, both)
    links["forward"] |= {
        "rate": format_rate(round(packet_rate_bps)),
        "coding": {"frame_bytes": frames.data_bytes, "frame_error_rate": lost},
    }
    at = f" at an Eb/N0 of {ebn0:g} dB" if ebn0 is not None else ""
    channel = ComputedChannel(
        f"Coded link of {rate}, {frames.text}{at}",
        f"Computed by owlt channel coded: frames of {frames.data_bytes} B of packets in {frames.coded_bytes} B, so "
        f"that packets have {share:.1%} of {rate}; frame error rate {lost:.3g}"
        f"{f' from {table.name}' if table else ''}.",
        links,
    )
    facts = {
        "frame_bytes": frames.data_bytes,
        "coded_bytes": frames.coded_bytes,
        "frame_error_rate": lost,
        "rate_bps": packet_rate_bps,
    }
    write_computed(channel, out or Path(f"coded-{code.value}.yaml"), facts, as_json)


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


def _frames(code: Code, interleaving: int, header: int, frame_bytes: int | None, coded_bytes: int | None) -> Frames:
    from emulator.models.coded_link import CodedFrame

    given = [name for name, value in (("--frame-bytes", frame_bytes), ("--coded-bytes", coded_bytes)) if value]
    if code is not Code.other:
        if given:
            raise OwltError(Mistake.of(given[0], f"the code {code.value} determines it", fix="use --code other"))
        frame = CodedFrame(code.value, interleaving, header)
        if frame.data_bytes < LEAST_FRAME_BYTES:
            raise OwltError(Mistake.of("--header", f"got {header}", "fewer bytes than a frame has"))
        text = f"Reed-Solomon (255,{code.value[3:]}), interleaving {interleaving}"
        return Frames(frame.data_bytes, frame.coded_bytes, text)
    if frame_bytes is None or coded_bytes is None or not LEAST_FRAME_BYTES <= frame_bytes <= coded_bytes:
        expected = f"--frame-bytes of at least {LEAST_FRAME_BYTES}, and --coded-bytes of at least as many"
        missing = frame_bytes is None or coded_bytes is None
        problem = "frame sizes are missing" if missing else f"got {frame_bytes} and {coded_bytes}"
        raise OwltError(Mistake.of("--code other", problem, expected))
    return Frames(frame_bytes, coded_bytes, f"frames of {frame_bytes} B in {coded_bytes} B")


def _error_rate(
    code: Code, interleaving: int, header: int, ebn0: float | None, table: Path | None, given: float | None
) -> float:
    if (ebn0 is None) == (given is None):
        given_options = "neither --ebn0 nor" if ebn0 is None else "both --ebn0 and"
        raise OwltError(Mistake(f"got {given_options} --frame-error-rate", "one of them"))
    if given is not None and table is not None:
        raise OwltError(Mistake.of("--table", "got it with --frame-error-rate", "one of them"))
    if ebn0 is not None and not abs(ebn0) <= MOST_EBN0_DB:
        raise OwltError(Mistake.of("--ebn0", f"got {ebn0:g}", f"-{MOST_EBN0_DB:g} to {MOST_EBN0_DB:g} dB"))
    lost = given if ebn0 is None else _error_rate_at(code, interleaving, header, ebn0, table)
    assert lost is not None
    if not LEAST_ERROR_RATE <= lost < 1:
        expected = f"{LEAST_ERROR_RATE:g} to less than 1"
        fix = "such a link has hardly any errors: give a profile the rate alone" if lost < 1 else ""
        raise OwltError(Mistake(f"got a frame error rate of {lost:.3g}", expected, fix))
    return lost


def _error_rate_at(code: Code, interleaving: int, header: int, ebn0: float, table: Path | None) -> float:
    from emulator.models.coded_link import CodedFrame, bit_error_rate_of, frame_error_rate, interpolated_error_rate

    if table is not None:
        rows = read_error_rates(table)
        lost = interpolated_error_rate(rows, ebn0)
        if lost is None:
            expected = f"{rows[0][0]:g} to {rows[-1][0]:g} dB, which {table} covers"
            raise OwltError(Mistake.of("--ebn0", f"got {ebn0:g}", expected))
        return lost
    if code is Code.other:
        raise OwltError(Mistake.of("--code other", "--table is missing", fix="give one, or --frame-error-rate"))
    return frame_error_rate(CodedFrame(code.value, interleaving, header), bit_error_rate_of(ebn0, code.value))


def _rate_bps(text: str) -> float:
    from emulator.channel.quantities import parse_rate_bps

    try:
        return parse_rate_bps(text)
    except Invalid as problem:
        raise OwltError(*(mistake.below("--rate") for mistake in problem.mistakes)) from problem
