"""Options that several subcommands of `owlt channel` have: values of the links."""

from __future__ import annotations

from typing import Annotated

import typer

ForwardFields = Annotated[
    list[str] | None,
    typer.Option(
        "--forward", metavar="KEY=VALUE", help="Value for the forward link, such as rate=2Mbit/s; repeat for more."
    ),
]
ReverseFields = Annotated[
    list[str] | None,
    typer.Option(
        "--reverse", metavar="KEY=VALUE", help="Value for the reverse link, such as rate=2Mbit/s; repeat for more."
    ),
]
BothFields = Annotated[
    list[str] | None,
    typer.Option("--both", metavar="KEY=VALUE", help="Value for both links, such as delay=300ms; repeat for more."),
]
