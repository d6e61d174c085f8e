"""What a build chose is shown without doing anything to the terminal."""

from __future__ import annotations

import pytest

from owlt.orchestrator.commands.output import Printer
from owlt.orchestrator.hosts.printable import begin_of, end_of, printable, printable_lines

ESCAPES = "\x1b]0;owned\x07\x1b[2J\r\x9b31m\u202e"


def test_plain_text_stays() -> None:
    assert printable("Übertragung of 7 bytes: \\ok") == "Übertragung of 7 bytes: \\ok"


def test_escapes_and_controls_are_written_out() -> None:
    assert printable("\x1b[2J\x07\r\n\x9b31m") == r"\x1b[2J\x07\r\n\x9b31m"


def test_colours_are_removed() -> None:
    assert printable("\x1b[2m2026-11-26\x1b[0m \x1b[1;31mERROR\x1b[m") == "2026-11-26 ERROR"


def test_the_end_of_a_long_line_begins_with_a_word_and_an_ellipsis() -> None:
    assert end_of("the receiver has no room", 12) == "…has no room"
    assert end_of("the receiver has no room", 14) == "…has no room"
    assert end_of("the receiver has no room", 24) == "the receiver has no room"


def test_the_beginning_of_a_long_line_ends_with_an_ellipsis() -> None:
    assert (begin_of("receiver", 8), begin_of("receivers", 8)) == ("receiver", "receive…")


def test_marks_that_turn_the_reading_order_are_written_out() -> None:
    assert printable("a\u202eb") == r"a\u202eb"


def test_the_spaces_between_the_digits_of_a_number_stay() -> None:
    assert printable("9\u202f680 bytes\x1b") == "9\u202f680 bytes\\x1b"


def test_a_tab_is_a_space() -> None:
    assert printable("libnorm1:amd64\t1.5.9") == "libnorm1:amd64 1.5.9"


def test_messages_keep_their_line_ends_and_no_other_control_characters() -> None:
    assert printable_lines("one\x1b[2J\ntwo\r\x9b3m") == "one\\x1b[2J\ntwo\\r\\x9b3m"


@pytest.mark.parametrize("as_json", [False, True])
def test_the_output_of_a_command_has_no_control_characters_from_results(
    capsys: pytest.CaptureFixture[str], as_json: bool
) -> None:
    printer = Printer(as_json)
    printer.text(f"reason: {ESCAPES}")
    printer.note(f"title: {ESCAPES}")
    printer.table(("name", "value"), [(f"a{ESCAPES}", f"b{ESCAPES}")])
    printer.keys({"title": ESCAPES})
    printer.json({"title": ESCAPES})

    written = "".join(capsys.readouterr())
    assert "title" in written
    assert not {each for each in written if each != "\n" and not each.isprintable()}
