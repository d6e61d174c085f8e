"""A run that is performed again from its page: the button in chromium, `owlt retry` in a guest, the new record."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.chromium import CHROMIUM, MISSING, browser
from tests.commands import WITHOUT_PATIENCE
from tests.conftest import require
from tests.system.sweeps import differences, perform, records

OWLT = Path(sys.executable).with_name("owlt")
PATIENCE_S = 300.0


@contextmanager
def dashboard(results: Path) -> Iterator[tuple[str, str]]:
    """A dashboard of a results directory: its address, and the one that has the token."""
    command = [str(OWLT), "dashboard", str(results), "--port", "0"]
    environment = WITHOUT_PATIENCE | os.environ
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as program:
        assert program.stdout is not None
        addresses = [re.search(r"http://\S+", program.stdout.readline()) for _ in range(2)]
        assert addresses[0] and addresses[1]
        try:
            yield addresses[0][0], addresses[1][0]
        finally:
            program.terminate()


def test_run_again_performs_the_run_and_its_page_shows_the_new_record(tmp_path: Path, guest_kernel: object) -> None:
    require(CHROMIUM, MISSING)
    results = tmp_path / "small"
    assert perform(tmp_path, results).returncode == 0
    [run_id] = records(results)
    run = results / "runs" / run_id
    before = shutil.copytree(run, tmp_path / "before")

    with dashboard(results) as (url, with_token), browser(tmp_path / "chromium") as new_page:
        page = new_page()
        page.call("Page.navigate", url=with_token)
        page.wait_for("location.search === '' && document.readyState === 'complete'")
        page.open(f"{url}sweeps/small/runs/{run_id}/")
        page.evaluate("[...document.querySelectorAll('button')].find(each => each.textContent === 'Run again').click()")
        page.wait_for("document.querySelector('#retry')?.textContent.includes('has been performed again')", PATIENCE_S)
        page.evaluate("(window.isOld = true, document.querySelector('#retry a').click())")
        page.wait_for("!window.isOld && document.querySelector('.counts')?.textContent.includes('completed')")
        messages = page.messages

    [kept] = (results / "attempts" / run_id).glob("*/record.json")
    assert kept.read_bytes() == (before / "record.json").read_bytes()
    assert differences(before, run) == ["attempt: 1 and 2", "earlier_attempts: [] and ['completed']"]
    assert messages == []
