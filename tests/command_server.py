"""The process that the commands of `tests.commands` are forks of: DESCRIPTOR [DIRECTORY], one for the guest to
keep prepared."""

from __future__ import annotations

import gc
import importlib
import json
import os
import pkgutil
import signal
import socket
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import typer.main

from owlt.orchestrator import commands, sweep
from owlt.orchestrator.commands import cli
from owlt.orchestrator.kernel.kernel import find_kernel
from owlt.orchestrator.planning.estimate import SMALLEST_GUEST_MB
from owlt.orchestrator.rigs import guest
from owlt.orchestrator.rigs.provenance import provenance_of
from owlt.orchestrator.rigs.template import COPYING_S, Template
from owlt.orchestrator.run import launching
from owlt.reports import answer, comparison, page
from tests.commands import LONGEST_MESSAGE
from tests.typer_commands import make_commands_once


class _KeptTemplate(Template):
    """A template that ends with the process that has booted it, not with a command that makes copies of it."""

    @property
    def has_ended(self) -> bool:
        """Whether its guest runs no more."""
        return self.is_broken or not Path(f"/proc/{self._guest.pid}").exists()

    def close(self) -> None:
        """End the copies that this command has made."""
        for copy in self._copies:
            if copy.poll() is None:
                os.killpg(copy.pid, signal.SIGKILL)
                copy.wait(COPYING_S)


def keep_guest_prepared(directory: Path) -> None:
    """Boot the guest that most runs on the exact clock are copies of; forks of this process then use it."""
    kernel = find_kernel()
    if kernel is None or not kernel.templates:
        return
    guest.compile_ahead()
    cpu = min(os.sched_getaffinity(0))
    kept_boot = guest.Boot(kernel.path, "exact", cpu, SMALLEST_GUEST_MB, launching.SEED, kernel.seccomp)
    program = guest.python_command(launching.WORKER, guest.RIG_DIRECTORY, "--template")
    kept = _KeptTemplate(kept_boot, directory, program)

    def kept_or_new(boot: guest.Boot, place: Path, command: Sequence[str]) -> Template:
        is_kept = (boot, command) == (kept_boot, program) and not kept.has_ended
        return kept if is_kept else Template(boot, place, command)

    launching.Template = kept_or_new  # type: ignore[assignment,attr-defined]


def begin_ahead() -> None:
    """Do what commands do when they begin to work: import modules, and read the files that the provenance names."""
    make_commands_once()
    typer.main.get_command(cli.app)
    for package in (commands, sweep, answer, comparison, page):
        for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
            if module.name != "owlt.orchestrator.sweep.cluster":  # a thread of Dask starts with it
                importlib.import_module(module.name)
    provenance_of(None, {})
    gc.freeze()
    assert len(list(Path("/proc/self/task").iterdir())) == 1, "a fork would have only one of the threads"


def serve(requests: socket.socket) -> dict[str, Any] | None:
    """Fork for each request. Returns its content in the fork, and None in this process after the last one."""
    while True:
        content, files, *_ = socket.recv_fds(requests, LONGEST_MESSAGE, 2)
        if not content:
            return None
        pid = os.fork()
        if pid == 0:
            requests.close()
            for number, file in enumerate(files, start=1):
                os.dup2(file, number)
                os.close(file)
            return dict(json.loads(content))
        for file in files:
            os.close(file)
        requests.send(str(pid).encode())
        requests.send(str(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])).encode())


def become(request: dict[str, Any]) -> None:
    """Make this process the command of a request."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.sched_setaffinity(0, request["cpus"])
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    sys.argv = request["command"]


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # it reaches the command, too
    os.sched_setaffinity(0, range(os.cpu_count() or 1))  # a test may have a single core
    begin_ahead()
    for directory in sys.argv[2:]:
        keep_guest_prepared(Path(directory))
    request = serve(socket.socket(fileno=int(sys.argv[1])))
    if request is not None:
        become(request)
        cli.main()


if __name__ == "__main__":
    main()
