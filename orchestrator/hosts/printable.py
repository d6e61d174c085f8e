"""What a program under test prints (output, file names, commands), made safe for a terminal or a page; how it ended.

A shell gives 128 + n for a program that signal n ended; Linux has signals 1 to 64, so 193 to 255 are the program's own
(POSIX, "Exit Status for Commands"; signal(7)). SSH gives -1 for any signal (RFC 4254, section 6.10, as paramiko reads
it), and subprocess -n.
"""

from __future__ import annotations

import re
import signal
import unicodedata

_STYLE = re.compile(r"\x1b\[[0-9;:]*m")
"""Sequences that only change colour or weight (SGR of ECMA-48)."""
_END_OF_LONG = re.compile(r"\s(?=\S)")


def unstyled(text: str) -> str:
    """The text without sequences that change its colour or weight."""
    return _STYLE.sub("", text)


def end_of(line: str, most: int) -> str:
    """The last `most` characters of a line, from the beginning of a word, after an ellipsis if it was cut."""
    if len(line) <= most:
        return line
    end = line[-most:]
    word = _END_OF_LONG.search(end[: most // 2])
    return "…" + (end[word.end() :] if word else end[1:])


def begin_of(line: str, most: int) -> str:
    """The first `most` characters of a line, with an ellipsis if it was cut."""
    return line if len(line) <= most else line[: most - 1] + "…"


def printable(text: str) -> str:
    r"""The text with everything that does not print as itself (controls, escapes, line ends) written as \x1b or \u202e.

    Sequences that only change colour or weight are removed. A tab becomes a space; spaces of other widths stay, such as
    those between the digits of a number. A backslash is not escaped: the text is for reading, not for parsing.
    """
    spaced = unstyled(text).replace("\t", " ")
    if spaced.isprintable():
        return spaced
    return "".join(each if _prints(each) else each.encode("unicode_escape").decode() for each in spaced)


def _prints(character: str) -> bool:
    return character.isprintable() or unicodedata.category(character) == "Zs"


def printable_lines(text: str) -> str:
    """The printable text with line ends kept: for messages of owlt that may contain text from others."""
    return "\n".join(map(printable, text.split("\n")))


BY_SIGNAL = -1
"""The exit status that paramiko reports for a program that a signal ended; which signal is unknown."""
SHELL_BASE, LAST_SIGNAL = 128, 64


def how_ended(status: int) -> str:
    """The end of a program, to follow its name: "exited with status 3", "exited with status 139, by SIGSEGV"."""
    if status == BY_SIGNAL:
        return "was killed by a signal"
    if status < 0:
        return f"was killed by {_signal_name(-status)}"
    by = f", by {_signal_name(status - SHELL_BASE)}" if SHELL_BASE < status <= SHELL_BASE + LAST_SIGNAL else ""
    return f"exited with status {status}{by}"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
