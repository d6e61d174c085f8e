"""The process that the commands of `tests.commands` are forks of: DESCRIPTOR [--prepared]."""

from __future__ import annotations

import gc
import importlib
import json
import os
import pkgutil
import shutil
import signal
import socket
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any

import typer.main

from owlt.orchestrator import commands, sweep
from owlt.orchestrator.commands import cli
from owlt.orchestrator.kernel.kernel import find_kernel
from owlt.orchestrator.planning.estimate import SMALLEST_GUEST_MB
from owlt.orchestrator.rigs import guest
from owlt.orchestrator.rigs.provenance import provenance_of
from owlt.orchestrator.rigs.template import Template
from owlt.orchestrator.run import launching
from owlt.reports import answer, comparison, page
from tests.commands import LONGEST_MESSAGE
from tests.typer_commands import make_commands_once


class _KeptTemplate(Template):
    """A template that ends with the process that has booted it, not with a command that makes copies of it."""

    def close(self) -> None:
        """End the copies that this command has made."""
        for copy in self._copies:
            with suppress(ProcessLookupError):
                os.killpg(copy.pid, signal.SIGKILL)


def keep_guest_prepared(directory: Path) -> None:
    """Boot the guest that most runs on the exact clock are copies of; forks of this process then use it."""
    kernel = find_kernel()
    if kernel is None or not kernel.templates:
        return
    guest.compile_ahead()
    cpu = min(os.sched_getaffinity(0))
    kept_boot = guest.Boot(kernel.path, "exact", cpu, SMALLEST_GUEST_MB, launching.SEED, kernel.seccomp)
    prepare = launching.prepare
    kept = prepare(kept_boot, directory, _KeptTemplate)

    def kept_or_prepared(boot: guest.Boot, place: Path) -> Template:
        return kept if boot == kept_boot and not kept.is_broken else prepare(boot, place)

    launching.prepare = kept_or_prepared


def begin_ahead() -> None:
    """Do what commands do when they begin to work: import modules, and read the files that the provenance names."""
    make_commands_once()
    typer.main.get_command(cli.app)
    for name in [name for package in (commands, sweep, answer, comparison, page) for name in _modules(package)]:
        if name != "owlt.orchestrator.sweep.cluster":  # a thread of Dask starts with it
            importlib.import_module(name)
    provenance_of(None, {})
    gc.freeze()


def _modules(package: ModuleType) -> Iterator[str]:
    return (each.name for each in pkgutil.iter_modules(package.__path__, f"{package.__name__}."))


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


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # it reaches the command, too
    directory = Path(tempfile.mkdtemp(prefix="owlt-test-commands-"))
    begin_ahead()
    if "--prepared" in sys.argv:
        keep_guest_prepared(directory)
    request = serve(socket.socket(fileno=int(sys.argv[1])))
    if request is None:
        shutil.rmtree(directory)
        return
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    sys.argv = request["command"]
    cli.main()


if __name__ == "__main__":
    main()
