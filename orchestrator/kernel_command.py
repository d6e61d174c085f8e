"""`owlt kernel build` on a terminal: what is done now, how far it is, what came of it."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from orchestrator import kernel


def build_with_progress(console: Console, source: Path | None, again: bool) -> None:
    """Build the virtual-time kernel unless one is cached, and say which there is."""
    found = None if again or source else kernel.find()
    if found is None:
        with Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[message]}"),
            TimeElapsedColumn(),
            console=console,
        ) as bar:
            task = bar.add_task("kernel", total=1.0, message="")

            def observe(phase: str, fraction: float | None, message: str) -> None:
                bar.update(task, description=phase, completed=fraction, message=message)

            found = kernel.build(source, observe)
    console.print(f"virtual-time kernel: {found.told}")
