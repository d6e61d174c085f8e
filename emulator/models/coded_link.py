"""The frame error rate of a Reed-Solomon coded link, and what its coding takes of the rate.

CCSDS 131.0-B: codewords of 255 symbols of 8 bits with 223 or 239 of data, interleaved to a depth of 1 to 8; each
coded frame has a sync marker of 4 bytes in front. The decoder corrects up to 16 or 8 symbols of a codeword and marks
others as lost, and the frame is lost if one of its codewords is.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from math import erfc, expm1, log, log1p, sqrt

from scipy.stats import binom

CODEWORD_SYMBOLS = 255
SYNC_MARKER_BYTES = 4
DATA_SYMBOLS = {"rs-223": 223, "rs-239": 239}
"""The codes by name."""
FRAME_OVERHEAD_BYTES = {"tm": 6, "aos": 6, "none": 0}
"""The primary header of a transfer frame (CCSDS 132.0-B, 732.0-B), without further fields."""


@dataclass(frozen=True)
class CodedFrame:
    """What a frame has, in bytes."""

    code: str
    interleaving: int
    header_bytes: int

    @property
    def data_bytes(self) -> int:
        """Of packets."""
        return DATA_SYMBOLS[self.code] * self.interleaving - self.header_bytes

    @property
    def coded_bytes(self) -> int:
        """Sent by the link: data, header, parity and sync marker."""
        return CODEWORD_SYMBOLS * self.interleaving + SYNC_MARKER_BYTES

    @property
    def share(self) -> float:
        """The share of the link's rate that packets have."""
        return self.data_bytes / self.coded_bytes


def bit_error_rate_of(eb_over_n0_db: float, code: str) -> float:
    """Of coherent BPSK or QPSK before decoding, where Eb is the energy of a bit of data: the code's rate lowers it."""
    code_rate = DATA_SYMBOLS[code] / CODEWORD_SYMBOLS
    return 0.5 * erfc(sqrt(10 ** (eb_over_n0_db / 10) * code_rate))


def frame_error_rate(frame: CodedFrame, bit_error_rate: float) -> float:
    """Of frames whose bits are wrong independently: interleaving spreads bursts, so this is what it aims at."""
    symbol_errors = -expm1(8 * log1p(-bit_error_rate))
    correctable = (CODEWORD_SYMBOLS - DATA_SYMBOLS[frame.code]) // 2
    lost = float(binom.sf(correctable, CODEWORD_SYMBOLS, symbol_errors))
    return -expm1(frame.interleaving * log1p(-lost)) if lost < 1 else 1.0


def interpolated_error_rate(rows: list[tuple[float, float]], eb_over_n0_db: float) -> float | None:
    """The frame error rate in a table of Eb/N0 in dB and rates, linear in its logarithm; None outside of the table."""
    for (low_db, low), (high_db, high) in pairwise(rows):
        if low_db <= eb_over_n0_db <= high_db:
            share = (eb_over_n0_db - low_db) / (high_db - low_db)
            return float(10 ** ((log(low) + share * (log(high) - log(low))) / log(10)))
    return None
