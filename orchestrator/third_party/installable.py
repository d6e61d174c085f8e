"""A third-party implementation that owlt can install, as data: its name, its source, the programs it installs.

Values only. `load` reads them from YAML, `places` defines where they are installed, `installing` installs them.
"""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

Text = Annotated[str, Field(min_length=1)]
Version = Annotated[str, Field(pattern=r"^\d+(\.\d+)*$")]


class _Value(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Debian(_Value):
    """Debian packages, in the newest version that apt finds. Their programs are on PATH.

    `services` are started by the packages and listen on the network: they are disabled after the installation.
    """

    kind: Literal["debian"]
    packages: Annotated[list[Text], Field(min_length=1)]
    services: list[Text] = []


class Cargo(_Value):
    """A Rust crate, compiled with the dependency versions of its own lock file."""

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
    """A script beside the implementation's file in profiles/third-party/.

    Its argument is the directory to install into; it creates DIRECTORY/bin.
    """

    kind: Literal["script"]
    script: Text
    version: Text


class Installable(_Value):
    """A third-party implementation that `owlt third-party install` can install.

    `version_command` may hold `{bin}`, the directory of its programs if they are not on PATH. An implementation whose
    programs print no version has no such command: its version is the recipe's.
    """

    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_.-]*$")]
    title: Text
    licence: Text
    required: bool
    programs: Annotated[list[Text], Field(min_length=1)]
    recipe: Annotated[Debian | Cargo | Go | Script, Field(discriminator="kind")]
    version_command: list[Text] = []

    @model_validator(mode="after")
    def _require_program_names(self) -> Self:
        if wrong := next((program for program in self.programs if "/" in program), None):
            raise ValueError(f"programs: got {wrong!r}, expected the name of a program, without a directory")
        return self

    @property
    def recipe_version(self) -> str:
        """The version that the recipe names; "Debian's" if the distribution decides."""
        return "Debian's" if isinstance(self.recipe, Debian) else self.recipe.version.removeprefix("v")
