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

from owlt.inputs.mistake import OwltError as OwltError
from owlt.inputs.mistake import did_you_mean as did_you_mean


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
