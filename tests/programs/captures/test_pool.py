"""Processes that share work end with the one that started them, and yield to others if their priority is low."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from owlt.captures.pool import processes

PARENT = """\
import os, time
from owlt.captures.pool import processes
if __name__ == "__main__":
    with processes(1) as pool:
        print(pool.submit(os.getpid).result(), flush=True)
        pool.submit(time.sleep, 600).result()
"""


def test_they_end_when_it_is_killed(tmp_path: Path) -> None:
    program = tmp_path / "parent.py"
    program.write_text(PARENT)
    env = os.environ | {"PYTHONPATH": str(Path(__file__).parents[3])}
    parent = subprocess.Popen([sys.executable, str(program)], stdout=subprocess.PIPE, text=True, env=env)
    assert parent.stdout is not None
    worker = Path("/proc", parent.stdout.readline().strip())
    assert worker.exists()

    parent.kill()
    parent.wait()
    parent.stdout.close()

    end = time.monotonic() + 60
    while worker.exists() and time.monotonic() < end:
        time.sleep(0.05)
    assert not worker.exists()


def test_a_process_of_low_priority_yields_to_others() -> None:
    with processes(1, "low") as pool:
        assert pool.submit(os.getpriority, os.PRIO_PROCESS, 0).result() >= os.getpriority(os.PRIO_PROCESS, 0) + 10


INTERRUPTED = """\
import os, signal, time
from owlt.captures.pool import processes
if __name__ == "__main__":
    signal.signal(signal.SIGINT, lambda *_: None)
    with processes(1) as pool:
        first = pool.submit(os.getpid)
        for _ in range(50):
            os.killpg(0, signal.SIGINT)
            time.sleep(0.01)
        print(first.result() > 0)
    print(sorted(signal.pthread_sigmask(signal.SIG_BLOCK, ())))
"""


def test_ctrl_c_does_not_reach_them_from_their_beginning_on(tmp_path: Path) -> None:
    program = tmp_path / "parent.py"
    program.write_text(INTERRUPTED)
    env = os.environ | {"PYTHONPATH": str(Path(__file__).parents[3])}
    done = subprocess.run(
        [sys.executable, str(program)], capture_output=True, text=True, env=env, start_new_session=True, check=True
    )

    assert (done.stdout.split("\n"), done.stderr) == (["True", "[]", ""], "")


WITHOUT_GUARD = """\
import sys
from owlt.captures.pool import processes
main = sys.modules["__main__"]
print("started")
with processes(1) as pool:
    print(pool.submit(abs, -1).result())
print(sys.modules["__main__"] is main)
"""


def test_they_do_not_start_the_script_again_that_uses_them(tmp_path: Path) -> None:
    program = tmp_path / "script.py"
    program.write_text(WITHOUT_GUARD)
    env = os.environ | {"PYTHONPATH": str(Path(__file__).parents[3])}
    done = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, env=env, check=False)

    assert (done.stdout, done.stderr) == ("started\n1\nTrue\n", "")
