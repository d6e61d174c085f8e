"""The commands of an application, made by typer once in a process."""

from functools import cache

import typer.main


def make_commands_once() -> None:
    """Have typer keep the commands that it makes for each call of an application: most of the time of such a call."""
    typer.main.get_command = cache(typer.main.get_command)
