"""What a run has come to know so far, and how it can end before its last phase."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Any

from orchestrator.host import Program
from orchestrator.record import Outcome, Side


class Ended(Exception):
    """A run that ended early, with the outcome and the reason that its record will give."""

    def __init__(self, outcome: Outcome, reason: str) -> None:
        super().__init__(reason)
        self.outcome = outcome
        self.reason = reason


@dataclass
class Findings:
    """What a run has come to know so far: the record in the making."""

    facts: dict[str, Any] = field(default_factory=dict)
    suspect: list[str] = field(default_factory=list)
    programs: dict[str, Program] = field(default_factory=dict)
    commands: dict[str, list[str]] = field(default_factory=dict)
    stopped: set[str] = field(default_factory=set)
    news: threading.Condition = field(default_factory=threading.Condition)

    def side(self, role: str) -> Side:
        """What is known of the program on one host."""
        program = self.programs.get(role)
        return Side(
            command=self.commands.get(role, []),
            exit_status=program.wait(0) if program else None,
            stopped=role in self.stopped,
        )
