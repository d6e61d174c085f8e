"""What can go wrong between a user and a sweep, by who must act.

OwltError              the base: the command ends with status 2 and this text; nothing was changed
├── ProfileError       a file the user wrote: names the file, the key, what it has and what was wanted
│   ├── NotFound       a name that no profile has
│   ├── NoSuchFile     a path where no file is
│   └── SweepMistake   each line begins with a key of the sweep; who knows its file puts that in front
├── Missing            something this machine lacks: names it and the command that mends it
└── ResultsConflict    a results directory that belongs to another sweep

A run that ends badly is not an error but a record: see `orchestrator.record`.
"""

from collections.abc import Collection
from difflib import get_close_matches


class OwltError(Exception):
    """A mistake or a lack that the user can mend; its text says how."""


class ProfileError(OwltError):
    """A profile that cannot be used as written."""


class NotFound(ProfileError):
    """A name that no profile of its kind has; `next_step` says which was meant, or what lists them."""

    def __init__(self, kind: str, name: str, next_step: str) -> None:
        super().__init__(f"{kind} {name!r}: not found; {next_step}")
        self.next_step = next_step


class NoSuchFile(ProfileError):
    """A path where no file is; its text has the whole of it."""


class SweepMistake(ProfileError):
    """What a sweep asks for and cannot have."""


class Missing(OwltError):
    """A program, package, kernel or permission that is not there."""


class ResultsConflict(OwltError):
    """A results directory that holds something other than what is asked for."""


def did_you_mean(name: str, known: Collection[str], otherwise: str) -> str:
    """The next step after a name that is not known: one that begins so, or the nearest, or what `otherwise` says."""
    near = [each for each in known if each.startswith(name)] or get_close_matches(name, known, n=1)
    return f"did you mean {near[0]}?" if near else otherwise
