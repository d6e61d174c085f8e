"""The breakdown of the session time in sentences: the share of each kind, and the causes.

The values come from the critical path in captures.inspection; this module puts them into words.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from owlt.captures.inspection.causes import Cause, CauseDifference, is_one_length
from owlt.captures.inspection.critical_path import KINDS, PHASES, CriticalPath, Kind, Phase
from owlt.reports.looks import LEAST_PRINTED_SHARE, TIME_TITLES
from owlt.reports.units import listed

_SEVERAL_WAYS = 4
"""For fewer ways through the channel in the transfer, the mean of the data per flight is not printed."""
MOST_NAMES = 4
"""The most names of messages in a sentence."""
_BEYOND = 1.1
"""A wait that is longer than its timer by more than this factor was not for that timer alone."""
_IN: Mapping[Phase, str] = {
    "opening": "before the first data packet",
    "transfer": "during the first transmission of the file",
    "recovery": "during loss recovery",
    "closing": "after delivery",
}


def _time(time_ns: float) -> str:
    """A time in s with three decimals; in ms, to four digits, if it is shorter than a second."""
    if time_ns < 1e9:
        return f"{time_ns / 1e6:.4g} ms"
    return f"{time_ns / 1e9:,.3f} s".replace(",", "\N{NARROW NO-BREAK SPACE}")


def headline(path: CriticalPath) -> str:
    """The session time, the time to delivery, and the lower bound that the channel sets for any protocol."""
    text = f"session time {_time(path.length_ns)}"
    if path.delivered_ns is not None:
        text += f"; file delivered after {_time(path.delivered_ns - path.begin_ns)}"
    if path.least_ns is not None:
        text += f"; lower bound of the channel {_time(path.least_ns)}"
    return text


def spent_ns(path: CriticalPath) -> dict[Phase, dict[Kind, int]]:
    """How long each kind took in each phase, in ns; kinds that took no time are omitted."""
    spent: dict[Phase, dict[Kind, int]] = {phase: {} for phase in PHASES}
    for (phase, kind, _), total_ns in path.spent_ns.items():
        spent[phase][kind] = spent[phase].get(kind, 0) + total_ns
    return spent


def share_rows(path: CriticalPath) -> list[tuple[str, str, str]]:
    """A row for each kind with a visible share of the session: its title, its time in s, its share."""
    spent = spent_ns(path)
    totals = {kind: sum(of_phase.get(kind, 0) for of_phase in spent.values()) for kind in KINDS}
    return [
        (TIME_TITLES[kind], f"{total / 1e9:.3f} s", f"{100 * total / path.length_ns:.1f} %")
        for kind, total in totals.items()
        if total >= LEAST_PRINTED_SHARE * path.length_ns
    ]


def cause_text(cause: Cause, path: CriticalPath) -> str:
    """A cause as a sentence without a full stop, with the lost packets that may be the reason."""
    return _TEXTS[cause.what](cause, path)


def _wait_text(cause: Cause, path: CriticalPath) -> str:
    timer = cause.parts[0].timer
    what = f"the {cause.host} {'was idle for' if timer is None else 'waited'} {_lengths_text(cause)}"
    if cause.parts[0] is path.late_start:
        what += " between the launch and the first packet"
    if timer is not None and cause.parts[0].is_polling:
        what += f", while {timer.process} polled every {_time(timer.length_ns)} ({timer.kind})"
    elif timer is not None and not is_one_length([part.timer.length_ns for part in cause.parts if part.timer]):
        what += f" for timers ({timer.kind} in {timer.process})"
    elif timer is not None:
        is_longer = cause.total_ns > _BEYOND * cause.count * timer.length_ns
        what += " until the expiry of a timer last set to" if is_longer else " for a timer of"
        what += f" {_time(timer.length_ns)} ({timer.kind} in {timer.process})"
    ended = f", then sent {cause.message}" if cause.message else f" {_IN[cause.phase]}"
    return f"{what}{ended}{_lost_text(cause, path)}"


def _lengths_text(cause: Cause) -> str:
    """The length of a wait; of several, their lengths, their number and their sum."""
    if cause.count == 1:
        return _time(cause.total_ns)
    lengths_ns: Counter[int] = Counter()
    for part in cause.parts:
        lengths_ns[part.packet] += part.length_ns
    shortest, longest = (_time(length_ns) for length_ns in (min(lengths_ns.values()), max(lengths_ns.values())))
    is_one = is_one_length(lengths_ns.values())
    each = _time(cause.total_ns // cause.count) if is_one else f"{shortest} to {longest}"
    return f"{each} {cause.count} times ({_time(cause.total_ns)} in total)"


def _trips_text(cause: Cause, path: CriticalPath) -> str:
    if cause.count == 1:
        trips = f"the channel transit of one packet of the {cause.host}"
    else:
        trips = f"{cause.count / 2:g} round {'trip' if cause.count == 2 else 'trips'}"
    took = f"took {_time(cause.total_ns)} {_IN[cause.phase]} ({_few(cause.message)})"
    return f"{trips} {took}{_window_text(cause, path)}{_lost_text(cause, path)}"


def _window_text(cause: Cause, path: CriticalPath) -> str:
    """The mean amount of new data in a flight of the transfer; n round trips separate n + 1 flights."""
    if cause.phase != "transfer" or cause.count < _SEVERAL_WAYS:
        return ""
    new = [rung.message for rung in path.rungs if rung.kind == "new data"]
    each_bytes = sum(message.byte_count or message.payload_bytes for message in new) / (cause.count / 2 + 1)
    what = "new data" if all(message.byte_count for message in new) else "payload"
    return f"; {each_bytes / 1000:.3g} kB of {what} per flight"


def _queue_text(cause: Cause, path: CriticalPath) -> str:
    return f"queueing of the {cause.host}'s packets took {_time(cause.total_ns)} {_IN[cause.phase]}"


def _transmission_text(cause: Cause, path: CriticalPath) -> str:
    what = "retransmissions and control packets" if cause.host == "sender" else "packets"
    took = f"took {_time(cause.total_ns)} {_IN[cause.phase]} ({_few(cause.message)})"
    return f"transmission of the {cause.host}'s {what} {took}"


def _answer_text(cause: Cause, path: CriticalPath) -> str:
    return f"processing at the {cause.host} took {_time(cause.total_ns)} {_IN[cause.phase]}"


_TEXTS = {
    "timer": _wait_text,
    "waiting": _wait_text,
    "round trips": _trips_text,
    "queueing": _queue_text,
    "serialization": _transmission_text,
    "processing": _answer_text,
}


def _lost_text(cause: Cause, path: CriticalPath) -> str:
    """The lost packets that may be the reason: their names and frames, or their number if there are many."""
    if not cause.lost:
        return ""
    messages = [path.rungs[index].message for index in cause.lost]
    if len(messages) > MOST_NAMES:
        hosts = {message.host for message in messages}
        of_host = f" of the {hosts.pop()}" if len(hosts) == 1 else ""
        first = f", the first after {_time(path.rungs[cause.lost[0]].left_ns - path.begin_ns)}"
        return f"; preceding losses: {len(messages)} packets{of_host}{first}"
    return "; preceding losses: " + listed([f"{message.name} (frame {message.frame})" for message in messages])


def _few(names: str) -> str:
    each = list(dict.fromkeys(names.split(", ")))
    return ", ".join(each[:MOST_NAMES]) + (" ..." if len(each) > MOST_NAMES else "")


def difference_text(each: CauseDifference) -> str:
    """A cause that differs between two runs: how often it occurs in each of them, and how long it takes."""
    of_host = "" if each.what == "round trips" else f" of the {each.host}"
    before = f" before {each.message}" if each.message else ""
    here, there = (
        f"{_time(total_ns)} ({count / 2 if each.what == 'round trips' else count:g})" if count else "none"
        for count, total_ns in zip(each.counts, each.totals_ns, strict=True)
    )
    return f"{each.what}{of_host} {_IN[each.phase]}{before}: {here} in this run, {there} in the other"


def explanation_json(path: CriticalPath, found: Sequence[Cause]) -> dict[str, object]:
    """The breakdown of the session time as JSON, with the causes."""
    return {
        "session_ns": path.length_ns,
        "delivered_after_ns": None if path.delivered_ns is None else path.delivered_ns - path.begin_ns,
        "least_ns": path.least_ns,
        "spent_ns": spent_ns(path),
        "causes": [
            {
                "what": cause.what,
                "host": cause.host,
                "phase": cause.phase,
                "messages": cause.message,
                "count": cause.count,
                "total_ns": cause.total_ns,
                "before_session": cause.parts[0] is path.late_start,
                "timer_ns": cause.parts[0].timer.length_ns if cause.parts[0].timer else None,
                "lost": [
                    {"host": message.host, "frame": message.frame, "message": message.name}
                    for message in (path.rungs[index].message for index in cause.lost)
                ],
                "text": cause_text(cause, path),
            }
            for cause in found
        ],
    }
