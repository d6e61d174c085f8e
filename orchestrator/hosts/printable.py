"""Text from a program under test (output, file names, commands), made safe for a terminal or a page."""

from __future__ import annotations


def printable(text: str) -> str:
    r"""The text with everything that does not print as itself (controls, escapes, line ends) written as \x1b or \u202e.

    A tab becomes a space. A backslash stays: the text is for reading, not for parsing.
    """
    spaced = text.replace("\t", " ")
    if spaced.isprintable():
        return spaced
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in spaced)


def printable_lines(text: str) -> str:
    """The same, of which the line ends stay: for the messages of owlt, in which text of others may be."""
    return "\n".join(map(printable, text.split("\n")))
