"""A paper's claims as data: `claims.yaml` of a reproduction.

A claim has the paper's statement, its place, and its value if it has one; our value is an SQL query over the table of
runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from owlt.inputs.mistake import Invalid, Mistake, Place, got, unexpected
from owlt.inputs.reader import read_yaml
from owlt.inputs.validation import mistakes_in
from owlt.results.plain_files import digest_of_values

NAME = "claims.yaml"


class ClaimsError(Invalid):
    """A file of claims that cannot be used, with every mistake in it."""


class _Value(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=False)


class Paper(_Value):
    """The paper that is reproduced."""

    authors: str
    title: str
    year: int
    published_in: str


TOLERANCES = {0.03: "text", 0.1: "figure", 0.15: "near", 0.5: "about"}
"""The deviations that are accepted, as a share of the paper's value, and the form in which the paper has the value: a
number in the text, a number read off a figure, "near", "about"."""


class Accept(_Value):
    """The values of ours that confirm a claim."""

    within: Annotated[float, Field(gt=0, lt=1)] | None = None
    """Largest deviation from the paper's value, as a share of it: one of TOLERANCES, or another one with its reason."""
    least: float | None = None
    most: float | None = None
    because: str = ""
    """Why the deviation is not one of TOLERANCES."""

    @model_validator(mode="after")
    def _check_one_kind(self) -> Self:
        if (self.within is None) == (self.least is None and self.most is None):
            raise unexpected("within, or least and most (one of them or both)")
        if self.within is not None and (self.within in TOLERANCES) == bool(self.because):
            raise unexpected(f"within of {', '.join(map(str, TOLERANCES))}, or another with its reason in because")
        return self


ClaimKind = Literal["measurement", "setting", "arithmetic", "program"]
"""Which fact a claim is about: a behaviour that our runs measure; a consequence of settings that we chose after the
paper, such as the size of a packet; a computation with the paper's own numbers, which no run changes; a property of the
paper's programs or computers."""


Cause = Literal["ours", "setting", "paper", "protocol"]
"""What a claim that is not confirmed is due to: our implementation or our method; a setting that differs from the
paper's; the paper, whose numbers contradict each other or whose program had a fault; the protocol, which behaves
otherwise."""


class Claim(_Value):
    """One statement of the paper."""

    id: Annotated[str, Field(pattern=r"^[a-z0-9-]+$")]
    kind: ClaimKind
    states: str
    """The statement of the paper, in our words."""
    place: str
    """Section, table or figure of the paper."""
    paper: float | None = None
    """The paper's value, if it has one."""
    unit: str = ""
    ours: str = ""
    """An SQL query. Each row is a case for which the claim has to hold: its value in the last column, and what names
    the case in those before. A share has the columns `successes` and `trials` instead of a value."""
    determined: bool = False
    """Whether nothing random decides the value: a channel without random errors on the exact clock."""
    accept: Accept | None = None
    undecidable: str = ""
    """Why nothing decides the claim here; instead of `ours`."""
    remark: str = ""
    """What qualifies the verdict; stated beside it, except if the claim is undecidable."""
    cause: Cause | None = None
    """Whose difference it is if the claim is not confirmed."""

    @model_validator(mode="after")
    def _check_consistency(self) -> Self:
        if bool(self.undecidable) == bool(self.ours and self.accept):
            raise unexpected("ours and accept, or undecidable with the reason")
        if self.accept and self.accept.within is not None and not self.paper:
            raise unexpected("the paper's value, from which accept.within counts")
        return self

    @property
    def bounds(self) -> tuple[float, float]:
        """The least and the largest value that confirm the claim; infinite if there is none."""
        if self.accept is None:
            return -inf, inf
        if self.accept.within is not None and self.paper is not None:
            margin = self.accept.within * abs(self.paper)
            return self.paper - margin, self.paper + margin
        least, most = self.accept.least, self.accept.most
        return -inf if least is None else least, inf if most is None else most

    @property
    def is_fixed(self) -> bool:
        """Whether the value has no uncertainty if all repetitions have the same one."""
        return self.determined or self.kind == "arithmetic"


class FigureAxis(_Value):
    """One axis of a figure."""

    label: str
    log: bool = False
    from_zero: bool = True
    """Whether a linear axis of y begins at 0."""


class PanelOf(_Value):
    """One panel of a figure; its query has the columns series, x and y, and may have a fourth, the facet.

    Each facet is a panel of its own.
    """

    title: str
    x: FigureAxis
    y: FigureAxis
    points: str
    kind: Literal["line", "points", "box", "bar"] = "line"
    """Lines through the medians; each point on its own; boxes with every point; or means with standard errors."""

    @property
    def is_grouped(self) -> bool:
        """Whether values of x are categories."""
        return self.kind in ("box", "bar")


class FigureOf(_Value):
    """A figure of our results."""

    name: Annotated[str, Field(pattern=r"^[a-z0-9-]+$")]
    panels: Annotated[tuple[PanelOf, ...], Field(min_length=1)]
    across: Annotated[int, Field(ge=1, le=3)] = 2
    """Panels beside each other."""


class TableOf(_Value):
    """A table of our results: the result of a query, whose column names are the headings."""

    name: Annotated[str, Field(pattern=r"^[a-z0-9-]+$")]
    rows: str


class Reproduction(_Value):
    """The contents of `claims.yaml`."""

    paper: Paper
    chosen: str
    """Which bounds were chosen before the runs that they judge, and which after them."""
    sweep: str = "sweep.yaml"
    """The file of the complete grid; its quick form is quick.yaml."""
    also: tuple[Annotated[str, Field(pattern=r"^[a-z0-9-]+$")], ...] = ()
    """Further sweeps, such as other settings: NAME.yaml."""
    if_installed: tuple[Annotated[str, Field(pattern=r"^[a-z0-9-]+$")], ...] = ()
    """Further sweeps of implementations that a user may have; a sweep is skipped where one of them is missing."""
    controls: tuple[str, ...] = ()
    """Those of the further sweeps whose runs only the table `controls` has, so that no other query has to exclude
    them."""
    on_request: tuple[Annotated[str, Field(pattern=r"^[a-z0-9-]+$")], ...] = ()
    """Further sweeps that are performed only if a user asks for them, because they take as long as the grid."""
    views: dict[str, str] = {}
    """Names for SQL queries that the others use, in their order."""
    packets_of: str = ""
    """An SQL condition on the table of runs: the runs whose packets the table `packets` has."""
    handshakes_of: str = ""
    """An SQL condition on the table of runs: the runs whose handshakes the table `quic_handshakes` has."""
    archived: dict[Literal["packets", "packets_at_receiver", "tcp_samples"], str] = {}
    """SQL conditions: of these tables, an archive has only the rows that the queries need."""
    claims: Annotated[tuple[Claim, ...], Field(min_length=1)]
    figures: tuple[FigureOf, ...] = ()
    series: tuple[str, ...] = ()
    """Series of figures whose looks are the same in each."""
    tables: tuple[TableOf, ...] = ()

    @model_validator(mode="after")
    def _check_ids(self) -> Self:
        ids = [claim.id for claim in self.claims]
        if len(set(ids)) < len(ids):
            raise unexpected("a different id for each claim")
        return self

    @model_validator(mode="after")
    def _check_controls(self) -> Self:
        if not {*self.controls} <= {*self.also, *self.if_installed}:
            raise unexpected("controls that are sweeps of also or if_installed")
        return self


def load_claims(directory: Path) -> Reproduction:
    """Read the claims of a reproduction. Raises ClaimsError with every mistake."""
    path = directory / NAME
    try:
        document = read_yaml(path)
    except Invalid as error:
        raise ClaimsError(*error.mistakes) from error
    value: Any = document.value
    if not isinstance(value, dict):
        raise ClaimsError(Mistake(got(value), "keys such as paper and claims", where=Place(str(path))))
    try:
        return Reproduction.model_validate(value)
    except ValidationError as error:
        raise ClaimsError(*map(document.positions.located, mistakes_in(error, Reproduction))) from error


JUDGING = ("kind", "paper", "ours", "determined", "accept", "undecidable")
"""The keys of a claim that its verdict follows from."""


def digests_of(reproduction: Reproduction) -> dict[str, str]:
    """The digest of what the verdict on each claim follows from, by its id: its own keys, and what all queries use."""
    shared = reproduction.model_dump(mode="json", include={"views", "packets_of", "handshakes_of"})
    shared |= {"controls": list(reproduction.controls)} if reproduction.controls else {}
    return {
        claim.id: digest_of_values([shared, claim.model_dump(mode="json", include=set(JUDGING))])
        for claim in reproduction.claims
    }


def changed_claims(reproduction: Reproduction, recorded: Mapping[str, str]) -> list[str]:
    """The claims whose digest is not the recorded one, by their id."""
    return [id for id, digest in digests_of(reproduction).items() if recorded.get(id) != digest]
