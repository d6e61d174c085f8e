"""Figures are part of the page while they are small together."""

from __future__ import annotations

from pathlib import Path

import pytest

from owlt.reports.page.figure_files import MOST_INLINE_BYTES, drawings
from owlt.reports.page.page import Contents
from owlt.reports.results.load import load_results


@pytest.mark.parametrize(("more_bytes", "begin"), [(0, "<svg"), (1, "<img")])
def test_all_figures_are_inline_up_to_a_number_of_bytes_together(
    more_bytes: int, begin: str, reported: Path, tmp_path: Path
) -> None:
    results = load_results(reported)
    shown = Contents.of(results).compared[:2]
    svg = '<svg viewBox="0 0 72 72"></svg>'
    for figure, size in zip(shown, (len(svg), MOST_INLINE_BYTES - len(svg) + more_bytes), strict=True):
        (tmp_path / f"{figure.name}.svg").write_text(svg.ljust(size))

    drawing = drawings(results, shown, tmp_path)

    assert [str(drawing(figure))[:4] for figure in shown] == [begin, begin]
