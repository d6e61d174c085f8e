"""The two programs of a run while they run: what each side specifies, whether it has ended, what it left behind."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

from owlt.agents.contract.implementation import Role
from owlt.agents.contract.side import Side
from owlt.orchestrator.hosts.program import Program
from owlt.results import record


@dataclass
class Sides:
    """Both sides by role; a role is missing until its program is launched."""

    specified: dict[Role, Side] = field(default_factory=dict)
    programs: dict[Role, Program] = field(default_factory=dict)
    stopped: set[Role] = field(default_factory=set)
    """Those that still ran at the end, and were stopped."""
    left_running: dict[Role, list[str]] = field(default_factory=dict)
    """Commands that a program started and left behind."""
    news: threading.Condition = field(default_factory=threading.Condition)
    """Notified whenever a program prints or ends."""

    def has_ended(self, role: Role) -> bool:
        """Whether a side is over: its program has ended, or has printed a line that says so."""
        program, line = self.programs[role], self.specified[role].done_line
        is_done = line is not None and program.wrote_line(line)
        return not program.running or is_done or self.failure_line(role) is not None

    def failure_line(self, role: Role) -> str | None:
        """The line by which a side reports a failure; None without one."""
        pattern = self.specified[role].failed_line
        return None if pattern is None else self.programs[role].line_like(pattern)

    def note_left_running(self, role: Role, commands: list[str]) -> None:
        """Enter commands that were still running when the program that had started them ended."""
        self.left_running.setdefault(role, []).extend(commands)

    def record(self, role: Role) -> record.Side:
        """The side as the run's record has it."""
        program, side = self.programs.get(role), self.specified.get(role)
        return record.Side(
            command=side.command if side else [],
            card_rate_bps=float(side.card_rate_bps) if side and side.card_rate_bps else None,
            exit_status=program.wait(0) if program else None,
            stopped=role in self.stopped,
            left_running=self.left_running.get(role, []),
        )
