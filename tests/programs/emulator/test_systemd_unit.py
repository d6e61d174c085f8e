"""The systemd unit: what systemd says of it, and what it asks of the program."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path

from owlt.emulator.__main__ import _parser
from tests.conftest import require_command

UNIT = Path(__file__).parents[3] / "emulator" / "service" / "owlt-emulator.service"


def command(name: str) -> list[str]:
    """The options of a command line, but for those that are anybody's choice."""
    (line,) = re.findall(f"^{name}=(.*)$", UNIT.read_text(), re.MULTILINE)
    words = shlex.split(line)
    assert words[:4] == ["/usr/bin/env", "${OWLT_PYTHON}", "-m", "owlt.emulator"]
    return [word for word in words[4:] if word != "$OWLT_OPTIONS"]


def test_systemd_finds_nothing_wrong() -> None:
    done = subprocess.run(
        [require_command("systemd-analyze"), "verify", str(UNIT)], capture_output=True, text=True, check=False
    )

    assert (done.returncode, done.stderr) == (0, "")


def test_the_program_takes_what_the_unit_starts_it_with() -> None:
    options = _parser().parse_args(command("ExecStart"))

    assert options.listen == "${OWLT_LISTEN}"
    assert str(options.token_file) == "${CREDENTIALS_DIRECTORY}/token"


def test_the_unit_clears_the_ports_that_it_serves() -> None:
    served, cleared = (_parser().parse_args(command(name)) for name in ("ExecStart", "ExecStopPost"))

    assert cleared.clear
    assert (cleared.sender_port, cleared.receiver_port) == ("${OWLT_SENDER_PORT}", "${OWLT_RECEIVER_PORT}")
    assert served.sender_port == cleared.sender_port


def test_every_setting_is_explained() -> None:
    text = UNIT.read_text()
    used = set(re.findall(r"\$\{?(OWLT_[A-Z_]+)", text))

    assert used == set(re.findall(r"^#   (OWLT_[A-Z_]+) ", text, re.MULTILINE))
