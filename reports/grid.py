"""The dimensions of a sweep and their values: what figures are drawn against, what rows and columns stand for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from reports.load import Results
from reports.units import probability_text, size_text


@dataclass(frozen=True)
class Axis:
    """A dimension of the grid that figures are drawn against, its values as categories."""

    field: Literal["packet_error_rate", "file_size_bytes"]
    slug: str
    label: str

    def text(self, value: float) -> str:
        """A value of the dimension, for a tick."""
        return probability_text(value) if self == ERROR_RATE else size_text(int(value))

    def file_text(self, value: float) -> str:
        """The same for a file name."""
        return f"{value:g}" if self == ERROR_RATE else size_text(int(value))


ERROR_RATE = Axis("packet_error_rate", "error-rate", "packet error rate")
FILE_SIZE = Axis("file_size_bytes", "file-size", "file size")
OTHER = {ERROR_RATE: FILE_SIZE, FILE_SIZE: ERROR_RATE}


@dataclass(frozen=True)
class Grid:
    """The values of each dimension of a sweep, ascending."""

    rates: tuple[float | None, ...]
    delays: tuple[int, ...]
    sizes: tuple[int, ...]
    error_rates: tuple[float, ...]

    @classmethod
    def of(cls, results: Results) -> Grid:
        """The grid that the sweep asked for."""
        points = results.asked
        return cls(
            rates=tuple(dict.fromkeys(point.rate_bps for point in points)),
            delays=tuple(sorted({point.delay_ns for point in points})),
            sizes=tuple(sorted({point.file_size_bytes for point in points})),
            error_rates=tuple(sorted({point.packet_error_rate for point in points})),
        )

    def along(self, axis: Axis) -> tuple[float, ...]:
        """The values of the dimension that an axis stands for."""
        return self.error_rates if axis == ERROR_RATE else self.sizes

    @property
    def axes(self) -> list[Axis]:
        """The axes with more than one value, or the first where none has."""
        return [axis for axis in (ERROR_RATE, FILE_SIZE) if len(self.along(axis)) > 1] or [ERROR_RATE]
