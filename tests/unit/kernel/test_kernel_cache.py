"""When a cached kernel is the right one, and that an entry is whole or not there."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from owlt.orchestrator.errors import Missing
from owlt.orchestrator.kernel.kernel import (
    KERNEL_NAME,
    WORKSHOP,
    Kernel,
    cached_kernels,
    find_kernel,
    keep_kernel,
    kernels_directory,
    only_one_builds,
    recipe_digest,
    workshop,
)


def a_kernel(directory: Path, **changes: object) -> tuple[Path, Kernel]:
    linux = directory / "built"
    linux.write_bytes(b"a kernel")
    facts: dict[str, object] = {
        "path": linux,
        "version": "7.3.4",
        "package": "linux-source-7.3 7.3.4-1",
        "recipe": recipe_digest(),
        "patches": ["spin-7.3"],
        "hz": 100,
        "seccomp": True,
        "clocks": ["exact", "skip", "real"],
        "ends_spins": True,
        "virtual_tsc": True,
        "templates": True,
        "netem_seed": True,
        "bpf": True,
    }
    return linux, Kernel.model_validate(facts | changes)


def nobody(_phase: str, _fraction: float | None, _message: str) -> None:
    """Told, and takes no notice."""


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def test_no_kernel_is_found_in_an_empty_cache() -> None:
    assert find_kernel() is None


def test_a_kept_kernel_is_found(tmp_path: Path) -> None:
    kept = keep_kernel(*a_kernel(tmp_path))

    assert find_kernel() == kept
    assert kept.path.read_bytes() == b"a kernel"


def test_a_cache_that_was_moved_is_found_at_its_new_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = keep_kernel(*a_kernel(tmp_path))
    (tmp_path / "cache").rename(tmp_path / "moved")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "moved"))

    found = find_kernel()

    assert found is not None
    assert found.path == tmp_path / "moved" / kept.path.relative_to(tmp_path / "cache")


def test_no_path_of_this_machine_is_in_the_cache(tmp_path: Path) -> None:
    kept = keep_kernel(*a_kernel(tmp_path))

    assert str(tmp_path) not in kept.path.with_name("kernel.json").read_text()


def test_a_kernel_of_another_recipe_is_not_found(tmp_path: Path) -> None:
    keep_kernel(*a_kernel(tmp_path, recipe="an older one"))

    assert find_kernel() is None


def test_the_newest_of_several_is_found(tmp_path: Path) -> None:
    for version in ("7.3.4", "7.10.1", "7.4.0"):
        keep_kernel(*a_kernel(tmp_path, version=version))

    found = find_kernel()
    assert found is not None
    assert found.version == "7.10.1"


def test_a_kernel_that_can_do_more_is_found_before_a_newer_one(tmp_path: Path) -> None:
    keep_kernel(*a_kernel(tmp_path, version="7.3.4"))
    keep_kernel(*a_kernel(tmp_path, version="7.5.1", ends_spins=False, patches=[]))

    found = find_kernel()
    assert found is not None
    assert found.version == "7.3.4"


def test_an_entry_without_its_kernel_is_not_found(tmp_path: Path) -> None:
    keep_kernel(*a_kernel(tmp_path)).path.unlink()

    assert find_kernel() is None


def test_an_entry_that_another_version_of_owlt_wrote_is_passed_over(tmp_path: Path) -> None:
    kept = keep_kernel(*a_kernel(tmp_path))
    (kept.path.parent / KERNEL_NAME).write_text('{"version": "7.3.4"}')

    assert find_kernel() is None


def test_a_kernel_kept_again_replaces_the_first(tmp_path: Path) -> None:
    linux, built = a_kernel(tmp_path)
    keep_kernel(linux, built)
    linux.write_bytes(b"made again")
    keep_kernel(linux, built)

    found = find_kernel()
    assert found is not None
    assert found.path.read_bytes() == b"made again"
    assert [entry.name for entry in kernels_directory().iterdir()] == [found.path.parent.name]


def test_another_package_of_the_same_version_is_another_entry(tmp_path: Path) -> None:
    keep_kernel(*a_kernel(tmp_path, package="linux-source-7.3 7.3.4-1"))
    keep_kernel(*a_kernel(tmp_path, package="linux-source-7.3 7.3.4-2"))

    assert len(cached_kernels(recipe_digest())) == 2


def test_a_build_that_is_interrupted_leaves_nothing() -> None:
    with pytest.raises(KeyboardInterrupt), workshop() as directory:
        (directory / "linux").write_bytes(b"half")
        raise KeyboardInterrupt

    assert list(kernels_directory().iterdir()) == []


def test_what_a_killed_build_left_is_cleared_by_the_next() -> None:
    left = kernels_directory() / f"{WORKSHOP}killed"
    left.mkdir(parents=True)

    with only_one_builds(nobody):
        assert not left.exists()


def test_a_second_build_says_that_it_waits_and_goes_on_after_the_first() -> None:
    kernels_directory().mkdir(parents=True)
    hold = ["flock", str(kernels_directory() / ".lock"), "sh", "-c", "echo held; read end"]
    with subprocess.Popen(hold, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as first:
        assert first.stdin and first.stdout
        assert first.stdout.readline() == b"held\n"
        said: list[str] = []

        def end_the_first(phase: str, _fraction: float | None, _message: str) -> None:
            said.append(phase)
            first.communicate(b"end\n")

        with only_one_builds(end_the_first):
            assert said == ["wait"]


def test_a_cache_that_cannot_be_written_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "a file"))

    with pytest.raises(Missing, match="set XDG_CACHE_HOME"), only_one_builds(nobody):
        pass


def test_missing_features_are_named(tmp_path: Path) -> None:
    _, old = a_kernel(tmp_path, version="6.1.192", seccomp=False, netem_seed=False)

    assert old.missing_features == ["seccomp mode (Linux 6.16)", "netem's seed (Linux 6.7)"]
    assert "missing: seccomp mode" in old.summary
