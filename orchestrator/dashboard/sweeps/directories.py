"""The results directories that the dashboard shows, each by a name in addresses."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from owlt.captures.files.plain_files import directories_in, is_plain
from owlt.inputs.mistake import Mistake, Place
from owlt.orchestrator.dashboard.sweeps.index import SweepIndex
from owlt.orchestrator.errors import OwltError
from owlt.orchestrator.planning.plan import PLAN_NAME

DEFAULT = Path("results")


class Directories:
    """The directories that were named; without any, those in `results/`, where new ones appear when sweeps start.

    Any thread may ask for them: each has one index and one name.
    """

    def __init__(
        self, named: Sequence[Path], default: Path = DEFAULT, new_index: Callable[[Path], SweepIndex] = SweepIndex
    ) -> None:
        for path in named:
            if not path.is_dir():
                raise OwltError(
                    Mistake(
                        "is no directory" if path.exists() else "is missing",
                        "a results directory of owlt, or one that holds some",
                        "see: ls results",
                        Place(str(path)),
                    )
                )
        self._named = [path.resolve() for path in named]
        self._default = default
        self._new_index = new_index
        self._lock = threading.Lock()
        self._indexes: dict[Path, SweepIndex] = {}
        self._names: dict[str, Path] = {}

    def indexes(self) -> dict[str, SweepIndex]:
        """Every results directory by its name: the directory's own, with a number if another has it already."""
        paths = self._paths()
        with self._lock:
            for path in paths:
                if path not in self._indexes:
                    self._names[self._unused_name(path.name)] = path
                    self._indexes[path] = self._new_index(path)
            return {name: self._indexes[path] for name, path in self._names.items() if path.is_dir()}

    def _paths(self) -> list[Path]:
        """A directory that was named is one of results, even before it has a plan, or holds some that have."""
        roots = self._named or [self._default.resolve()]
        paths: list[Path] = []
        for root in roots:
            inner = [each for each in directories_in(root) if is_plain(each / PLAN_NAME)]
            is_results = (root / PLAN_NAME).exists() or (bool(self._named) and not inner)
            paths += [root] if is_results else inner
        return list(dict.fromkeys(paths))

    def _unused_name(self, name: str) -> str:
        number, unused = 1, name or "results"
        while unused in self._names:
            number += 1
            unused = f"{name}-{number}"
        return unused
