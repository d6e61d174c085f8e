"""The end of a start of a sweep, announced to a command of the user: mail, chat, a desktop notification."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from owlt.orchestrator.errors import OwltError
from owlt.orchestrator.status.reading import read_state
from owlt.orchestrator.status.state import Counts

HOOK_LIMIT_S = 60.0
MOST_CHARACTERS = 10_000
"""Of an environment variable; the kernel refuses to start a program with longer ones."""
HOOK_VARIABLE = "OWLT_ON_END"
"""The command, if it is not given as an option."""
ANNOUNCED = ("planned", "completed", "failed", "unsupported", "quarantined", "aborted", "suspect", "waiting")


@dataclass(frozen=True)
class Ending:
    """How a start of a sweep ended."""

    results: Path
    sweep: str
    exit_status: int
    summary: str
    """A paragraph; after an error, its message."""
    report: Path | None = None
    counts: Counts | None = None
    """None if the results directory has no plan."""

    @property
    def values(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            "results": str(self.results.resolve()),
            "sweep": self.sweep,
            "exit_status": self.exit_status,
            "summary": self.summary,
            "report": str(self.report.resolve()) if self.report else None,
            "counts": asdict(self.counts) if self.counts else None,
        }

    @property
    def variables(self) -> dict[str, str]:
        """As environment variables."""
        named = {f"OWLT_{name.upper()}": value for name, value in self.values.items() if name != "counts"}
        counted = {f"OWLT_RUNS_{name.upper()}": getattr(self.counts, name) for name in ANNOUNCED if self.counts}
        return {
            name: "" if value is None else str(value)[:MOST_CHARACTERS] for name, value in {**named, **counted}.items()
        }


def counts_of(results: Path) -> Counts | None:
    """The counts of a results directory; None if they cannot be read."""
    try:
        return read_state(results).counts
    except (OwltError, OSError):
        return None


def run_hook(command: str, ending: Ending, limit_s: float = HOOK_LIMIT_S) -> str:
    """Run a command of the user in a shell, with the ending in its environment and as JSON on its standard input.

    At the time limit all its processes are ended. Returns why it failed, "" if it did not.
    """
    try:
        shell = subprocess.Popen(
            command,
            shell=True,
            env={**os.environ, **ending.variables},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,
        )
    except OSError as problem:
        return str(problem.strerror)
    with shell:
        try:
            output, errors = shell.communicate(json.dumps(ending.values, indent=2) + "\n", limit_s)
        except BaseException as problem:
            with suppress(ProcessLookupError):
                os.killpg(shell.pid, signal.SIGKILL)
            if isinstance(problem, subprocess.TimeoutExpired):
                return f"did not finish within {limit_s:g} s"
            raise
    if shell.returncode == 0:
        return ""
    lines = (errors or output).strip().splitlines()
    return f"exit status {shell.returncode}" + (f": {lines[-1]}" if lines else "")
