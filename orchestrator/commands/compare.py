"""`owlt compare`: what changed from one results directory to another, or over many nights, for people and for CI."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from owlt.inputs.mistake import Mistake, Place, not_one_of
from owlt.orchestrator.commands.output import Printer
from owlt.orchestrator.commands.usage import CriterionOption, Json, share_of
from owlt.orchestrator.errors import OwltError

if TYPE_CHECKING:
    from owlt.reports.answer.change_outcome import NightsCompared, TwoCompared
    from owlt.reports.answer.changes import ComparedResults
    from owlt.reports.comparison.cells import Criterion

COMPARE_VERSION = 1
"""Raised if a field of the JSON output is renamed or removed, or changes its meaning."""
WORSE_STATUS, NOT_JUDGED_STATUS = 1, 5


def compare(
    results: Annotated[
        list[Path],
        typer.Argument(metavar="RESULTS...", help="Two results directories, the earlier first; or more, by time."),
    ],
    criterion: CriterionOption = "",
    tolerance: Annotated[
        str,
        typer.Option("--tolerance", metavar="PERCENT", help="A difference up to this, such as 3%, is no change."),
    ] = "1%",
    page: Annotated[
        Path | None,
        typer.Option("--page", metavar="FILE", help="Write a page for a browser too, such as changes.html."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Show what changed between results.

    Of two: the difference of each permutation with its interval and test, and of each implementation over all cells.
    Of three or more, in the order of time: the change points of each permutation.

    Exit status: 1 if a regression is shown (of many: if the last change of a permutation is for the worse); 5 if none
    is shown, and some permutations cannot be judged: missing, without a result, or with too few runs; otherwise 0.
    """
    from owlt.reports.answer.change_outcome import compare_nights, compare_two

    share = share_of("--tolerance", tolerance)
    sources = _sources(results)
    chosen = _chosen(sources, criterion)
    printer = Printer(as_json)
    compared: TwoCompared | NightsCompared
    if len(sources) == 2:
        compared = compare_two(sources[0], sources[1], chosen, share)
        _refuse_nothing_common(compared)
        _print_two(compared, printer)
        value = _two_value(compared)
    else:
        compared = compare_nights(sources, chosen, share)
        _print_nights(compared, printer)
        value = _nights_value(compared)
    if page:
        _write_page(compared, page)
        printer.note(f"page: {page}")
    status = WORSE_STATUS if compared.is_worse else 0 if compared.is_judged else NOT_JUDGED_STATUS
    printer.json({"version": COMPARE_VERSION, "exit_status": status, "page": page, **value})
    raise typer.Exit(status)


def _sources(results: Sequence[Path]) -> list[ComparedResults]:
    from owlt.orchestrator.profiles.load import existing_results
    from owlt.reports.answer.changes import load_sources

    if len(results) < 2:
        raise OwltError(Mistake.of("RESULTS", "got one results directory", "two or more, the earlier first"))
    return load_sources([existing_results(path) for path in results])


def _chosen(sources: Sequence[ComparedResults], criterion: str) -> Criterion:
    from owlt.reports.comparison.cells import criteria_of

    criteria = criteria_of([cell for source in sources for cell in source.cells])
    by_slug = {each.slug: each for each in criteria if not each.is_share}
    if criterion and criterion not in by_slug:
        raise OwltError(not_one_of(criterion, by_slug).below("--criterion"))
    return by_slug[criterion] if criterion else next(iter(by_slug.values()))


def _refuse_nothing_common(compared: TwoCompared) -> None:
    if not any(change.before and change.after for change in compared.changes):
        raise OwltError(
            Mistake(
                f"has no permutation in common with {compared.before.directory}",
                "results of the same sweep, or of sweeps that share implementations, channels and files",
                where=Place(str(compared.after.directory)),
            )
        )


def _print_two(compared: TwoCompared, printer: Printer) -> None:
    from owlt.reports.answer import change_words as words

    place = words.places_of([change.point for change in compared.changes])
    printer.text(" ".join(words.headline(compared.overall, compared.changes)))
    for condition in compared.conditions:
        printer.text(f"- {condition.text}")
    printer.table(
        ("implementation", f"{compared.criterion.title} over all cells", "cells", "p", "undelivered before", "after"),
        (
            (
                *(each.implementation, words.change_text(each.ratio), str(each.cells), words.p_over_cells_text(each)),
                *(words.share_text(each.before), words.share_text(each.after)),
            )
            for each in compared.overall
        ),
    )
    if shown := words.changed(compared.changes):
        unit = compared.criterion.metric.unit
        printer.table(
            ("change", "implementation", "cell", f"before ({unit})", "after", "difference", "delivered", "p"),
            (
                (
                    *(change.relation, change.implementation, place(change.point)),
                    words.median_text(change.before, compared.criterion),
                    words.median_text(change.after, compared.criterion),
                    words.change_text(change.ratio),
                    f"{words.delivered_text(change.before)}, {words.delivered_text(change.after)}",
                    words.p_text(change.p_holm),
                )
                for change in shown
            ),
        )
    for line in words.rest_texts(compared.changes):
        printer.text(line)


def _print_nights(compared: NightsCompared, printer: Printer) -> None:
    from owlt.reports.answer import change_words as words

    labels = [source.label for source in compared.sources]
    place = words.places_of([each.point for each in compared.series])
    printer.text(" ".join(words.nights_headline(compared.series, labels)))
    if changed := [each for each in compared.series if each.changes]:
        printer.table(
            ("last change", "implementation", "cell", f"change points of the {compared.criterion.title}"),
            (
                (
                    *("worse" if each.ended_worse else "better", each.implementation, place(each.point)),
                    words.change_points_text(each, labels),
                )
                for each in changed
            ),
        )


def _write_page(compared: TwoCompared | NightsCompared, page: Path) -> None:
    from owlt.reports.page.changes import changes_page
    from owlt.results.plain_files import real_root, write_whole

    try:
        write_whole(real_root(page), changes_page(compared))
    except OSError as problem:
        raise OwltError(Mistake(f"cannot be written ({problem.strerror})", where=Place(str(page)))) from problem


def _two_value(compared: TwoCompared) -> dict[str, Any]:
    from owlt.reports.answer import change_words as words

    return {
        **_common_value((compared.before, compared.after), compared),
        "headline": words.headline(compared.overall, compared.changes),
        "conditions": [asdict(each) for each in compared.conditions],
        "implementations": [asdict(each) for each in compared.overall],
        "permutations": [{**change.point.values, **_without_point(asdict(change))} for change in compared.changes],
    }


def _nights_value(compared: NightsCompared) -> dict[str, Any]:
    from owlt.reports.answer import change_words as words

    return {
        **_common_value(compared.sources, compared),
        "headline": words.nights_headline(compared.series, [source.label for source in compared.sources]),
        "conditions": [],
        "implementations": [],
        "permutations": [{**each.point.values, **_without_point(asdict(each))} for each in compared.series],
    }


def _common_value(sources: Sequence[ComparedResults], compared: TwoCompared | NightsCompared) -> dict[str, Any]:
    return {
        "criterion": compared.criterion.slug,
        "unit": compared.criterion.metric.unit,
        "tolerance": compared.tolerance,
        "sources": [
            {
                "label": source.label,
                "directory": source.directory,
                "sweep": source.sweep,
                "seed": source.seed,
                "runs": source.recorded,
            }
            for source in sources
        ],
    }


def _without_point(value: dict[str, Any]) -> dict[str, Any]:
    return {name: each for name, each in value.items() if name != "point"}
