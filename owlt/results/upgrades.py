"""Schema versions of JSON files: a file of an older version is upgraded as it is read, one small step for each version.

A step is a pure function from the values of one version to those of the next. It renames or converts and never looks at
anything but its argument. Here are the steps of record, plan and certificate; those of the summary are beside it. A
step tolerates malformed files: it leaves what it cannot convert, and validation refuses it afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

Values = Mapping[str, Any]
Step = Callable[[Values], dict[str, Any]]
Steps = Mapping[int, Step]
"""Upgrade steps by the version that they start from; the versions are consecutive."""

VERSION_KEY = "schema_version"


class NewerVersion(Exception):
    """A file of a schema version that this version of owlt does not know; the text names both versions."""

    def __init__(self, written: int, current: int) -> None:
        super().__init__(f"schema version {written}; this version of owlt reads up to {current}")


def current_version(steps: Steps) -> int:
    """The version that the last step leads to."""
    return max(steps) + 1


def upgraded(values: Any, steps: Steps) -> Any:
    """The values of a file as the current version has them; a file without a version is of the first one.

    What is not a mapping with a version is returned unchanged, for the check of its form to refuse, and so is a version
    that is older than the first step. Raises NewerVersion.
    """
    if not isinstance(values, Mapping):
        return values
    version = values.get(VERSION_KEY, 1)
    if type(version) is not int:
        return values
    if version > current_version(steps):
        raise NewerVersion(version, current_version(steps))
    if version < min(steps):
        return values
    for start in range(version, current_version(steps)):
        values = {**steps[start](values), VERSION_KEY: start + 1}
    return values


def renamed(values: Values, names: Mapping[str, str]) -> dict[str, Any]:
    """The values in the same order, under the new names in `names`."""
    return {names.get(name, name): value for name, value in values.items()}


Change = Callable[[Any], Any]

MOST_PLAN_BYTES = 256_000_000
SOURCES_NAME = "sources.json"
"""The file in a directory that combines several with the origin of its runs (owlt.orchestrator.sweep.combining)."""

LINK_QUANTITIES = {
    "delay_ns": ("delay", "{} ns"),
    "rate_bps": ("rate", "{:.0f} bit/s"),
    "queue_packets": ("queue", "{} packets"),
}
CODES = {"incomplete": "part_of_file", "corrupt": "wrong_file", "unsupported": "unsupported"}
"""The reason code that follows from an outcome."""
OF_A_PERMUTATION = ("rate_bps", "delay_ns", "packet_error_rate")


def _record_2(record: Values) -> dict[str, Any]:
    """The channel in its written form."""
    return _changed(record, channel=lambda channel: _each(channel, _written_link))


def _record_3(record: Values) -> dict[str, Any]:
    """New names: file_delivered_at_ns, advertised, machine_delay."""
    names = {"file_whole_at_ns": "file_delivered_at_ns", "told": "advertised", "withheld": "machine_delay"}
    return renamed(record, names)


def _record_4(record: Values) -> dict[str, Any]:
    """New: a code for the reason. That of a run that failed, timed out or was aborted is not known.

    On the exact clock every run has a guest of its own now, so `alone` has gone.
    """
    outcome = record.get("outcome")
    others = {name: value for name, value in record.items() if name != "alone"}
    return {**others, "reason_code": None if outcome == "completed" else CODES.get(str(outcome), "unclassified")}


def _record_5(record: Values) -> dict[str, Any]:
    """New: the provenance of the machine, which older versions did not record, and its name."""
    return {**record, "provenance": {}, "machine": ""}


def _record_6(record: Values) -> dict[str, Any]:
    """New: runs for a duration instead of a file. Older runs have a file."""
    return {**record, "duration_ns": None, "received_bytes": None}


def _record_7(record: Values) -> dict[str, Any]:
    """New: captures at the hosts, which older versions did not take."""
    return {**record, "host_captures": {}}


def _record_8(record: Values) -> dict[str, Any]:
    """New: what tcpdump itself lost; not known: its ring, what cards dropped, reconnections, digests of captures."""
    return _changed(
        record,
        captures=lambda captures: _each(captures, _with_loss),
        host_captures=lambda captures: _each(captures, lambda capture: _changed(capture, counters=_with_loss)),
    )


def _record_9(record: Values) -> dict[str, Any]:
    """New: how much of the file the receiver has, and what its host's kernel did not send; older versions did not count
    either."""
    return {**record, "present_bytes": None, "host_refusals": {}}


def _with_loss(counters: Any) -> Any:
    if not isinstance(counters, Mapping):
        return counters  # a capture at a host that has none
    received, captured, dropped = (
        counters.get(name) for name in ("received_by_filter", "captured", "dropped_by_kernel")
    )
    if not (isinstance(received, int) and isinstance(captured, int) and isinstance(dropped, int)):
        return {**counters}
    return {**counters, "lost_by_tcpdump": max(received - captured - dropped, 0)}


def _plan_2(plan: Values) -> dict[str, Any]:
    """New names: advertised, full, fix, file_delivered, {third_party}. The oldest plans get channels."""
    renewed = _changed(plan, sweep=_sweep_2, implementations=lambda each: _each(each, _implementation_2))
    return renewed if "channels" in renewed else _with_channels(renewed)


def _plan_3(plan: Values) -> dict[str, Any]:
    """The history of the plans in the directory, which older versions did not write."""
    return {**plan, "history": []}


def _new_keys(values: Values) -> dict[str, Any]:
    """A version that has new keys only: older files have their defaults."""
    return {**values}


def _with_channels(plan: Values) -> dict[str, Any]:
    """A plan without channels has them in its permutations: rate, delay and packet error rate, the same both ways."""
    channels: dict[str, Any] = {}

    def with_channel(run: Values) -> dict[str, Any]:
        point = run.get("permutation")
        link = _written_link({name: point.get(name) for name in OF_A_PERMUTATION} if isinstance(point, Mapping) else {})
        key = " ".join(str(value) for value in link.values())
        channels[key] = {"forward": link, "reverse": link}
        return {**_timing(point), **run, "channel_key": key}

    def with_channels(batch: Values) -> dict[str, Any]:
        return _changed(batch, runs=lambda runs: _all(runs, with_channel))

    renewed = _changed(plan, batches=lambda batches: _all(batches, with_channels))
    return {"certifications": [], **renewed, "channels": channels}


def _timing(point: Any) -> dict[str, Any]:
    """What a plan states of the channel of a run, from its point of the grid: rate and delay are the same both ways."""
    if not isinstance(point, Mapping):
        return {}
    delay_ns = point.get("delay_ns")
    rtt_s = 2 * delay_ns / 1e9 if isinstance(delay_ns, int | float) else 0.0
    return {"rtt_s": rtt_s, "slowest_rate_bps": point.get("rate_bps"), "channel_changes_s": 0.0}


def _sweep_2(sweep: Any) -> Any:
    if not isinstance(sweep, Mapping):
        return sweep
    return _changed(renamed(sweep, {"told": "advertised"}), keep_captures=lambda keep: _word(keep, "whole", "full"))


def _implementation_2(implementation: Values) -> dict[str, Any]:
    return _changed(
        _replaced(implementation, "{builds}", "{third_party}"),
        binary=lambda binaries: _each(binaries, _fix),
        needs=lambda needs: _all(needs, _fix),
        done=lambda done: _word(done, "file_whole", "file_delivered"),
    )


def _certificate_2(certificate: Values) -> dict[str, Any]:
    """New name: the specified value of a check."""
    return _changed(certificate, checks=lambda checks: _all(checks, _specified))


RECORD_STEPS: Steps = {
    1: _record_2,
    2: _record_3,
    3: _record_4,
    4: _record_5,
    5: _record_6,
    6: _record_7,
    7: _record_8,
    8: _record_9,
    9: _new_keys,  # values of the reverse link at a point of the grid
    10: _new_keys,  # the version of IP
    11: _new_keys,  # aimed faults
    12: _new_keys,  # sockets and files that are left
}
PLAN_STEPS: Steps = {
    1: _plan_2,
    2: _plan_3,
    3: _new_keys,  # runs for a duration instead of a file
    4: _new_keys,  # captures at the hosts
    5: _new_keys,  # assertions, which plans of version 5 may have too
    6: _new_keys,  # how an implementation fails beyond a known limit
    7: _new_keys,  # ECN marking
    8: _new_keys,  # values of the reverse link, and the margin of the choice
    9: _new_keys,  # pairs, and the version of IP
    10: _new_keys,  # known limits of some parameters and of one side
    11: _new_keys,  # aimed faults
    12: _new_keys,  # hosts that restart
    13: _new_keys,  # waits that are skipped
    14: _new_keys,  # commands that the sides get
    15: _new_keys,  # SCTP ports of a session
    16: _new_keys,  # deterministic implementations
    17: _new_keys,  # an SCTP port on which a side is ready
    18: _new_keys,  # implementations that are deterministic with some parameters
}
CERTIFICATE_STEPS: Steps = {1: _certificate_2}


def _fix(need: Values) -> dict[str, Any]:
    return renamed(need, {"mend": "fix"})


def _specified(check: Values) -> dict[str, Any]:
    return renamed(check, {"asked": "specified"})


def _written_link(link: Values) -> dict[str, Any]:
    """Quantities as text with their unit; a key without a value is left out."""
    return dict(_written(name, value) for name, value in link.items() if value is not None)


def _written(name: str, value: Any) -> tuple[str, Any]:
    if name not in LINK_QUANTITIES or not isinstance(value, int | float):
        return name, value
    key, form = LINK_QUANTITIES[name]
    return key, form.format(value)


def _changed(values: Values, **changes: Change) -> dict[str, Any]:
    """The values with those of some keys changed; a missing key stays missing."""
    return {name: changes[name](value) if name in changes else value for name, value in values.items()}


def _each(values: Any, change: Change) -> Any:
    """A mapping whose values are changed if they are mappings themselves."""
    if not isinstance(values, Mapping):
        return values
    return {name: change(value) if isinstance(value, Mapping) else value for name, value in values.items()}


def _all(values: Any, change: Change) -> Any:
    """A list whose values are changed if they are mappings."""
    if not isinstance(values, list):
        return values
    return [change(value) if isinstance(value, Mapping) else value for value in values]


def _word(value: Any, old: str, new: str) -> Any:
    return new if value == old else value


def _replaced(value: Any, old: str, new: str) -> Any:
    """The value with a text replaced in every text within it."""
    if isinstance(value, str):
        return value.replace(old, new)
    if isinstance(value, Mapping):
        return {name: _replaced(each, old, new) for name, each in value.items()}
    return [_replaced(each, old, new) for each in value] if isinstance(value, list) else value
