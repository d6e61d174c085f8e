"""A mistake in a user's input: what is wrong, where, what was expected and how to fix it. A mistake is a value, made
where it is detected and passed on unchanged; `Mistake.__str__` alone puts it into words.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

Key = tuple[str | int, ...]
"""The way to a value in a document: ("sender", "command", 2)."""

LONGEST_TEXT, LONGEST_REPR = 200, 60
"""Characters of a value in a message: of a text, and of any other value."""


@dataclass(frozen=True)
class Place:
    """Where a mistake is. A part that is unknown or does not apply stays empty."""

    file: str = ""
    line: int | None = None
    key: Key = ()

    def __str__(self) -> str:
        file = f"{self.file}:{self.line}" if self.line is not None else self.file
        return ": ".join(part for part in (file, key_text(self.key)) if part)


@dataclass(frozen=True)
class Mistake:
    """One mistake. Without a `problem`, the value itself is wrong: the code that knows the value fills it in."""

    problem: str = ""
    expected: str = ""
    fix: str = ""
    where: Place = Place()

    def __str__(self) -> str:
        """FILE:LINE: KEY: PROBLEM, expected EXPECTED; FIX."""
        expected = f"expected {self.expected}" if self.expected else ""
        wrong = ", ".join(part for part in (self.problem, expected) if part)
        place = str(self.where)
        return "; ".join(part for part in (f"{place}: {wrong}" if place else wrong, self.fix) if part)

    @classmethod
    def of(cls, name: str, problem: str, expected: str = "", fix: str = "") -> Mistake:
        """A mistake that has a name instead of a place in a file: an option, a call, a port."""
        return cls(problem, expected, fix, Place(key=(name,)))

    def below(self, *key: str | int) -> Mistake:
        """The mistake with its key placed below `key`."""
        return replace(self, where=replace(self.where, key=(*key, *self.where.key)))

    def at(self, where: Place) -> Mistake:
        """The mistake at another place."""
        return replace(self, where=where)


class MistakeError(Exception):
    """Mistakes on their way to the user. Its text has a line for each; a text alone is a mistake at no place."""

    mistakes: tuple[Mistake, ...]

    def __init__(self, *mistakes: Mistake | str) -> None:
        self.mistakes = tuple(Mistake(each) if isinstance(each, str) else each for each in mistakes)
        super().__init__(*self.mistakes)

    def __str__(self) -> str:
        return "\n".join(map(str, self.mistakes))


class OwltError(MistakeError):
    """Mistakes that the user can fix: the command ends with their text."""


class ResultsConflict(OwltError):
    """A results directory that holds something other than what is specified."""


class Invalid(MistakeError, ValueError):
    """Raised by code that checks a value; the keys of the mistakes count from that value."""


def unexpected(expected: str, fix: str = "") -> Invalid:
    """The error of a value that is not as expected: `raise unexpected("a number", fix="leave out the unit")`."""
    return Invalid(Mistake(expected=expected, fix=fix))


def got(value: object) -> str:
    """The problem of a mistake whose value is wrong: the value as it was written, a long one cut."""
    return f"got {shown(value)}"


def shown(value: object) -> str:
    """A value as YAML has it; a long one is cut."""
    if value is None or isinstance(value, bool):
        return "nothing" if value is None else str(value).lower()
    try:
        text = repr(value)
    except RecursionError:
        return "a value that is nested too deeply"
    longest = LONGEST_TEXT if isinstance(value, str) else LONGEST_REPR
    return text if len(text) <= longest else f"{text[:longest]}…"


LEAST_LIKENESS = 0.65
"""The least similarity of a suggestion, by difflib: "lpt" and "ltp" have 0.67; "completion" and "implementations"
0.64."""


def nearest(name: str, known: Collection[str]) -> str | None:
    """The known name that begins with an unknown one, or is spelled much alike; None if there is none.

    Capital letters and the hyphens of options make no difference.
    """
    from difflib import get_close_matches

    bare = {each.strip("-").lower(): each for each in known}
    word = name.strip("-").lower()
    near = [each for each in bare if word and each.startswith(word)]
    near = near or get_close_matches(word, bare, n=1, cutoff=LEAST_LIKENESS)
    return bare[near[0]] if near else None


def did_you_mean(name: str, known: Collection[str], otherwise: str = "") -> str:
    """How to fix an unknown name: the nearest of those known; without one, `otherwise`."""
    near = nearest(name, known)
    return f"did you mean {near}?" if near else otherwise


def not_one_of(name: str, known: Collection[str], others: str = "") -> Mistake:
    """The mistake in a name that is none of those known, with the nearest; `others`: what else is possible."""
    return Mistake(got(name), f"one of {', '.join(known)}{others}", did_you_mean(name, known))


def key_text(key: Key) -> str:
    """sender.command[2] for ("sender", "command", 2)."""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in key)
    return text.removeprefix(".")


@contextmanager
def keys_below(*key: str | int) -> Iterator[None]:
    """Puts `key` in front of the keys of every mistake that is raised within."""
    try:
        yield
    except Invalid as error:
        raise Invalid(*(mistake.below(*key) for mistake in error.mistakes)) from error
