"""The frame error rate of a coded link, and the share of the rate that its coding uses.

TM and AOS, CCSDS 131.0-B: Reed-Solomon codewords of 255 symbols of 8 bits with 223 or 239 of data, interleaved; each
coded frame has a sync marker of 4 bytes in front. The decoder corrects up to 16 or 8 symbols of a codeword and marks
others as lost, and the frame is lost if one of its codewords is.

TC, CCSDS 231.0-B: a command link transmission unit (CLTU) has a start sequence, BCH (63,56) codeblocks of 8 bytes with
7 bytes of the frame, and a tail sequence. The decoder corrects one wrong bit of a codeblock or none, and the frame is
lost if one of its codeblocks or the start sequence is.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from math import ceil, erfc, expm1, log, log1p, sqrt

from scipy.stats import binom

CODEWORD_SYMBOLS = 255
SYNC_MARKER_BYTES = 4
DATA_SYMBOLS = {"rs-223": 223, "rs-239": 239}
"""The Reed-Solomon codes by name."""
INTERLEAVING_DEPTHS = (1, 2, 3, 4, 5, 8)
"""The interleaving depths of CCSDS 131.0-B."""
CORRECTED_BITS = {"bch-sec": 1, "bch-ted": 0}
"""The BCH code by the mode of its decoder: wrong bits that it corrects in a codeblock, and accepts in the start
sequence (single error correction, triple error detection)."""
CODEBLOCK_BYTES, CODEBLOCK_DATA_BYTES = 8, 7
CODEWORD_BITS = 63
START_SEQUENCE_BYTES, TAIL_SEQUENCE_BYTES = 2, 8
FRAME_OVERHEAD_BYTES = {"tm": 6, "aos": 6, "tc": 5}
"""The primary header of a transfer frame (CCSDS 132.0-B, 732.0-B, 232.0-B), without further fields."""
ERROR_CONTROL_BYTES = 2
"""The frame error control field, which all three kinds of frames have as an option."""
LONGEST_TC_FRAME_BYTES = 1024


@dataclass(frozen=True)
class CodedFrame:
    """The contents of a TM or AOS frame with Reed-Solomon codewords, in bytes."""

    code: str
    interleaving: int
    header_bytes: int

    @property
    def data_bytes(self) -> int:
        """The bytes of packets in a frame."""
        return DATA_SYMBOLS[self.code] * self.interleaving - self.header_bytes

    @property
    def coded_bytes(self) -> int:
        """The bytes that the link sends: data, header, parity and sync marker."""
        return CODEWORD_SYMBOLS * self.interleaving + SYNC_MARKER_BYTES


@dataclass(frozen=True)
class CommandFrame:
    """The contents of a TC frame in a CLTU of its own, in bytes."""

    code: str
    data_bytes: int
    """The bytes of packets in a frame."""
    header_bytes: int

    @property
    def codeblocks(self) -> int:
        """The number of codeblocks; the last one is padded."""
        return ceil((self.data_bytes + self.header_bytes) / CODEBLOCK_DATA_BYTES)

    @property
    def coded_bytes(self) -> int:
        """The bytes that the link sends: start sequence, codeblocks and tail sequence."""
        return START_SEQUENCE_BYTES + CODEBLOCK_BYTES * self.codeblocks + TAIL_SEQUENCE_BYTES


def bit_error_rate_of(eb_over_n0_db: float, code: str) -> float:
    """The bit error rate of coherent BPSK or QPSK before decoding.

    Eb is the energy of a bit of data, which the code rate distributes over more bits.
    """
    bch_rate = CODEBLOCK_DATA_BYTES / CODEBLOCK_BYTES
    code_rate = DATA_SYMBOLS[code] / CODEWORD_SYMBOLS if code in DATA_SYMBOLS else bch_rate
    return 0.5 * erfc(sqrt(10 ** (eb_over_n0_db / 10) * code_rate))


def frame_error_rate(frame: CodedFrame, bit_error_rate: float) -> float:
    """The error rate of frames with independent bit errors, which interleaving is meant to achieve."""
    symbol_errors = -expm1(8 * log1p(-bit_error_rate))
    correctable = (CODEWORD_SYMBOLS - DATA_SYMBOLS[frame.code]) // 2
    lost = float(binom.sf(correctable, CODEWORD_SYMBOLS, symbol_errors))
    return -expm1(frame.interleaving * log1p(-lost)) if lost < 1 else 1.0


def command_error_rate(frame: CommandFrame, bit_error_rate: float) -> float:
    """The error rate of TC frames with independent bit errors."""
    correctable = CORRECTED_BITS[frame.code]
    intact = binom.logcdf(correctable, 8 * START_SEQUENCE_BYTES, bit_error_rate)
    intact += frame.codeblocks * binom.logcdf(correctable, CODEWORD_BITS, bit_error_rate)
    return float(-expm1(intact))


def interpolated_error_rate(rows: list[tuple[float, float]], eb_over_n0_db: float) -> float | None:
    """The frame error rate in a table of Eb/N0 in dB and rates, linear in its logarithm; None outside of the table."""
    for (low_db, low), (high_db, high) in pairwise(rows):
        if low_db <= eb_over_n0_db <= high_db:
            share = (eb_over_n0_db - low_db) / (high_db - low_db)
            return float(10 ** ((log(low) + share * (log(high) - log(low))) / log(10)))
    return None
