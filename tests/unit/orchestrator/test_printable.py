"""What a build chose is shown without doing anything to the terminal."""

from __future__ import annotations

from orchestrator.hosts.printable import printable


def test_plain_text_stays() -> None:
    assert printable("Übertragung of 7 bytes: \\ok") == "Übertragung of 7 bytes: \\ok"


def test_escapes_and_controls_are_written_out() -> None:
    assert printable("\x1b[2J\x07\r\n\x9b31m") == r"\x1b[2J\x07\r\n\x9b31m"


def test_marks_that_turn_the_reading_order_are_written_out() -> None:
    assert printable("a\u202eb") == r"a\u202eb"


def test_a_tab_is_a_space() -> None:
    assert printable("libnorm1:amd64\t1.5.9") == "libnorm1:amd64 1.5.9"
