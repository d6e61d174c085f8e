"""A template and its copies, with other programs in the place of guests."""

from __future__ import annotations

import io
import os
import select
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import pytest

from owlt.orchestrator.hosts.host import HostError
from owlt.orchestrator.rigs import template
from owlt.orchestrator.rigs.guest import Boot
from owlt.orchestrator.rigs.template import Template

BOOT = Boot(Path("linux"), "exact", 0, 768, 1, seccomp=True)
WITHOUT_MEMORY = r"printf '\1\0\0\0' >&0; dd bs=16 count=1 >/dev/null; printf '\364\377\377\377' >&0; cat >/dev/null"
"""Writes a process number, and the negative number of ENOMEM after a request."""


def shell_in_its_place(script: str) -> Callable[..., subprocess.Popen[str]]:
    def start(boot: Boot, directory: Path, init: str, stdin: IO[Any], stdout: IO[bytes]) -> subprocess.Popen[str]:
        command = ["sh", "-c", script]
        return subprocess.Popen(command, stdin=stdin.fileno(), stdout=stdout, text=True, start_new_session=True)

    return start


def open_descriptors() -> set[str]:
    return set(os.listdir("/proc/self/fd"))  # noqa: PTH208


def test_a_guest_that_cannot_be_started_is_an_error(tmp_path: Path) -> None:
    def start(*_: object) -> subprocess.Popen[str]:
        raise FileNotFoundError(2, "No such file or directory", "setpriv")

    with pytest.raises(HostError, match=r"the guest cannot be started: .*setpriv"):
        Template(BOOT, tmp_path, ["true"], start)


def test_a_guest_that_ends_before_it_is_a_template_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(HostError, match=r"it has ended.*its console ends: no memory for the rig"):
        Template(BOOT, tmp_path, ["true"], shell_in_its_place("echo no memory for the rig"))


def test_a_copy_that_fails_leaves_no_file_descriptors(tmp_path: Path) -> None:
    guest = Template(BOOT, tmp_path, ["true"], shell_in_its_place(WITHOUT_MEMORY))
    before = open_descriptors()

    try:
        with pytest.raises(HostError, match="Cannot allocate memory"):
            guest.copy(1, 0, tmp_path)
        assert open_descriptors() == before
        assert not guest.is_broken
    finally:
        guest.close()


def test_a_template_that_has_ended_is_broken(tmp_path: Path) -> None:
    guest = Template(BOOT, tmp_path, ["true"], shell_in_its_place(r"printf '\1\0\0\0' >&0"))

    try:
        with pytest.raises(HostError, match="the guest cannot be copied"):
            guest.copy(1, 0, tmp_path)
        assert guest.is_broken
    finally:
        guest.close()


def test_a_copy_that_has_ended_before_it_is_known_is_an_error() -> None:
    with subprocess.Popen(["true"]) as ended:
        ended.wait()

    with pytest.raises(HostError, match=f"the copy {ended.pid} of the guest ended at once"):
        template.Copy(ended.pid, io.StringIO(), io.StringIO())


def test_two_threads_can_learn_of_the_end_of_a_copy_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    copy = template.Copy(os.getpid(), io.StringIO(), io.StringIO())
    waits = 0

    def ended(handles: list[int], *_: object) -> tuple[list[int], list[int], list[int]]:
        nonlocal waits
        waits += 1
        if waits == 1:
            assert copy.poll() == 0  # the other thread, while this one waits
        return handles, [], []

    monkeypatch.setattr(select, "select", ended)

    assert copy.wait(1.0) == 0
    assert copy.poll() == 0


def test_the_handle_of_a_copy_is_closed_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    handle = os.open(os.devnull, os.O_RDONLY)
    monkeypatch.setattr(os, "pidfd_open", lambda _: handle)
    copy = template.Copy(os.getpid(), io.StringIO(), io.StringIO())

    del copy

    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(handle)
