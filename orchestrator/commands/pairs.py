"""`owlt pairs`: which sender and receiver understand each other, as matrices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from owlt.inputs.mistake import Mistake, Place
from owlt.orchestrator.commands.output import Printer
from owlt.orchestrator.commands.usage import Json, ResultsArgument
from owlt.orchestrator.errors import OwltError

if TYPE_CHECKING:
    from owlt.reports.comparison.matrices import Entry, Matrix, Square


def pairs(results: ResultsArgument, as_json: Json = False) -> None:
    """Print which sender and receiver understand each other.

    A row for each sender, a column for each receiver: runs that delivered the file, the median goodput in Mbit/s, and
    the packets of sender and receiver. Brackets: an implementation with itself.
    """
    from owlt.orchestrator.profiles.load import existing_results
    from owlt.reports.answer.regions import dimensions_of, place_text
    from owlt.reports.comparison.cells import cells_of
    from owlt.reports.comparison.matrices import matrices_of
    from owlt.reports.comparison.stopping import load_due_results

    path = existing_results(results)
    loaded = load_due_results(path)
    cells = cells_of(loaded.rows)
    matrices = matrices_of(cells, loaded.profiles, loaded.left_out_pairs)
    if not matrices:
        raise OwltError(Mistake("has no pairs", "the results of a sweep with 'pairs'", where=Place(str(path))))
    dimensions = dimensions_of([cell.point for cell in cells])
    printer = Printer(as_json)
    printer.json({"matrices": [_value(each) for each in matrices], "left_out_pairs": dict(loaded.left_out_pairs)})
    for matrix in matrices:
        printer.text(f"{matrix.family}; {place_text(matrix.point, dimensions)}")
        rows = ((sender, *map(_text, squares)) for sender, squares in matrix.rows.items())
        printer.table(("sends \\ receives", *matrix.receivers), rows)
    for name, reason in loaded.left_out_pairs.items():
        printer.text(f"not possible: {name}: {reason}")


def _text(square: Square) -> str:
    texts = "; ".join(map(_entry_text, square.entries)) or ("not possible" if square.why_not else "")
    return f"[{texts}]" if square.is_own and texts else texts


def _entry_text(entry: Entry) -> str:
    goodput, there, back = entry.texts
    return f"{entry.delivered}: {goodput}, {there or '–'} + {back or '–'}" if goodput else entry.delivered


def _value(matrix: Matrix) -> dict[str, Any]:
    return {
        "family": matrix.family,
        **matrix.point.values,
        "pairs": [
            _entry_value(sender, receiver, square, entry)
            for sender, squares in matrix.rows.items()
            for receiver, square in zip(matrix.receivers, squares, strict=True)
            for entry in square.entries
        ],
    }


def _entry_value(sender: str, receiver: str, square: Square, entry: Entry) -> dict[str, Any]:
    from owlt.reports.comparison.matrices import SHOWN

    return {
        "name": entry.name,
        "sender": sender,
        "receiver": receiver,
        "is_own": square.is_own,
        "delivered": entry.sample.delivered,
        "tried": entry.sample.tried,
        **{metric.key: entry.median(metric) for metric in SHOWN},
        "failed": [row["run_id"] for row in entry.failed],
    }
