"""What can go wrong between a user and a sweep, by who must act.

OwltError              the base: the command ends with status 2 and this text; nothing was changed
├── ProfileError       a file the user wrote: names the file, the key, what it has and what was wanted
├── Missing            something this machine lacks: names it and the command that mends it
└── ResultsConflict    a results directory that belongs to another sweep

A run that ends badly is not an error but a record: see `orchestrator.record`.
"""


class OwltError(Exception):
    """A mistake or a lack that the user can mend; its text says how."""


class ProfileError(OwltError):
    """A profile that cannot be used as written."""


class Missing(OwltError):
    """A program, package, kernel or permission that is not there."""


class ResultsConflict(OwltError):
    """A results directory that holds something other than what is asked for."""
