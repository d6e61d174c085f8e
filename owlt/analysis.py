"""The interface for programs and notebooks: perform a sweep, load results as a table, select rows, draw a figure.

    import owlt

    runs = owlt.load("results/demo")
    short = runs.select(delay="10 ms", implementation=["ltp", "cfdp"])
    short.draw("goodput", x="packet_error_rate")

docs/analysis.md describes it, docs/glossary.md the columns. The modules that do the work are imported when they are
needed, so that `import owlt` is fast.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from owlt.reports.comparison.choice import Rule

ALL_RECORDED = (0, 3, 4)
"""The exit statuses of `owlt run` if every run is recorded: some may not have completed, or an assertion is not met."""


@dataclass(frozen=True)
class Table:
    """Runs, a row each: every planned run of a sweep, with the columns of `runs.csv`. Iterating yields the rows."""

    rows: tuple[dict[str, Any], ...]
    """A row for each run: a value for each column; None if the run has none. `pandas.DataFrame(table)` takes them."""
    order: tuple[str, ...] = field(default=(), repr=False)
    """The implementations in the order of the sweep, which decides their colours."""
    rule: Rule | None = field(default=None, repr=False)
    """What the choice of a map demands, from the sweep; None: the default."""

    def __len__(self) -> int:
        """The number of rows."""
        return len(self.rows)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """The rows."""
        return iter(self.rows)

    def __repr__(self) -> str:
        """The number of runs instead of all their values."""
        return f"<{len(self.rows)} runs of {', '.join(self.order) or 'no implementation'}>"

    def columns(self, *names: str) -> dict[str, list[Any]]:
        """The values of the named columns, or of all: a list each, for `pandas.DataFrame` or `polars.DataFrame`."""
        wanted = names or (tuple(self.rows[0]) if self.rows else ())
        return {name: [row[name] for row in self.rows] for name in wanted}

    def select(self, **values: object) -> Table:
        """The rows with these values of settings or columns: `select(delay="1250 ms", implementation=["ltp", "cfdp"])`.

        Names and values are those of `owlt figure --filter`. Raises ValueError for an unknown name, or for a value
        that no row has.
        """
        from owlt.reports.drawing.specification import selected

        return Table(tuple(selected(self.rows, _filters(values))), self.order, self.rule)

    def draw(
        self,
        y: str,
        x: str = "",
        kind: str = "box",
        group: str = "implementation",
        facets: str | Sequence[str] = (),
        **more: Any,
    ) -> Figure:
        """A figure as `owlt figure` draws it, for a notebook or for `save`: measure `y` against setting `x`.

        `kind` is box, bar, cdf, heatmap, line or map; `more` are values of a `Specification`, such as `width_mm=181.9`.
        Raises ValueError for an unknown name.
        """
        from owlt.inputs.mistake import Invalid, not_one_of
        from owlt.reports.drawing.paper_figure import draw_figure
        from owlt.reports.drawing.specification import KINDS, Specification, quantity

        if kind not in KINDS:
            raise Invalid(not_one_of(kind, KINDS).below("kind"))
        measure = quantity(y)
        order = self.order if group == "implementation" else ()
        specification = Specification(
            y=measure,
            x=quantity(x) if x else measure,
            kind=kind,  # type: ignore[arg-type]  # one of KINDS
            group=quantity(group),
            facets=tuple(quantity(name) for name in ([facets] if isinstance(facets, str) else facets)),
            order=order,
            **({} if self.rule is None else {"rule": self.rule}) | more,
        )
        _have_notebooks_show_figures()
        return draw_figure(self.rows, specification)


def load(*results: str | Path) -> Table:
    """The table of one or several results directories, read from their records. Raises OwltError with the reason."""
    from owlt.orchestrator.profiles.load import existing_results
    from owlt.reports.comparison.stopping import load_rows

    loaded = load_rows([existing_results(Path(each)) for each in results])
    return Table(tuple(loaded.rows), loaded.order, loaded.rule)


def save(figure: Figure, path: str | Path) -> None:
    """Write a figure as PDF, SVG or PNG, by the suffix: the same runs make the same bytes."""
    from owlt.reports.drawing.paper_figure import save_figure

    save_figure(figure, Path(path))


def run(sweep: str | Path, results: str | Path | None = None, *options: str) -> Table:
    """Perform what is missing of a sweep, as `owlt run` does, and load its results.

    `options` are those of `owlt run`, such as "--guests", "2". Raises OwltError if `owlt run` did not record all runs;
    what it prints says why.
    """
    from owlt.orchestrator.commands.performing import results_of
    from owlt.orchestrator.errors import OwltError
    from owlt.orchestrator.profiles.catalogue import resolve, sweep_path

    place = Path(results) if results else results_of(resolve(sweep_path(str(sweep))), None, None)
    command = [sys.executable, "-m", "owlt", "run", str(sweep), "--results", str(place), *options]
    status = subprocess.run(command, check=False).returncode
    if status not in ALL_RECORDED:
        raise OwltError(f"owlt run {sweep} ended with status {status}")
    return load(place)


def _filters(values: dict[str, object]) -> list[Any]:
    from owlt.reports.drawing.specification import Filter, quantity

    listed = {name: value if isinstance(value, list | tuple) else [value] for name, value in values.items()}
    return [Filter(quantity(name), tuple(map(str, each))) for name, each in listed.items()]


def _have_notebooks_show_figures() -> None:
    """In a notebook, have figures shown below their cells, as pyplot does for its own when it loads its backend."""
    if "ipykernel" in sys.modules:
        from matplotlib import pyplot

        pyplot.switch_backend(pyplot.get_backend())
