"""`owlt answer`: which implementation to take for which channel and file, by how much, and how sure that is."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from owlt.inputs.mistake import Mistake, Place, not_one_of
from owlt.inputs.quantities import parse_delay_ns
from owlt.orchestrator.commands.output import Printer
from owlt.orchestrator.commands.usage import CriterionOption, Json, ResultsArgument, parsed, share_of
from owlt.orchestrator.errors import OwltError

if TYPE_CHECKING:
    from owlt.reports.answer.answer import Answer, CriterionAnswer
    from owlt.reports.answer.cell_verdicts import Verdict
    from owlt.reports.comparison.choice import Rule
    from owlt.reports.results.load import Results

DELIVERY_SLUG = "delivery"
ANSWER_VERSION = 2
"""Raised if a field of the JSON output is renamed or removed, or changes its meaning."""


def answer(
    results: ResultsArgument,
    criterion: CriterionOption = "",
    margin: Annotated[
        str,
        typer.Option(
            metavar="PERCENT",
            help="How far behind the best an implementation may be and still be taken, such as 5%; default: "
            "margin_percent of the sweep.",
        ),
    ] = "",
    within: Annotated[
        str,
        typer.Option(
            metavar="TIME",
            help="Compare the probability that the file is delivered in this time, such as 300s, the length of a pass.",
        ),
    ] = "",
    as_json: Json = False,
) -> None:
    """Name the implementations to take for each channel and file.

    It reads the records and summaries of a results directory as they are, and changes nothing.
    """
    from owlt.orchestrator.profiles.load import existing_results
    from owlt.reports.comparison.stopping import load_due_results, rule_of

    path = existing_results(results)
    loaded = load_due_results(path)
    rule = rule_of(loaded.sweep)
    if margin:
        rule = rule._replace(margin=share_of("--margin", margin))
    result = _answer_of(path, loaded, rule, criterion, within)
    chosen = _chosen(result, criterion or (DELIVERY_SLUG if within else ""))
    printer = Printer(as_json)
    printer.json(_json_value(result, chosen))
    printer.text(f"{chosen.headline.text} {chosen.certainty}".rstrip())
    printer.text(result.sureness)
    for region in chosen.regions:
        cells = len(region.region.verdicts)
        where = region.where + (f" ({cells} cells)" if cells > 1 else "")
        printer.text(f"- {where}: {' '.join(region.sentences)}")
    printer.table(
        ("implementation", "may be taken in", "undecided in", "farthest behind", "runs not completed"),
        (_summary_cells(chosen, place) for place in range(len(chosen.summaries))),
    )


def _answer_of(results: Path, loaded: Results, rule: Rule, criterion: str, within: str) -> Answer:
    from owlt.reports.answer.answer import answer_of
    from owlt.reports.comparison.cells import cells_of

    if within and criterion not in ("", DELIVERY_SLUG):
        raise OwltError(
            Mistake.of("--within", f"does not apply to --criterion {criterion}", f"--criterion {DELIVERY_SLUG}")
        )
    within_s = float(parsed("--within", within, parse_delay_ns)) / 1e9 if within else None
    if within_s is not None and within_s <= 0:
        raise OwltError(Mistake.of("--within", f"got {within!r}", "more than 0, such as 300s"))
    result = answer_of(cells_of(loaded.rows), rule, within_s, loaded.accounts)
    if result is None:
        raise OwltError(Mistake("has one implementation", "at least two to compare", where=Place(str(results))))
    return result


def _chosen(result: Answer, criterion: str) -> CriterionAnswer:
    by_slug = {each.criterion.slug: each for each in result.by_criterion}
    if criterion and criterion not in by_slug:
        raise OwltError(not_one_of(criterion, by_slug).below("--criterion"))
    return by_slug[criterion] if criterion else result.by_criterion[0]


def _summary_cells(chosen: CriterionAnswer, place: int) -> tuple[str, ...]:
    from owlt.reports.answer.sentences import farthest_text

    summary = chosen.summaries[place]
    undelivered = summary.undelivered
    return (
        summary.name,
        f"{summary.led} of {summary.planned}",
        f"{summary.undecided}" if summary.undecided else "",
        farthest_text(summary, chosen.criterion),
        ", ".join(
            [
                *([f"{undelivered.count} of {undelivered.n}"] if undelivered else []),
                *([f"{summary.unsupported} unsupported"] if summary.unsupported else []),
            ]
        ),
    )


def _json_value(result: Answer, chosen: CriterionAnswer) -> dict[str, Any]:
    return {
        "version": ANSWER_VERSION,
        "criterion": chosen.criterion.slug,
        "unit": chosen.criterion.metric.unit,
        "margin": result.rule.margin,
        "headline": chosen.headline.text,
        "certainty": chosen.certainty,
        "sureness": result.sureness,
        "summaries": [asdict(each) for each in chosen.summaries],
        "regions": [
            {
                "where": region.where,
                "cells": len(region.region.verdicts),
                "take": list(region.region.take),
                "is_undecided": region.region.is_undecided,
                "sentences": list(region.sentences),
            }
            for region in chosen.regions
        ],
        "verdicts": [_verdict_value(verdict) for verdict in chosen.verdicts],
    }


def _verdict_value(verdict: Verdict) -> dict[str, Any]:
    return {
        **verdict.point.values,
        "best": verdict.best,
        "take": list(verdict.leaders),
        "undecided": list(verdict.undecided),
        "standings": [asdict(each) for each in verdict.standings],
    }
