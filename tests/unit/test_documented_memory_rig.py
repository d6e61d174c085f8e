"""The example of a rig in memory in CONTRIBUTING.md runs."""

from __future__ import annotations

import re
from pathlib import Path

CONTRIBUTING = Path(__file__).parents[2] / "CONTRIBUTING.md"


def test_the_example_of_a_rig_in_memory_runs(tmp_path: Path) -> None:
    (example,) = re.findall(r"```python\n(from tests\.memory.*?)```", CONTRIBUTING.read_text(), re.DOTALL)

    exec(compile(example, str(CONTRIBUTING), "exec", dont_inherit=True), {"logs": tmp_path})
