"""The kept summary is used while it is true, also after the captures were cut to their headers."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import captures.cache
import captures.kept
from captures.accounting.suspicion import Expected
from captures.cache import SUMMARY, load_or_summarise, load_summary
from captures.files.cutting import HEADER_BYTES, keep_only_headers, write_headers
from captures.files.pcap import read_frames
from captures.files.tcpdump import CaptureCounters
from captures.frames.columns import read_columns
from captures.summary import CaptureSummary, summarise
from tests.conftest import require_command
from tests.unit.captures.making import DATA, SESSION, capinfos, timed, udp_frame, write_pcap

FILE_BYTES = 6000
ARGUMENTS: tuple[Any, ...] = (SESSION, FILE_BYTES, None)
MARK = 424_242


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    """The captures of a real run, without a summary."""
    for side in ("sender", "receiver"):
        shutil.copy(DATA / f"netem-half-{side}.pcap", tmp_path / f"{side}.pcap")
    return tmp_path


@pytest.fixture
def marked(run_dir: Path) -> Path:
    """A run with a kept summary that can be told from a new one: its str_sent is MARK."""
    summary = load_or_summarise(run_dir, *ARGUMENTS)
    (run_dir / SUMMARY).write_text(summary.model_copy(update={"str_sent": MARK}).model_dump_json())
    return run_dir


@pytest.fixture
def editcap() -> str:
    return require_command("editcap")


def is_kept(run_dir: Path, *arguments: Any) -> bool:
    return load_or_summarise(run_dir, *(arguments or ARGUMENTS)).str_sent == MARK


def test_the_summary_is_kept_as_json_beside_the_captures(run_dir: Path) -> None:
    summary = load_or_summarise(run_dir, *ARGUMENTS)
    assert json.loads((run_dir / SUMMARY).read_text())["str_sent"] == summary.str_sent == 100


def test_a_new_summary_is_what_summarise_says(run_dir: Path) -> None:
    fresh = summarise(run_dir / "sender.pcap", run_dir / "receiver.pcap", *ARGUMENTS)
    assert load_or_summarise(run_dir, *ARGUMENTS).model_copy(update={"source": None}) == fresh


def test_a_kept_summary_is_used(marked: Path) -> None:
    assert is_kept(marked)


def test_a_kept_summary_is_used_after_the_run_was_copied(marked: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    copy.mkdir()
    for name in ("sender.pcap", "receiver.pcap", SUMMARY):
        (copy / name).write_bytes((marked / name).read_bytes())
    assert is_kept(copy)


@pytest.mark.parametrize("side", ["sender", "receiver"])
def test_a_capture_in_which_one_bit_changed_is_summarised_again(marked: Path, side: str) -> None:
    path = marked / f"{side}.pcap"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    assert not is_kept(marked)


@pytest.mark.parametrize(
    "arguments",
    [
        (SESSION.model_copy(update={"udp_ports": (5222, 1)}), FILE_BYTES, None),
        (SESSION, FILE_BYTES + 1, None),
        (SESSION, FILE_BYTES, 1_700_000_000_000_000_000),
        (SESSION, FILE_BYTES, None, Expected(sender_counters=CaptureCounters(1, 1, 0, 0))),
        (SESSION, FILE_BYTES, None, Expected(mtu_bytes=9000)),
    ],
    ids=["session", "file size", "file whole at", "counters", "MTU"],
)
def test_with_other_arguments_a_run_is_summarised_again(marked: Path, arguments: tuple[Any, ...]) -> None:
    assert not is_kept(marked, *arguments)


def test_a_summary_of_another_schema_version_is_none(marked: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(captures.cache, "SCHEMA_VERSION", captures.cache.SCHEMA_VERSION + 1)
    assert load_summary(marked) is None


def test_a_summary_that_other_code_made_is_made_again(marked: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(captures.kept, "digest_of_code", lambda: "other")
    assert load_summary(marked) is not None
    assert not is_kept(marked)


@pytest.mark.parametrize("content", ["", "{}", '{"str_sent": 1', "null"])
def test_a_damaged_summary_is_made_again(marked: Path, content: str) -> None:
    (marked / SUMMARY).write_text(content)
    assert load_or_summarise(marked, *ARGUMENTS).str_sent == 100


def test_a_missing_capture_is_an_error_that_names_it(run_dir: Path) -> None:
    (run_dir / "receiver.pcap").unlink()
    with pytest.raises(FileNotFoundError, match=r"receiver\.pcap"):
        load_or_summarise(run_dir, *ARGUMENTS)


def test_headers_are_the_beginnings_of_the_frames_at_the_same_nanoseconds(tmp_path: Path, editcap: str) -> None:
    cut = tmp_path / "cut.pcap"
    write_headers(DATA / "mixed-sender.pcap", cut)
    before, after = read_columns(DATA / "mixed-sender.pcap"), read_columns(cut)
    assert (after.time_ns == before.time_ns).all()
    assert (after.wire_bytes == before.wire_bytes).all()
    whole = read_frames(before.path, before.offset, before.captured_bytes)
    assert read_frames(cut, after.offset, after.captured_bytes) == [frame[:HEADER_BYTES] for frame in whole]


def test_headers_of_a_capture_in_microseconds_and_the_other_byte_order_have_the_same_times(
    tmp_path: Path, editcap: str
) -> None:
    capture = write_pcap(tmp_path / "x.pcap", timed([udp_frame(bytes(300))] * 3), byte_order=">", tick_ns=1000)
    write_headers(capture, tmp_path / "cut.pcap")
    assert (read_columns(tmp_path / "cut.pcap").time_ns == read_columns(capture).time_ns).all()


def test_after_the_cut_the_kept_summary_is_still_valid(marked: Path, editcap: str) -> None:
    keep_only_headers(marked, {})
    assert capinfos(marked / "sender.pcap", "-l").startswith(str(HEADER_BYTES))
    assert is_kept(marked)


def test_a_cut_that_was_interrupted_between_the_captures_leaves_the_summary_valid(marked: Path, editcap: str) -> None:
    whole = (marked / "receiver.pcap").read_bytes()
    keep_only_headers(marked, {})
    (marked / "receiver.pcap").write_bytes(whole)
    assert is_kept(marked)


def test_cutting_twice_changes_nothing(marked: Path, editcap: str) -> None:
    keep_only_headers(marked, {})
    once = (marked / "sender.pcap").read_bytes()
    keep_only_headers(marked, {})
    assert (marked / "sender.pcap").read_bytes() == once
    assert is_kept(marked)


def test_the_cut_leaves_no_other_files(marked: Path, editcap: str) -> None:
    keep_only_headers(marked, {})
    assert sorted(path.name for path in marked.iterdir()) == ["receiver.pcap", "sender.pcap", SUMMARY]


def test_captures_without_a_summary_are_not_cut(run_dir: Path) -> None:
    with pytest.raises(RuntimeError, match=r"got no summary of the captures as they are.*load_or_summarise"):
        keep_only_headers(run_dir, {})


def test_captures_that_changed_after_the_summary_are_not_cut(marked: Path) -> None:
    with (marked / "sender.pcap").open("ab") as file:
        file.write(b"more")
    with pytest.raises(RuntimeError, match="got no summary of the captures as they are"):
        keep_only_headers(marked, {})


def test_without_editcap_the_captures_stay_and_the_error_says_what_to_install(
    marked: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = (marked / "sender.pcap").read_bytes()
    monkeypatch.setenv("PATH", "")
    with pytest.raises(RuntimeError, match="apt-get install"):
        keep_only_headers(marked, {})
    assert (marked / "sender.pcap").read_bytes() == whole


@pytest.mark.parametrize("name", ["netem-all", "netem-half", "netem-tcp", "mixed"])
def test_a_summary_from_headers_differs_only_in_the_bit_errors_that_were_cut_away(
    tmp_path: Path, name: str, editcap: str
) -> None:
    pairs = [(DATA / f"{name}-{side}.pcap", tmp_path / f"{side}.pcap") for side in ("sender", "receiver")]
    for whole, cut in pairs:
        write_headers(whole, cut)
    from_whole = summarise(pairs[0][0], pairs[1][0], *ARGUMENTS)
    from_headers = summarise(pairs[0][1], pairs[1][1], *ARGUMENTS)
    assert comparable(from_headers) == comparable(from_whole)
    assert from_headers.ledger_forward.corrupted <= from_whole.ledger_forward.corrupted


def test_a_summary_from_headers_says_so(tmp_path: Path, editcap: str) -> None:
    write_headers(DATA / "mixed-sender.pcap", tmp_path / "cut.pcap")
    whole, cut = DATA / "mixed-receiver.pcap", tmp_path / "cut.pcap"
    assert summarise(cut, whole, *ARGUMENTS).headers_only
    assert not summarise(whole, whole, *ARGUMENTS).headers_only


def comparable(summary: CaptureSummary) -> dict[str, object]:
    damage = {"delivered", "corrupted"}
    without = {"headers_only": True}
    return summary.model_dump(exclude=without | {"ledger_forward": damage, "ledger_reverse": damage})
