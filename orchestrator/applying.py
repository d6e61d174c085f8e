"""The channel during a run: applied with the run's seeds and read back, its timeline played, compared at the end."""

from __future__ import annotations

from collections.abc import Mapping

from emulator.faults import ChannelRefused
from orchestrator.findings import Ended, Findings
from orchestrator.plan import Run, channel_of
from orchestrator.record import Outcome
from orchestrator.setting import Setting

LATEST_STEP_NS = 5_000_000
"""A step of a channel that comes later makes the run suspect."""


def apply_channel(run: Run, setting: Setting, found: Findings) -> None:
    """Have the emulator make the channel. Raises Ended when it refuses."""
    asked = channel_of(run, setting.channel_of(run), setting.netem_takes_seeds)
    certified = setting.certificates.get(run.channel_key)
    if certified is not None:
        found.facts["certificate"] = certified.verdict
        found.suspect += [f"the channel's certificate: {sentence}" for sentence in certified.suspicion]
    try:
        applied = setting.rig.channel.configure(asked)
    except ChannelRefused as refusal:
        raise Ended(Outcome.ABORTED, f"the emulator refused the channel: {refusal}") from refusal
    found.facts["channel"] = applied.to_wire()


def start_timeline(run: Run, setting: Setting) -> None:
    """Let the channel change with time from now on, if it does."""
    if setting.channel_of(run).timeline is not None:
        setting.rig.channel.timeline_start()


def begin_counting(setting: Setting, found: Findings) -> None:
    """Note what the channel's stages have counted before the captures began: none of it is in them."""
    found.counted_before = setting.rig.channel.statistics()


def close_channel(run: Run, setting: Setting, found: Findings) -> None:
    """Note what the channel was at the end and what its stages counted while it was captured."""
    if setting.channel_of(run).timeline is not None:
        _note_timeline(setting, found)
    else:
        _check_channel(setting, found)
    before = found.counted_before
    found.facts["emulator_statistics"] = {
        way: {name: counted_since(before.get(way, {}).get(name, {}), values) for name, values in stages.items()}
        for way, stages in setting.rig.channel.statistics().items()
    }


def counted_since(before: Mapping[str, int], now: Mapping[str, int]) -> dict[str, int]:
    """By how much counters have grown; what waits is no counter, and what waited before is not counted when it goes."""
    waited = {name: before.get(f"waiting_{name}", 0) for name in ("packets", "bytes")}
    return {
        name: value if name.startswith("waiting_") else value - before.get(name, 0) - waited.get(name, 0)
        for name, value in now.items()
    }


def _note_timeline(setting: Setting, found: Findings) -> None:
    """How a channel that changes with time did so; it stays as it is from here on."""
    status = setting.rig.channel.timeline_stop()
    found.facts["timeline"] = {"steps_applied": status["steps_applied"], "latest_ns": status["latest_ns"]}
    if status["failure"]:
        found.suspect.append(f"the channel's timeline broke off: {status['failure']}")
    if status["latest_ns"] > LATEST_STEP_NS:
        found.suspect.append(f"a step of the channel's timeline came {status['latest_ns'] / 1e6:.1f} ms late")


def _check_channel(setting: Setting, found: Findings) -> None:
    """The channel at the end is the one that was applied."""
    at_the_end = setting.rig.channel.describe().to_wire()
    if at_the_end != found.facts["channel"]:
        found.suspect.append(f"the channel was another at the end of the run: {at_the_end}")
