"""Which source is chosen, what a configuration must have, and when a cached kernel is the right one."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator import kernel
from orchestrator.errors import Missing
from orchestrator.kernel import cache, make, recipe
from orchestrator.kernel.kernel import Kernel
from orchestrator.kernel.source import choose, local_source


def a_kernel(directory: Path, **changes: object) -> tuple[Path, Kernel]:
    linux = directory / "built"
    linux.write_bytes(b"a kernel")
    facts: dict[str, object] = {"version": "7.3.4", "package": "linux-source-7.3 7.3.4-1", "recipe": recipe.digest()}
    more: dict[str, object] = {"path": linux, "patches": ["spin-7.3"], "seccomp": True, "hz": 100}
    return linux, Kernel.model_validate(facts | more | changes)


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def test_the_newest_source_with_seccomp_mode_is_chosen() -> None:
    assert choose(["linux-source-6.12", "linux-source-7.2", "linux-source-7.10", "linux-source"]) == "linux-source-7.10"


def test_a_source_without_seccomp_mode_is_not_chosen() -> None:
    assert choose(["linux-source-6.1", "linux-source-6.12"]) is None


def test_an_option_that_is_not_taken_is_named() -> None:
    assert recipe.options_not_taken("CONFIG_A=y\nCONFIG_B=y\n", "CONFIG_A=y\n# CONFIG_B is not set\n") == ["CONFIG_B"]


def test_an_option_taken_under_its_later_name_counts() -> None:
    assert recipe.options_not_taken("CONFIG_PROC_SYSCTL=y\n", "CONFIG_SYSCTL=y\n") == []


def test_no_kernel_is_found_in_an_empty_cache() -> None:
    assert kernel.find() is None


def test_a_kept_kernel_is_found(tmp_path: Path) -> None:
    kept = cache.keep(*a_kernel(tmp_path))

    assert kernel.find() == kept
    assert kept.path.read_bytes() == b"a kernel"


def test_a_kernel_of_another_recipe_is_not_found(tmp_path: Path) -> None:
    cache.keep(*a_kernel(tmp_path, recipe="an older one"))

    assert kernel.find() is None


def test_the_newest_of_several_is_found(tmp_path: Path) -> None:
    for version in ("7.3.4", "6.1.192", "7.10.1"):
        cache.keep(*a_kernel(tmp_path, version=version))

    found = kernel.find()
    assert found is not None
    assert found.version == "7.10.1"


def test_a_half_written_entry_is_not_found(tmp_path: Path) -> None:
    kept = cache.keep(*a_kernel(tmp_path))
    kept.path.unlink()

    assert kernel.find() is None


def test_a_tarball_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(Missing, match=r"nothing\.tar\.xz: there is no such file"):
        local_source(tmp_path / "nothing.tar.xz")


def test_missing_tools_are_named_with_the_command_that_brings_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(Missing, match=r"gcc, make, flex.*: apt-get install build-essential"):
        make.check_machine(tmp_path)


def test_too_little_room_is_told_with_how_much_is_wanted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(make, "SPACE_GB", 10.0**9)

    with pytest.raises(Missing, match="GB in"):
        make.check_machine(tmp_path)
