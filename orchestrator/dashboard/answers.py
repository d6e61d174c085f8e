"""The answer of a sweep so far: `owlt answer` in a process of its own, at the lowest priority and seldom.

It is computed while somebody looks, if runs were recorded since, at most once a minute, and so that all answers of a
results directory take at most SHARE_OF_TIME of a processor.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from owlt.orchestrator.dashboard.index import Snapshot

EVERY_S = 60.0
SHARE_OF_TIME = 0.02
LONGEST_S = 600.0


@dataclass(frozen=True)
class SoFar:
    """An answer in words. `headline` is "" if there is none, such as of one implementation."""

    headline: str
    certainty: str
    sureness: str
    criterion: str
    recorded: int
    """The runs that were recorded when it was computed."""


def owlt_answer(results: Path) -> list[str]:
    """`owlt answer RESULTS --json`, at the lowest priority."""
    return ["nice", "-n", "19", str(Path(sys.executable).with_name("owlt")), "answer", str(results), "--json"]


class Answers:
    """The latest answer of each results directory, until it is closed; one is computed at a time."""

    def __init__(
        self,
        command: Callable[[Path], Sequence[str]] = owlt_answer,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._command = command
        self._now_s = now_s
        self._latest: dict[Path, SoFar] = {}
        self._of_runs: dict[Path, int] = {}
        """The digest of the outcomes that the latest answer is computed from."""
        self._next_s: dict[Path, float] = {}
        self._lock = threading.Lock()
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="answer")
        self._process: subprocess.Popen[bytes] | None = None
        self._is_closed = False

    def of(self, results: Path, snapshot: Snapshot) -> SoFar | None:
        """The latest answer; None if there is none yet. Another one is begun if it is due."""
        with self._lock:
            if not self._is_closed and self._now_s() >= self._next_s.get(results, float("-inf")):
                outcomes = [(each.state.outcome, each.state.attempt) for each in snapshot.rows.values()]
                recorded = sum(outcome is not None for outcome, _ in outcomes)
                digest = hash((snapshot.plan_version, tuple(outcomes)))
                if recorded and digest != self._of_runs.get(results):
                    self._of_runs[results] = digest
                    self._next_s[results] = float("inf")  # until this one has ended
                    self._pool.submit(self._compute, results, recorded)
            return self._latest.get(results)

    def close(self) -> None:
        """End what is computed, and begin nothing more."""
        with self._lock:
            self._is_closed = True
            if self._process is not None:
                self._process.kill()
        self._pool.shutdown()

    def _compute(self, results: Path, recorded: int) -> None:
        began_s = self._now_s()
        try:
            answer = so_far(self._output(results), recorded)
        except (OSError, subprocess.SubprocessError):
            answer = so_far(b"", recorded)
        with self._lock:
            ended_s = self._now_s()
            self._latest[results] = answer
            self._next_s[results] = ended_s + max(EVERY_S, (ended_s - began_s) / SHARE_OF_TIME)

    def _output(self, results: Path) -> bytes:
        with self._lock:
            if self._is_closed:
                return b""
            process = self._process = subprocess.Popen(
                self._command(results),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        with process:
            try:
                return process.communicate(timeout=LONGEST_S)[0]
            except subprocess.TimeoutExpired:
                process.kill()
                raise


def so_far(output: bytes, recorded: int) -> SoFar:
    """The answer in the output of `owlt answer --json`, which is empty if it was refused."""
    try:
        value: dict[str, Any] = json.loads(output)
        headline, certainty, sureness, criterion = (
            str(value[name]) for name in ("headline", "certainty", "sureness", "criterion")
        )
    except (ValueError, LookupError, TypeError):
        return SoFar("", "", "", "", recorded)
    return SoFar(headline, certainty, sureness, criterion, recorded)
