"""The pages of all sweeps, of one sweep, and of a condition."""

from __future__ import annotations

from flask import Flask, abort, make_response, render_template, request
from werkzeug.wrappers import Response

from owlt.captures.files.plain_files import is_plain
from owlt.orchestrator.dashboard.pages.snapshots import TAG, Tags, is_part, sweep_of
from owlt.orchestrator.dashboard.sweeps.boxes import box_plot
from owlt.orchestrator.dashboard.sweeps.directories import Directories
from owlt.orchestrator.dashboard.sweeps.filters import Filter, choices, condition_title
from owlt.orchestrator.dashboard.sweeps.index import Snapshot
from owlt.orchestrator.dashboard.sweeps.matrix import changed_cells, matrix_of
from owlt.orchestrator.dashboard.sweeps.wording import activity_text, headline_of, machines_of
from owlt.reports.comparison.metrics import METRICS


def add_sweep_pages(app: Flask, directories: Directories, tags: Tags) -> None:
    """Add them to the application."""
    live_parts: dict[str, tuple[Snapshot, str]] = {}

    def live_part(name: str, snapshot: Snapshot) -> str:
        """The part of a page that may change every second, made once for all pages that are open."""
        shown, text = live_parts.get(name, (None, ""))
        if shown is not snapshot:
            text = render_template("live.html", **_live_values(name, snapshot))
            live_parts[name] = snapshot, text
        return text

    @app.get("/")
    def sweeps() -> Response:
        shown = {name: index.snapshot() for name, index in directories.indexes().items()}
        headlines = {name: headline_of(each) for name, each in shown.items() if each.state is not None}
        if is_part():
            return tags.answer(render_template("sweeps_table.html", shown=shown, headlines=headlines))
        return make_response(render_template("sweeps.html", shown=shown, headlines=headlines))

    @app.get("/sweeps/<name>/")
    def sweep(name: str) -> Response:
        index, snapshot = sweep_of(directories, name)
        selected = _selected()
        text = render_template(
            "sweep.html",
            directory=index.directory,
            matrix=matrix_of(snapshot, selected),
            choices=choices(snapshot.planned),
            selected=selected,
            tag=tags.of(snapshot),
            has_report=is_plain(index.directory / "report" / "index.html"),
            live=live_part(name, snapshot),
            name=name,
            snapshot=snapshot,
        )
        return make_response(text)

    @app.get("/sweeps/<name>/changes")
    def changes(name: str) -> Response:
        """What has changed since the version that the page shows; the whole page again if that is of another plan."""
        _, snapshot = sweep_of(directories, name)
        since = tags.version_in(request.headers.get(TAG, ""), snapshot)
        if since is None:
            return make_response("", 200, {"HX-Refresh": "true"})
        live = live_part(name, snapshot)
        tag = tags.of(snapshot, live)
        if tag == request.headers.get(TAG):
            return make_response("", 304)
        changed = changed_cells(snapshot, _selected(), since)
        return make_response(live + render_template("changed_cells.html", name=name, cells=changed), 200, {TAG: tag})

    @app.get("/sweeps/<name>/conditions/<key>")
    def condition(name: str, key: str) -> Response:
        _, snapshot = sweep_of(directories, name)
        cells = [each for each in snapshot.planned if each.condition.key == key]
        if not cells or snapshot.plan is None:
            abort(404, f"condition {key!r}: the sweep has none of this name")
        place = _metric()
        rows = {each.implementation: snapshot.rows_of(each) for each in cells}
        numbers = {implementation: number for number, implementation in enumerate(snapshot.plan.implementations)}
        values = {
            "name": name,
            "condition": cells[0].condition,
            "title": condition_title(snapshot.planned, cells[0].condition),
            "rows": rows,
            "metric": METRICS[place],
            "place": place,
            "plot": box_plot(rows, place, numbers),
        }
        if is_part():
            return tags.answer(render_template("condition_live.html", **values))
        return make_response(render_template("condition.html", **values))


def _selected() -> Filter:
    return Filter.of_query(request.args.to_dict(flat=False))


def _live_values(name: str, snapshot: Snapshot) -> dict[str, object]:
    """What the page of a sweep shows beside its matrix: it may change every second."""
    state = snapshot.state
    assert state is not None
    activities = [(each.slot, each.run_id, activity_text(each, state.read_at_s)) for each in state.activities]
    return {
        "name": name,
        "snapshot": snapshot,
        "headline": headline_of(snapshot),
        "activities": sorted(activities),
        "machines": machines_of(state),
    }


def _metric() -> int:
    """The place of the metric in the address."""
    slugs = [metric.slug for metric in METRICS]
    slug = request.args.get("metric", slugs[0])
    if slug not in slugs:
        abort(404, f"metric: got {slug!r:.80}, expected {', '.join(slugs)}")
    return slugs.index(slug)
