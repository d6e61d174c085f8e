"""Shell completion of names: sweeps, channels, implementations and third-party implementations that come with owlt.

Only names of files are read, so that completion is fast. Errors are never printed into a command line.
"""

from __future__ import annotations

from pathlib import Path

from owlt import PACKAGE

PROFILES = (PACKAGE / "profiles").resolve()
RIGS = ("local", "virtual")


def complete_sweep(incomplete: str) -> list[str]:
    """The sweeps whose names begin so."""
    return profile_names("sweeps", incomplete)


def complete_channel(incomplete: str) -> list[str]:
    """The channels whose names begin so."""
    return profile_names("channels", incomplete)


def complete_implementation(incomplete: str) -> list[str]:
    """The implementations whose names begin so."""
    return profile_names("implementations", incomplete)


def complete_third_party(incomplete: str) -> list[str]:
    """The third-party implementations whose names begin so."""
    return profile_names("third-party", incomplete)


def complete_kind(incomplete: str) -> list[str]:
    """The kinds of profile whose names begin so."""
    return [path.stem for path in _files(PROFILES / "schemas", ".json") if path.stem.startswith(incomplete)]


def complete_rig(incomplete: str) -> list[str]:
    """The rigs whose names begin so."""
    return [name for name in RIGS if name.startswith(incomplete)]


def profile_names(folder: str, incomplete: str, profiles: Path = PROFILES) -> list[str]:
    """The names in a folder of profiles that begin so; none if it cannot be read."""
    return [path.stem for path in _files(profiles / folder, ".yaml") if path.stem.startswith(incomplete)]


def _files(folder: Path, suffix: str) -> list[Path]:
    try:
        return sorted(path for path in folder.iterdir() if path.suffix == suffix)
    except OSError:
        return []
