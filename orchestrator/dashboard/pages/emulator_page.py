"""The panel of an emulator: its channel as the kernel has it, live counters, and changes with the token."""

from __future__ import annotations

from collections.abc import Mapping

from flask import Flask, abort, jsonify, make_response, redirect, render_template, request, url_for
from werkzeug.wrappers import Response

from owlt.emulator.channel.spec import DIRECTIONS
from owlt.emulator.faults import EmulatorError
from owlt.orchestrator.dashboard.pages.emulator_watch import EmulatorState, EmulatorWatch, Statistics
from owlt.orchestrator.dashboard.pages.protection import Token, require_same_origin
from owlt.orchestrator.dashboard.pages.snapshots import Tags, is_part
from owlt.reports.results.channels import link_words
from owlt.reports.style.units import number_text

FIELDS = {"delay": "300 ms", "rate": "2 Mbit/s", "packet_error_rate": "0.01"}
"""The keys of a link that the form can change, each with an example."""


def add_emulator_page(app: Flask, watch: EmulatorWatch, tags: Tags, token: Token) -> None:
    """Add it to the application."""

    @app.get("/emulator/")
    def emulator() -> Response:
        live = render_template("emulator_live.html", **_live_values(watch.state()))
        if is_part():
            return tags.answer(live)
        values = {"url": watch.url, "fields": FIELDS, "may_change": token.is_given()}
        return make_response(render_template("emulator.html", live=live, **values))

    @app.get("/emulator/samples")
    def samples() -> Response:
        watch.state()
        return jsonify(watch.series())

    @app.post("/emulator/change")
    def change() -> Response:
        require_same_origin()
        token.require()
        direction = request.form.get("direction", "")
        fields = {name: value for name in FIELDS if (value := request.form.get(name, "").strip())}
        if direction not in (*DIRECTIONS, "both") or not fields:
            abort(400, f"expected forward, reverse or both, and at least one of {', '.join(FIELDS)}")
        try:
            watch.change(direction, {name: _value(name, text) for name, text in fields.items()})
        except EmulatorError as problem:
            abort(409, f"the channel is unchanged: {problem}")
        return redirect(url_for("emulator"), 303)


def _value(name: str, text: str) -> float | str:
    """A value as a profile has it: a packet error rate is a number."""
    if name != "packet_error_rate":
        return text
    try:
        return float(text)
    except ValueError:
        abort(400, f"packet_error_rate: got {text!r:.80}, expected a number from 0 to 1")


def _live_values(state: EmulatorState) -> dict[str, object]:
    links = []
    if state.channel is not None and not state.channel.bypass:
        wire = state.channel.to_wire()
        links = [(way, link_words(wire.get(way, {}))) for way in DIRECTIONS]
    return {"state": state, "links": links, "counters": _counter_rows(state.statistics or {})}


def _counter_rows(statistics: Statistics) -> list[tuple[str, ...]]:
    """Stage and counter, forward, reverse; an empty text if a direction does not have the counter."""
    names = dict.fromkeys(
        (stage, name) for of_way in statistics.values() for stage, each in of_way.items() for name in each
    )
    return [
        (f"{stage}: {name.replace('_', ' ')}", *(_counted(statistics.get(way, {}), stage, name) for way in DIRECTIONS))
        for stage, name in names
    ]


def _counted(stages: Mapping[str, Mapping[str, int]], stage: str, name: str) -> str:
    value = stages.get(stage, {}).get(name)
    return "" if value is None else number_text(value)
