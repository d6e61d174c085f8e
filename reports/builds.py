"""What a reader must know of each build beyond its numbers: version, parameters, limits, what set it apart."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import PurePath
from textwrap import shorten

from reports.load import Results
from reports.records import KnownLimit, Limits, Profile, Record, Side
from reports.told import told_delays, told_rates
from reports.units import delay_text, number_text, probability_text, rate_text, size_text

VERSION_LETTERS = 60
"""So much of a version is shown: some programs tell their features with it."""
MOST_NOTES = 4
"""So many of a kind are said; of the others, how many there are."""


@dataclass(frozen=True)
class Build:
    """An implementation of the sweep, in words."""

    name: str
    title: str
    description: str
    protocol: str
    versions: tuple[str, ...]
    notes: tuple[str, ...]
    """What it was told that is not the channel's, who paced it, what it left running; where it cannot do what was
    asked of it, or is known to fail."""
    chosen: dict[str, str]
    """The parameters that the sweep gives, which a variant has its name from."""
    parameters: dict[str, str]
    """All of them."""

    @property
    def versions_text(self) -> str:
        """The beginning of each version, in a line."""
        return " and ".join(shorten(version, VERSION_LETTERS, placeholder=" …") for version in self.versions)


def builds_of(results: Results) -> list[Build]:
    """Every implementation, in the order of the sweep."""
    records: dict[str, list[Record]] = {name: [] for name in results.implementations}
    for run in results.runs:
        records[run.record.implementation].append(run.record)
    return [
        _build(name, title, results.profiles[name], records[name], results.sweep.parameters.get(_base_name(name), {}))
        for name, title in results.implementations.items()
    ]


def _base_name(name: str) -> str:
    """The name of the build that a variant, "norm+parity_segments=8", is of."""
    return name.partition("+")[0]


def _build(name: str, title: str, profile: Profile, records: list[Record], chosen: Iterable[str]) -> Build:
    parameters: dict[str, list[str]] = {}
    for record in records:
        for key, value in record.parameters.items():
            parameters.setdefault(key, []).append(value if isinstance(value, str) else number_text(value))
    texts = {key: " and ".join(dict.fromkeys(values)) for key, values in parameters.items()}
    versions = (record.versions.get("implementation", record.versions.get(name)) for record in records)
    return Build(
        name=name,
        title=title,
        description=profile.description,
        protocol=", ".join(dict.fromkeys(record.protocol for record in records)),
        versions=tuple(sorted({version for version in versions if version})),
        notes=(
            *_told_notes(records),
            *_paced_notes(records),
            *_left_notes(records),
            *(f"not launched for {bound}" for bound in _bounds(profile.limits)),
            *_repeating_notes(profile, records),
            *map(_known_note, profile.known_limits),
        ),
        chosen={key: texts[key] for key in chosen if key in texts},
        parameters=texts,
    )


def _told_notes(records: list[Record]) -> list[str]:
    """Where the sweep told it another rate or delay than the channel's."""
    rates = [f"told {told} on a channel of {channel}" for told, channel in told_rates(records)]
    delays = [f"told {told} one way on a channel of {channel}" for told, channel in told_delays(records)]
    return _most([*rates, *delays])


def _paced_notes(records: list[Record]) -> list[str]:
    rates = dict.fromkeys((who, side.card_rate_bps) for record in records for who, side in _sides(record))
    return _most(f"{who} paced by its host’s card, at {rate_text(rate)}" for who, rate in rates if rate is not None)


def _left_notes(records: list[Record]) -> list[str]:
    left = Counter(
        (who, _without_directory(command))
        for record in records
        for who, side in _sides(record)
        for command in dict.fromkeys(side.left_running)
    )
    return _most(
        f"the {who} left this running in {'1 run' if count == 1 else f'{count} runs'}, and it was ended with the run: "
        f"{command}"
        for (who, command), count in left.items()
    )


def _repeating_notes(profile: Profile, records: list[Record]) -> list[str]:
    """On the clock exact a reader takes a run for one that can be had again."""
    if not profile.not_repeatable or all(record.clock != "exact" for record in records):
        return []
    return [f"the same seed does not give the same packets again: {profile.not_repeatable}"]


def _sides(record: Record) -> tuple[tuple[str, Side], ...]:
    return ("sender", record.sender), ("receiver", record.receiver)


def _without_directory(command: str) -> str:
    """A command with its program's own name for its path, which is a matter of the host."""
    program, space, arguments = command.partition(" ")
    return PurePath(program).name + space + arguments


def _most(notes: Iterable[str]) -> list[str]:
    """The first of them, and how many more there are."""
    found = list(notes)
    more = len(found) - MOST_NOTES
    return [*found[:MOST_NOTES], f"and {more} more like that"] if more > 0 else found


def _bounds(limits: Limits) -> list[str]:
    size, rate, delay_s = limits.largest_file_bytes, limits.slowest_rate_bps, limits.longest_one_way_delay_s
    return [
        *([] if size is None else [f"files over {size_text(size)}"]),
        *([] if rate is None else [f"rates below {rate_text(rate)}"]),
        *([] if delay_s is None else [_longer_than(delay_s)]),
    ]


def _known_note(limit: KnownLimit) -> str:
    size, delay_s, error_rate = limit.file_bytes_above, limit.one_way_delay_s_above, limit.packet_error_rate_above
    where = [
        *([] if size is None else [f"files over {size_text(int(size))}"]),
        *([] if delay_s is None else [_longer_than(delay_s)]),
        *([] if error_rate is None else [f"a packet error rate above {probability_text(error_rate)}"]),
    ]
    return " ".join(["known to fail", *(["with", " and ".join(where)] if where else [])]) + f": {limit.why}"


def _longer_than(delay_s: float) -> str:
    return f"more than {delay_text(round(delay_s * 1e9))} one way"
