"""A third-party build as data: what it is called, where it comes from, which programs it leaves.

Values only. Reading them from YAML is `load`, where they go is `places`, getting them is `installing`.
"""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

Text = Annotated[str, Field(min_length=1)]
Version = Annotated[str, Field(pattern=r"^\d+(\.\d+)*$")]


class _Value(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Debian(_Value):
    """Packages of the distribution. Their programs are on the path, and the newest version is taken.

    `services` come with them and would listen on the network: they are switched off.
    """

    kind: Literal["debian"]
    packages: Annotated[list[Text], Field(min_length=1)]
    services: list[Text] = []


class Cargo(_Value):
    """A crate, compiled with the versions of its own lock file."""

    kind: Literal["cargo"]
    crate: Text
    version: Version
    minimum_rust: Version


class Go(_Value):
    """Programs of one Go module at one version."""

    kind: Literal["go"]
    packages: Annotated[list[Text], Field(min_length=1)]
    version: Annotated[str, Field(pattern=r"^v\d+\.\d+\.\d+")]
    minimum_go: Version


class Script(_Value):
    """A script of this project, which is given the directory to install into and leaves DIRECTORY/bin."""

    kind: Literal["script"]
    script: Text
    version: Text


class Build(_Value):
    """A build that `owlt builds install` can get.

    `version_command` may hold `{bin}`, the directory of the build's programs where they are not on the path. A build
    whose programs do not tell has none: its version is the recipe's.
    """

    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_.-]*$")]
    title: Text
    licence: Text
    required: bool
    programs: Annotated[list[Text], Field(min_length=1)]
    recipe: Annotated[Debian | Cargo | Go | Script, Field(discriminator="kind")]
    version_command: list[Text] = []

    @model_validator(mode="after")
    def _programs_are_names(self) -> Self:
        if wrong := next((program for program in self.programs if "/" in program), None):
            raise ValueError(f"programs: got {wrong!r}, wanted the name of a program, without a directory")
        return self

    @property
    def told_version(self) -> str:
        """The version that is asked for; the distribution's own where that decides."""
        return "Debian's" if isinstance(self.recipe, Debian) else self.recipe.version.removeprefix("v")
