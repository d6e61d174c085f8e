"""Errors between a user and a sweep, by who must act.

OwltError              the base: the command ends with status 2 and this text; nothing was changed
├── ProfileError       a file that the user wrote: its mistakes, each with file, line and key
│   ├── NotFound       a name that no profile has
│   ├── NoSuchFile     a path where there is no file
│   └── SweepMistake   mistakes by the keys of a sweep; the code that knows the file adds file and line
├── Missing            something that is missing on this machine, and how to get it
└── ResultsConflict    a results directory that belongs to another sweep

A run that ends badly is not an error but a record: see `results.record`.
"""

from collections.abc import Collection
from difflib import get_close_matches

from owlt.inputs.mistake import OwltError as OwltError

LEAST_LIKENESS = 0.65
"""The least similarity of a suggestion, by difflib: "lpt" and "ltp" have 0.67; "completion" and "implementations"
0.64."""


class ProfileError(OwltError):
    """A profile that cannot be used as written."""


class NotFound(ProfileError):
    """A name that no profile of its kind has."""


class NoSuchFile(ProfileError):
    """A path where there is no file."""


class SweepMistake(ProfileError):
    """Something that a sweep specifies and that is not possible."""


class Missing(OwltError):
    """A program, package, kernel or permission that is not there."""


def did_you_mean(name: str, known: Collection[str], otherwise: str) -> str:
    """How to fix an unknown name: one that begins with it, or one that is spelled much alike; else `otherwise`."""
    bare = {each.strip("-"): each for each in known}
    word = name.strip("-")
    near = [each for each in bare if word and each.startswith(word)]
    near = [bare[each] for each in near or get_close_matches(word, bare, n=1, cutoff=LEAST_LIKENESS)]
    return f"did you mean {near[0]}?" if near else otherwise
