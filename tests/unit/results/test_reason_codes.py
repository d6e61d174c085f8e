"""The codes of reasons."""

from __future__ import annotations

import re
from pathlib import Path

from owlt.results.record import ReasonCode

DOCUMENT = Path(__file__).parents[3] / "docs" / "implementations.md"


def test_every_code_is_documented_and_no_other() -> None:
    section = DOCUMENT.read_text().partition("\n### Reason codes\n")[2].partition("\n#")[0]
    cells = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]

    assert re.findall(r"`(\w+)`", "".join(cells)) == [str(code) for code in ReasonCode]
