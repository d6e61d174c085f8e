"""The options of the subcommands that use Ansible."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Admin = Annotated[
    str, typer.Option(metavar="USER", help="User to log in as: root, or one that may use sudo without a password.")
]
AdminKey = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Private key of that user; default: the keys in the inventory.")
]
Check = Annotated[
    bool, typer.Option("--check", help="Only show what would change; with --verbose, each line of files too.")
]
