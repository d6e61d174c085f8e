"""Capsules: what is written is read again, and an archive that could do harm is refused before anything is written."""

from __future__ import annotations

import re
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from owlt.inputs.mistake import OwltError
from owlt.results.capsule import LIMITS, BrokenCapsule, Limits, Manifest, is_known, unpack, write_capsule

RUN = "cfdp_1MB_r1"
FILES: dict[str, bytes | Path] = {
    "plan.json": b"{}",
    f"runs/{RUN}/record.json": b"{}",
    f"runs/{RUN}/sender.pcap": bytes(range(256)) * 40,
    f"runs/{RUN}/kept/sender/log": b"the end",
    "programs/usr/bin/tool": b"\x7fELF",
}
MANIFEST = Manifest(run_id=RUN, owlt="1", losses={"forward": [3], "reverse": []})
Change = Callable[[zipfile.ZipInfo], None]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A capsule."""
    write_capsule(tmp_path / "it.zip", MANIFEST, FILES)
    return tmp_path / "it.zip"


def unpacked(path: Path) -> dict[str, bytes]:
    """The files that unpacking a capsule writes, by name."""
    with TemporaryDirectory() as name:
        unpack(path, Path(name).resolve())
        return contents(Path(name))


def contents(directory: Path) -> dict[str, bytes]:
    return {str(each.relative_to(directory)): each.read_bytes() for each in directory.rglob("*") if each.is_file()}


def rewritten(path: Path, change: Change, more: str = "", twice: str = "") -> None:
    """Write the archive again, with each entry changed; with one more file, or with one twice."""
    with zipfile.ZipFile(path) as archive:
        entries = [(entry, archive.read(entry)) for entry in archive.infolist()]
    entries += [(entry, content) for entry, content in entries if entry.filename == f"capsule/{twice}"]
    with zipfile.ZipFile(path, "w") as archive:
        for entry, content in entries:
            new = zipfile.ZipInfo(entry.filename)
            new.create_system, new.external_attr, new.compress_type = 3, entry.external_attr, entry.compress_type
            change(new)
            archive.writestr(new, content)
        if more:
            new = zipfile.ZipInfo(more)
            new.create_system, new.external_attr = 3, 0o100644 << 16
            archive.writestr(new, b"more")


def refusal(path: Path, limits: Limits = LIMITS) -> str:
    """Why a capsule is refused; nothing is written then."""
    with TemporaryDirectory() as name:
        with pytest.raises(BrokenCapsule) as refused:
            unpack(path, Path(name).resolve(), limits)
        assert contents(Path(name)) == {}
    return str(refused.value)


def test_a_capsule_is_read_as_it_was_written(path: Path) -> None:
    assert unpacked(path) == FILES


def test_the_manifest_is_read_as_it_was_written(path: Path, tmp_path: Path) -> None:
    read = unpack(path, (tmp_path / "new"))

    assert read.model_copy(update={"files": {}}) == MANIFEST
    assert read.files.keys() == FILES.keys()


def test_the_same_files_make_the_same_bytes(path: Path, tmp_path: Path) -> None:
    write_capsule(tmp_path / "again.zip", MANIFEST, dict(reversed(FILES.items())))

    assert (tmp_path / "again.zip").read_bytes() == path.read_bytes()


def test_only_programs_are_executable(path: Path, tmp_path: Path) -> None:
    unpack(path, tmp_path / "new")

    executable = [each.name for each in (tmp_path / "new").rglob("*") if each.is_file() and each.stat().st_mode & 0o111]
    assert executable == ["tool"]


@pytest.mark.parametrize(
    "name",
    [
        *("/etc/passwd", "../plan.json", "runs/../../x.json", "runs/a/../b.json", "runs/a/./b.json", "runs//b.json"),
        *(
            "runs/a/.bashrc",
            "runs/a/b.sh",
            "plan.json/x",
            "lock",
            "programs/..",
            "programs/a/../../b",
            "runs\\a\\b.json",
        ),
        *("runs/a/b\n.json", "runs/a/\u00e4.json", "", "runs/a/kept/../../x", "certificates/a/b.json"),
    ],
)
def test_another_name_than_the_known_ones_is_refused(path: Path, name: str) -> None:
    rewritten(path, lambda entry: None, more=f"capsule/{name}")

    assert not is_known(name)
    assert re.search("is not (a name of a file of a capsule|the name of a file)", refusal(path))


@pytest.mark.parametrize("name", ["/etc/cron.d/x", "../../x", "plan.json", "C:/x"])
def test_a_file_outside_the_directory_of_the_capsule_is_refused(path: Path, name: str) -> None:
    rewritten(path, lambda entry: None, more=name)

    assert re.search("is not (a name of a file of a capsule|the name of a file)", refusal(path))


@pytest.mark.parametrize("mode", [0o120777, 0o040755, 0o010644, 0o020644, 0o104755, 0], ids=oct)
def test_a_link_a_directory_or_a_special_file_is_refused(path: Path, mode: int) -> None:
    def change(entry: zipfile.ZipInfo) -> None:
        if entry.filename.endswith("record.json"):
            entry.external_attr = mode << 16

    rewritten(path, change)

    assert f"runs/{RUN}/record.json: is a link, a directory or a special file" in refusal(path)


def test_another_compression_is_refused(path: Path) -> None:
    rewritten(path, lambda entry: setattr(entry, "compress_type", zipfile.ZIP_LZMA))

    assert "is encrypted or has another compression" in refusal(path)


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_name_that_is_there_twice_is_refused(path: Path) -> None:
    rewritten(path, lambda entry: None, twice="plan.json")

    assert "plan.json: appears twice" in refusal(path)


def test_a_file_that_the_manifest_does_not_name_is_refused(path: Path) -> None:
    rewritten(path, lambda entry: None, more="capsule/runs/other/record.json")

    assert "'runs/other/record.json': is not in capsule.json" in refusal(path)


def test_a_file_that_is_missing_is_named(path: Path) -> None:
    def change(entry: zipfile.ZipInfo) -> None:
        entry.filename = entry.filename.replace("record.json", "other.json")

    rewritten(path, change)

    assert f"'runs/{RUN}/other.json': is not in capsule.json" in refusal(path)


def with_content(path: Path, name: str, content: bytes) -> None:
    """Replace the content of a file, and leave the manifest as it is."""
    with zipfile.ZipFile(path) as archive:
        entries = [(each, archive.read(each)) for each in archive.infolist()]
    with zipfile.ZipFile(path, "w") as archive:
        for entry, old in entries:
            archive.writestr(entry, content if entry.filename == f"capsule/{name}" else old, zipfile.ZIP_DEFLATED)


def test_a_file_of_another_size_is_refused(path: Path) -> None:
    with_content(path, "plan.json", b"{ }")

    assert "plan.json: has 3 bytes, expected 2, as in capsule.json" in refusal(path)


def test_a_file_with_another_content_is_refused(path: Path, tmp_path: Path) -> None:
    with_content(path, "plan.json", b"[]")

    with pytest.raises(BrokenCapsule, match=r"capsule/plan\.json: its SHA-256 is not the one in capsule\.json"):
        unpack(path, tmp_path / "new")


def test_an_archive_that_expands_beyond_all_measure_is_refused(path: Path) -> None:
    said = refusal(path, Limits(free_bytes=1000, expansion=1))

    assert re.search(r"all files: 11,\d+ bytes unpacked, expected at most 2,\d+", said)


def test_what_could_not_be_unpacked_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(OwltError, match=r"the capsule would have 5 files .* a shorter transfer"):
        write_capsule(tmp_path / "it.zip", MANIFEST, FILES, Limits(archive_bytes=100))

    assert not (tmp_path / "it.zip").exists()


def test_a_list_with_too_many_entries_is_refused(path: Path) -> None:
    assert "list of entries: 6 entries" in refusal(path, Limits(entries=3))


def test_a_capsule_of_a_newer_version_is_named(path: Path) -> None:
    with_content(path, "capsule.json", b'{"schema_version": 2, "run_id": "a", "owlt": "9"}')

    assert "schema_version: Input should be 1; a newer version of owlt may have made it" in refusal(path)


END = struct.Struct("<4s4H2IH")


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: b"",
        lambda content: b"not an archive, but long enough to be one",
        lambda content: content[:-1],
        lambda content: content[: len(content) // 2],
        lambda content: content + b"x",
        lambda content: b"x" + content,
        lambda content: content[: -END.size] + END.pack(b"PK\x05\x06", 0, 0, 6, 6, 0xFFFFFFFF, 0, 0),
        lambda content: content[: -END.size] + b"PK\x06\x07" + bytes(16) + content[-END.size :],
        lambda content: content[:-2] + b"\x05\x00hello",
    ],
    ids=["empty", "text", "one byte short", "half", "longer", "a prefix", "a huge list", "zip64", "a comment"],
)
def test_what_is_no_complete_archive_is_refused(path: Path, damage: Callable[[bytes], bytes]) -> None:
    path.write_bytes(damage(path.read_bytes()))

    assert str(path) in refusal(path)


def test_a_link_in_the_place_of_a_capsule_is_refused(path: Path, tmp_path: Path) -> None:
    (tmp_path / "link.zip").symlink_to(path)

    assert "is a link" in refusal(tmp_path / "link.zip")


@given(st.data())
def test_a_damaged_capsule_is_refused_or_read_as_it_was_written(data: st.DataObject) -> None:
    with TemporaryDirectory() as name:
        path = Path(name).resolve() / "it.zip"
        write_capsule(path, MANIFEST, FILES)
        content = bytearray(path.read_bytes())
        for position in data.draw(st.lists(st.integers(0, len(content) - 1), min_size=1, max_size=4)):
            content[position] = data.draw(st.integers(0, 255))
        path.write_bytes(content)
        try:
            found = unpacked(path)
        except BrokenCapsule as broken:
            assert str(path) in str(broken)
        else:
            assert found == FILES


def test_a_name_that_would_be_refused_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="is not the name of a file of a capsule"):
        write_capsule(tmp_path / "it.zip", MANIFEST, {"../x": b""})

    assert not (tmp_path / "it.zip").exists()
