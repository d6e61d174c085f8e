"""What a run has come to know so far, and how it can end before its last phase."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Any

from agents.contract import Role
from agents.side import Side
from orchestrator import record
from orchestrator.printable import printable
from orchestrator.program import Program
from orchestrator.record import Outcome


class Ended(Exception):
    """A run that ended early, with the outcome and the reason that its record will give: one line that prints."""

    def __init__(self, outcome: Outcome, reason: str) -> None:
        self.outcome = outcome
        self.reason = printable(reason)
        super().__init__(self.reason)


class GaveUp(Ended):
    """A run in which a side ended badly, or said that it failed: failed, unless something of the file came."""

    def __init__(self, reason: str) -> None:
        super().__init__(Outcome.FAILED, reason)


@dataclass
class Findings:
    """What a run has come to know so far: the record in the making."""

    facts: dict[str, Any] = field(default_factory=dict)
    suspect: list[str] = field(default_factory=list)
    sides: dict[Role, Side] = field(default_factory=dict)
    programs: dict[Role, Program] = field(default_factory=dict)
    stopped: set[Role] = field(default_factory=set)
    left_running: dict[Role, list[str]] = field(default_factory=dict)
    counted_before: dict[str, dict[str, dict[str, int]]] = field(default_factory=dict)
    """The emulator's counters when the captures had begun: by direction, stage and name."""
    news: threading.Condition = field(default_factory=threading.Condition)

    def has_ended(self, role: Role) -> bool:
        """Whether a side is over: its program has ended, or has printed a line that says so."""
        program, line = self.programs[role], self.sides[role].done_line
        is_done = line is not None and program.wrote_line(line)
        return not program.running or is_done or self.failure_line(role) is not None

    def failure_line(self, role: Role) -> str | None:
        """The line by which a side says that it failed; None without one."""
        pattern = self.sides[role].failed_line
        return None if pattern is None else self.programs[role].line_like(pattern)

    def side(self, role: Role) -> record.Side:
        """What is known of the program on one host."""
        program, side = self.programs.get(role), self.sides.get(role)
        return record.Side(
            command=side.command if side else [],
            card_rate_bps=float(side.card_rate_bps) if side and side.card_rate_bps else None,
            exit_status=program.wait(0) if program else None,
            stopped=role in self.stopped,
            left_running=self.left_running.get(role, []),
        )
