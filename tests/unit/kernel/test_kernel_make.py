"""What a build asks of the machine, and what it says when a step fails."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest

from owlt.orchestrator.errors import Missing, OwltError
from owlt.orchestrator.kernel.build import check_machine, compile_kernel
from owlt.orchestrator.kernel.source import KernelSource


def nobody(_phase: str, _fraction: float | None, _message: str) -> None:
    """Told, and takes no notice."""


def tarball_of(directory: Path, files: dict[str, str]) -> KernelSource:
    path = directory / "linux.tar"
    with tarfile.open(path, "w") as archive:
        for name, text in files.items():
            (directory / "file").write_text(text)
            archive.add(directory / "file", f"linux-7.3/{name}")
    return KernelSource("linux.tar", path)


def test_missing_tools_are_named_as_the_packages_that_bring_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(Missing, match=r"apt-get install gcc binutils make flex bison bc patch tar xz-utils$"):
        check_machine(tmp_path)


def test_a_compiler_without_a_c_library_is_missing_its_headers(tmp_path: Path) -> None:
    with pytest.raises(Missing, match="apt-get install libc6-dev"):
        check_machine(tmp_path, header="no-such-header.h")


def test_too_little_room_is_reported_with_how_much_is_wanted(tmp_path: Path) -> None:
    with pytest.raises(Missing, match=r"needs 1e\+09 GB in .*, which has .* GB; free space there"):
        check_machine(tmp_path, space_gb=10.0**9)


def test_a_machine_of_another_kind_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Missing, match="got a machine of type aarch64"):
        check_machine(tmp_path, machine="aarch64")


def test_a_tarball_that_is_no_kernel_is_named(tmp_path: Path) -> None:
    source = tarball_of(tmp_path, {"README": "hello"})

    with pytest.raises(OwltError, match="not a Linux source tree"):
        compile_kernel(source, tmp_path, nobody)


def test_a_tarball_that_is_none_fails_with_tars_words(tmp_path: Path) -> None:
    (tmp_path / "junk.tar.xz").write_bytes(b"junk")

    with pytest.raises(OwltError, match=r"(?s)unpack failed: tar .*junk\.tar\.xz\n.*not recognized"):
        compile_kernel(KernelSource("junk", tmp_path / "junk.tar.xz"), tmp_path, nobody)


def test_a_failing_make_is_reported_by_its_errors(tmp_path: Path) -> None:
    rules = '%:\n\t@echo noise; echo "foo.c:1: error: no such thing"; echo more noise; false\n'
    source = tarball_of(tmp_path, {"arch/um/Kconfig": "", "Makefile": rules})

    with pytest.raises(OwltError, match=r"configure failed: make tinyconfig\nfoo\.c:1: error: no such thing"):
        compile_kernel(source, tmp_path, nobody)


def test_the_callers_make_flags_do_not_reach_the_build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAKEFLAGS", "--no-such-flag")
    rules = '%:\n\t@echo "error: ARCH is $(ARCH), CFLAGS is [$(CFLAGS)]"; false\n'
    monkeypatch.setenv("CFLAGS", "-O3")
    source = tarball_of(tmp_path, {"arch/um/Kconfig": "", "Makefile": rules})

    with pytest.raises(OwltError, match=r"error: ARCH is um, CFLAGS is \[\]"):
        compile_kernel(source, tmp_path, nobody)


def test_code_of_other_machines_is_not_unpacked_but_its_configuration_is(tmp_path: Path) -> None:
    left_out = ["arch/arm64/kernel/head.S", "drivers/gpu/drm/card.c", "Documentation/net.rst"]
    kept = ["arch/arm64/Kconfig", "arch/um/Kconfig", "arch/x86/um/a.c", "drivers/gpu/Kconfig", "drivers/net/veth.c"]
    source = tarball_of(tmp_path, dict.fromkeys(left_out + kept, "text"))

    with pytest.raises(OwltError):
        compile_kernel(source, tmp_path, nobody)

    tree = tmp_path / "source"
    assert sorted(str(path.relative_to(tree)) for path in tree.rglob("*") if path.is_file()) == sorted(kept)
