"""What a host must have before a run (programs, files, modules, libraries), and whether this host has it."""

from __future__ import annotations

import ctypes
import importlib.util
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Self

from pydantic import Field, field_validator, model_validator

from owlt.agents.contract.side import Text, Value, one_of
from owlt.inputs.mistake import Invalid, Mistake, unexpected

EMPTY_IN_RUNS = ("/tmp", "/var/tmp", "/dev/shm")
"""Directories of which each run has its own, in memory."""
ELSEWHERE = "for example to ~/.cache/owlt/third-party/NAME/bin: {third_party}/NAME/bin"
"""Where a program can be that is in one of them, and how a profile names this place."""


class Binary(Value):
    """A program that is not part of owlt, and where to find it on each host: names on PATH, or absolute paths."""

    search: Annotated[
        list[Text],
        Field(
            min_length=1,
            description="names, looked for on PATH, and absolute paths, in this order; may hold {third_party}",
        ),
    ]
    fix: Annotated[Text, Field(description="how to install it: a command or a sentence")]

    @field_validator("search")
    @classmethod
    def _check_names_or_absolute_paths(cls, places: list[str]) -> list[str]:
        for place in places:
            if "/" in place and not place.startswith(("/", "{")):
                raise Invalid(Mistake(f"got {place!r}", "a name, to be found on PATH, or an absolute path"))
        if all(place.startswith(tuple(f"{each}/" for each in EMPTY_IN_RUNS)) for place in places):
            fix = f"move the program, {ELSEWHERE} here"
            expected = f"a path not below {', '.join(EMPTY_IN_RUNS)}, which are empty in a run"
            raise Invalid(Mistake(f"got {places[0]!r}", expected, fix))
        return places


class Need(Value):
    """Something a host must have, and the command that installs it. Exactly one of the four kinds."""

    model_config = one_of("file", "command", "python_module", "library")

    file: Text | None = Field(default=None, description="an absolute path")
    command: Text | None = Field(default=None, description="a program on PATH")
    python_module: Text | None = Field(default=None, description="importable by the Python that runs owlt")
    library: Text | None = Field(default=None, description="a shared library by its soname, such as libnorm.so.1")
    fix: Annotated[Text, Field(description="the command that installs it")]

    @model_validator(mode="after")
    def _check_one_kind(self) -> Self:
        things = (self.file, self.command, self.python_module, self.library)
        if sum(thing is not None for thing in things) != 1:
            raise unexpected("exactly one of file, command, python_module, library")
        return self


def unmet(needs: Iterable[Need]) -> list[Need]:
    """The needs that this host does not meet, in the order given. `need.fix` is the command that installs one."""
    return [need for need in needs if not _is_met(need)]


def _is_met(need: Need) -> bool:
    if need.file is not None:
        return Path(need.file).exists()
    if need.command is not None:
        return shutil.which(need.command) is not None
    if need.python_module is not None:
        return importlib.util.find_spec(need.python_module) is not None
    return need.library is not None and _loads(need.library)


def _loads(soname: str) -> bool:
    try:
        ctypes.CDLL(soname)
    except OSError:
        return False
    return True
