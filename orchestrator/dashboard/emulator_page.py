"""The panel of an emulator: its channel as the kernel has it, live counters, and changes with the token.

The emulator is asked at most once a second, however many pages are open.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from flask import Flask, abort, jsonify, make_response, redirect, render_template, request, url_for
from werkzeug.wrappers import Response

from owlt.emulator.channel.spec import DIRECTIONS, ChannelSpec
from owlt.emulator.faults import EmulatorError
from owlt.emulator.service.client import EmulatorClient
from owlt.inputs.mistake import Invalid
from owlt.inputs.quantities import PROBABILITY
from owlt.orchestrator.dashboard.protection import Token
from owlt.orchestrator.dashboard.sweep_pages import Tags, is_part
from owlt.reports.results.channels import link_words
from owlt.reports.units import number_text

ASK_EVERY_S = 1.0
MOST_SAMPLES = 300
Statistics = Mapping[str, Mapping[str, Mapping[str, int]]]


@dataclass(frozen=True)
class Sample:
    """Totals since the channel was applied, and the packets that wait now; by direction."""

    at_s: float
    packets: Mapping[str, int]
    dropped: Mapping[str, int]
    waiting: Mapping[str, int]


@dataclass(frozen=True)
class EmulatorState:
    """The emulator's latest answer. `channel` is None before its first answer."""

    channel: ChannelSpec | None = None
    statistics: Statistics | None = None
    holder: str = ""
    """Who holds the lease: a run, whose channel nobody else can change; "": nobody."""
    problem: str = ""
    """Why the latest request had no answer; "" if it had one."""


class EmulatorWatch:
    """One emulator. Any thread may ask; a client serves one thread at a time."""

    def __init__(self, client: EmulatorClient, now_s: Callable[[], float] = time.time) -> None:
        self.url = client.url
        self._client = client
        self._now_s = now_s
        self._lock = threading.Lock()
        self._asked_s = float("-inf")
        self._state = EmulatorState()
        self._samples: deque[Sample] = deque(maxlen=MOST_SAMPLES)

    def state(self) -> EmulatorState:
        """The state, at most `ASK_EVERY_S` old; older while another thread asks."""
        if self._lock.acquire(blocking=self._asked_s == float("-inf")):
            try:
                if self._now_s() - self._asked_s >= ASK_EVERY_S:
                    self._ask()
            finally:
                self._lock.release()
        return self._state

    def change(self, direction: str, fields: Mapping[str, Any]) -> None:
        """Change values of "forward", "reverse" or "both". Raises EmulatorError; LeaseHeld while a run needs it."""
        with self._lock:
            self._client.change(direction, **fields)
            self._asked_s = float("-inf")

    def series(self) -> dict[str, list[float | None]]:
        """The samples of the last minutes as columns for a chart: rates between samples, and what waits."""
        samples = list(self._samples)
        columns: dict[str, list[float | None]] = {"at_s": [sample.at_s for sample in samples[1:]]}
        for way in DIRECTIONS:
            columns[f"{way}_packets_per_s"] = [_rate(one, other, "packets", way) for one, other in pairwise(samples)]
            columns[f"{way}_dropped_per_s"] = [_rate(one, other, "dropped", way) for one, other in pairwise(samples)]
            columns[f"{way}_waiting"] = [sample.waiting[way] for sample in samples[1:]]
        return columns

    def _ask(self) -> None:
        self._asked_s = self._now_s()
        try:
            channel, statistics = self._client.snapshot()
            lease = self._client.lease_status()
        except EmulatorError as problem:
            self._state = replace(self._state, problem=str(problem))
            return
        self._state = EmulatorState(channel, statistics, str(lease["holder"]) if lease["held"] else "")
        self._samples.append(_sample(self._asked_s, statistics))


def _sample(at_s: float, statistics: Statistics) -> Sample:
    return Sample(
        at_s=at_s,
        packets={way: statistics.get(way, {}).get("pipe", {}).get("packets", 0) for way in DIRECTIONS},
        dropped={way: _total(statistics, way, "dropped_packets") for way in DIRECTIONS},
        waiting={way: statistics.get(way, {}).get("bottleneck", {}).get("waiting_packets", 0) for way in DIRECTIONS},
    )


def _total(statistics: Statistics, way: str, counter: str) -> int:
    return sum(counters.get(counter, 0) for counters in statistics.get(way, {}).values())


def _rate(before: Sample, after: Sample, name: str, way: str) -> float | None:
    """The increase of a total in a second; None where the emulator began to count again."""
    increase = getattr(after, name)[way] - getattr(before, name)[way]
    return increase / (after.at_s - before.at_s) if increase >= 0 and after.at_s > before.at_s else None


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
    """A value as a profile has it: a packet error rate is a number, or in percent."""
    if name != "packet_error_rate":
        return text
    try:
        return float(PROBABILITY.of_argument(text))
    except Invalid:
        abort(400, f"packet_error_rate: got {text!r:.80}, expected a number from 0 to 1, or percent as in 1 %")


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
