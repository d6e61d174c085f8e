"""SIGHUP, which programs get when their terminal is closed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

OWLT = Path(sys.executable).with_name("owlt")


@pytest.mark.parametrize(
    ("before", "status"), [(["env", "--default-signal=HUP"], 130), (["nohup"], 2)], ids=["plain", "nohup"]
)
def test_a_closed_terminal_ends_a_command_as_ctrl_c_does_but_not_under_nohup(
    tmp_path: Path, before: list[str], status: int
) -> None:
    """The command reads a sweep from a FIFO; under nohup it continues to read, and refuses the content."""
    fifo = tmp_path / "sweep.yaml"
    os.mkfifo(fifo)
    with subprocess.Popen([*before, OWLT, "plan", fifo], stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as program:
        with fifo.open("wb", buffering=0) as sweep:  # it has opened the FIFO, and reads
            program.send_signal(signal.SIGHUP)
            if before == ["nohup"]:
                sweep.write(b"no: sweep\n")
            else:
                assert program.wait(60) == status
        assert program.wait(60) == status


def test_a_worker_that_waits_for_its_scheduler_ends_without_a_traceback() -> None:
    command = [OWLT, "worker", "--scheduler", "tcp://127.0.0.1:1"]  # nothing listens there
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as worker:
        assert worker.stdout is not None
        shown = worker.stdout.readline()  # that it waits
        worker.send_signal(signal.SIGTERM)
        shown += worker.stdout.read()

        assert worker.wait(60) in (0, 130, 143)
    assert "there is no scheduler" in shown
    assert "Traceback" not in shown
