"""The templates of a sweep: guests with the rig raised, one for each size of memory, whose copies are the workers."""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from pathlib import Path

from owlt.orchestrator.hosts.host import HostError
from owlt.orchestrator.kernel.kernel import Kernel
from owlt.orchestrator.planning.plan import Plan
from owlt.orchestrator.process_directory import process_directory
from owlt.orchestrator.rigs import guest
from owlt.orchestrator.rigs.template import Copy, Template
from owlt.orchestrator.workers.events import RigFailed, event_in
from owlt.orchestrator.workers.process import WorkerHung, WorkerProcess
from owlt.orchestrator.workers.task import write_survey
from owlt.orchestrator.workers.versions import VERSION_S, read_versions

WORKER = "owlt.orchestrator.workers"
SEED = 1
"""Templates of one size are the same in every sweep."""
SURVEY_HANG_S = 120.0
"""How long a survey may be silent in wall time, beside the time limits of its programs: one that computes without end
stops the exact clock, and with it those limits."""


class Templates:
    """Templates, prepared when they are needed first. Not safe for use by several threads at once."""

    def __init__(self, plan: Plan, kernel: Kernel, cpu: int, smallest_mb: int) -> None:
        self._plan = plan
        self._kernel = kernel
        self._cpu = cpu
        self._smallest_mb = smallest_mb
        self._templates: dict[int, Template] = {}
        self._versions: dict[str, str] | None = None
        self._end = ExitStack()
        self._directory = self._end.enter_context(process_directory("templates"))

    def copy(self, memory_mb: int, seed: int, cpu: int, directory: Path) -> Copy:
        """A copy of the template of this size, in `directory`. A template that is broken is replaced, with its copies.

        Raises HostError if a guest cannot be prepared or copied.
        """
        template = self._templates.get(memory_mb)
        if template is not None and template.is_broken:
            template.close()
            template = None
        return (template or self._prepared(memory_mb)).copy(seed, cpu, directory)

    def versions(self) -> dict[str, str]:
        """The versions of the plan's implementations, from their programs in a copy of the smallest template."""
        if self._versions is None:
            directory = Path(tempfile.mkdtemp(prefix="survey-", dir=self._directory))
            write_survey(self._plan, directory)
            reason = self._survey(directory)
            try:
                self._versions = read_versions(directory)
            except (OSError, ValueError) as problem:
                raise HostError(f"the versions of the implementations are not known: {reason}") from problem
        return self._versions

    def _survey(self, directory: Path) -> str:
        """Perform the survey in a directory. Returns why it may have failed."""
        worker = WorkerProcess(self.copy(self._smallest_mb, SEED, self._cpu, directory))
        limit_s = SURVEY_HANG_S + VERSION_S * len(self._plan.implementations)
        lines: list[str] = []
        try:
            lines.extend(worker.lines(lambda: limit_s))
        except WorkerHung as hang:
            return str(hang)
        finally:
            worker.end()
        failures = [event.reason for line in lines if isinstance(event := event_in(line), RigFailed)]
        return " / ".join(failures or [line.strip() for line in lines[-5:]])

    def close(self) -> None:
        """End them, and with them all copies."""
        for template in self._templates.values():
            template.close()
        self._end.close()

    def _prepared(self, memory_mb: int) -> Template:
        boot = guest.Boot(self._kernel.path, self._plan.sweep.clock, self._cpu, memory_mb, SEED, self._kernel.seccomp)
        directory = Path(tempfile.mkdtemp(prefix=f"{memory_mb}MB-", dir=self._directory))
        command = guest.python_command(WORKER, guest.RIG_DIRECTORY, "--template")
        self._templates[memory_mb] = Template(boot, directory, command)
        return self._templates[memory_mb]
