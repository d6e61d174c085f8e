"""Compiling and finding the eBPF programs: done when needed, and a next step when it cannot be."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from owlt.emulator.kernel.bpf import compile
from owlt.emulator.kernel.bpf.loading import BpfError, compiled_object, find_object
from tests.conftest import require_command

SOURCE = 'int one(void) { return 1; }\nchar _license[] __attribute__((section("license"))) = "GPL";\n'


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A small program."""
    path = tmp_path / "one.bpf.c"
    path.write_text(SOURCE)
    return path


def test_a_program_is_compiled_once(source: Path) -> None:
    require_command("clang")
    first = compile.compile_program(source).stat().st_ino

    assert compile.compile_program(source).stat().st_ino == first


def test_a_changed_source_is_compiled_again(source: Path) -> None:
    require_command("clang")
    first = compile.compile_program(source).read_bytes()
    source.write_text(SOURCE.replace("return 1", "return 2"))

    assert compile.compile_program(source).read_bytes() != first


def test_the_object_of_a_source_is_the_same_in_every_directory(source: Path, tmp_path: Path) -> None:
    require_command("clang")
    other = tmp_path / "another" / source.name
    other.parent.mkdir()
    other.write_text(SOURCE)

    assert compile.compile_program(source).read_bytes() == compile.compile_program(other).read_bytes()


def test_a_source_that_is_wrong_is_quoted_and_leaves_no_object(source: Path) -> None:
    require_command("clang")
    source.write_text("nonsense")

    with pytest.raises(compile.CompileError, match=r"one.bpf.c: clang says: .*error: .*; next: correct the source"):
        compile.compile_program(source)
    assert [path.name for path in source.parent.iterdir()] == ["one.bpf.c"]


def test_a_missing_header_is_a_missing_package(source: Path) -> None:
    require_command("clang")
    source.write_text("#include <no/such.h>\n" + SOURCE)

    with pytest.raises(compile.CompileError, match="next: make setup"):
        compile.compile_program(source)


def test_a_missing_compiler_is_named(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")

    with pytest.raises(compile.CompileError, match="clang is not installed; next: make setup"):
        compile.compile_program(source)


def test_a_program_that_was_not_compiled_is_refused_with_the_next_step(source: Path) -> None:
    with pytest.raises(BpfError, match=r"one.bpf.o: is not compiled; next: make setup"):
        find_object("one", source.parent)


def test_an_object_of_an_older_source_is_refused_with_the_next_step(source: Path) -> None:
    require_command("clang")
    compile.compile_program(source)
    source.write_text(SOURCE.replace("return 1", "return 2"))

    with pytest.raises(BpfError, match=r"one\.bpf\.o: was compiled from an older version of its source; next: make"):
        find_object("one", source.parent)


def test_an_object_without_its_source_is_not_refused_for_its_age(source: Path) -> None:
    require_command("clang")
    compiled = compile.compile_program(source)
    source.unlink()

    assert compiled_object(source) == compiled


def test_the_object_of_a_read_only_directory_is_in_the_cache(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    require_command("clang")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(os, "access", lambda _, mode: mode != os.W_OK)  # root may write everywhere

    compiled = compile.compile_program(source)

    assert compiled.is_relative_to(tmp_path / "cache" / "owlt" / "bpf")
    assert find_object("one", source.parent) == compile.compile_program(source) == compiled
    assert [path.name for path in source.parent.glob("*.bpf.*")] == ["one.bpf.c"]


def test_a_cache_that_cannot_be_written_is_named(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    require_command("clang")
    monkeypatch.setenv("XDG_CACHE_HOME", str(source))
    monkeypatch.setattr(os, "access", lambda _, mode: mode != os.W_OK)

    with pytest.raises(compile.CompileError, match=r"cannot be written .*; next: set XDG_CACHE_HOME"):
        compile.compile_program(source)
