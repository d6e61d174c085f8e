"""Text from a program under test (output, file names, commands), made safe for a terminal or a page."""

from __future__ import annotations


def printable(text: str) -> str:
    r"""The text with everything that does not print as itself (controls, escapes, line ends) written as \x1b or \u202e.

    A tab becomes a space. A backslash stays: the text is for reading, not for parsing.
    """
    spaced = text.replace("\t", " ")
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in spaced)
