"""The kept summary is used while it is true, also after the captures were cut to their headers."""

from __future__ import annotations

import base64
import json
import shutil
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from owlt.captures.accounting.cutting import HEADER_BYTES, is_cut, keep_only_headers, write_cut
from owlt.captures.accounting.derived_files import PAIRS, load_or_match, load_pairs
from owlt.captures.accounting.summary import SCHEMA_VERSION, Transfer, load_or_summarise, load_summary
from owlt.captures.accounting.suspicion import Expected
from owlt.captures.frames.columns import read_columns
from owlt.captures.matches.bottleneck import Link
from owlt.captures.matches.delivery import Delivery
from owlt.captures.matches.matching import match_captures
from owlt.results.record import SUMMARY, CaptureCounters
from tests.unit.captures.making import DATA, GROUP, RECEIVER, SESSION, later, timed, udp_frame, write_pcap
from tests.unit.captures.summarising import summarise

FILE_BYTES = 6000
ARGUMENTS = (SESSION, Transfer(FILE_BYTES))
MARK = 424_242
PACKETS = timed([udp_frame(n.to_bytes(4, "big") * 50) for n in range(20)])


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


@pytest.mark.parametrize(("group", "is_suspect"), [("230.5.5.56", True), ("224.0.0.251", False), (GROUP, False)])
def test_a_run_whose_packets_went_to_a_group_that_its_profile_does_not_name_is_suspect(
    tmp_path: Path, group: str, is_suspect: bool
) -> None:
    sent = timed([udp_frame(n.to_bytes(4, "big") * 50, destination=group if n % 2 else RECEIVER) for n in range(20)])
    write_pcap(tmp_path / "sender.pcap", sent)
    write_pcap(tmp_path / "receiver.pcap", later(sent, 10**6))
    reasons = load_or_summarise(tmp_path, *ARGUMENTS).suspect
    assert any(f"10 packets on the session's ports went to the group {group}" in each for each in reasons) == is_suspect


def is_kept(run_dir: Path, *arguments: Any) -> bool:
    return load_or_summarise(run_dir, *(arguments or ARGUMENTS)).str_sent == MARK


def change_file(path: Path, change: Callable[[dict[str, Any]], None]) -> None:
    values = json.loads(path.read_text())
    change(values)
    path.write_text(json.dumps(values))


def made_by_other_code(values: dict[str, Any]) -> None:
    values["source"]["code"] = "other"


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
        (SESSION.model_copy(update={"udp_ports": (5222, 1)}), Transfer(FILE_BYTES)),
        (SESSION, Transfer(FILE_BYTES + 1)),
        (SESSION, Transfer(FILE_BYTES, 1_700_000_000_000_000_000)),
        (SESSION, Transfer(FILE_BYTES, expected=Expected(sender_counters=CaptureCounters(1, 1, 0, 0)))),
        (SESSION, Transfer(FILE_BYTES, expected=Expected(mtu_bytes=9000))),
        (SESSION, Transfer(FILE_BYTES, rate_bps=1e6)),
        (SESSION, Transfer(FILE_BYTES, links=(Link(1, 1e6), None))),
        (SESSION, Transfer(FILE_BYTES, duration_s=1.0)),
    ],
    ids=["session", "file size", "file whole at", "counters", "MTU", "rate", "links", "duration"],
)
def test_with_other_arguments_a_run_is_summarised_again(marked: Path, arguments: tuple[Any, ...]) -> None:
    assert not is_kept(marked, *arguments)


def test_a_summary_of_another_schema_version_is_none(marked: Path) -> None:
    change_file(marked / SUMMARY, lambda values: values.update(schema_version=SCHEMA_VERSION + 1))
    assert load_summary(marked) is None


def test_a_summary_that_other_code_made_is_made_again(marked: Path) -> None:
    change_file(marked / SUMMARY, made_by_other_code)
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


def test_only_the_frames_that_are_named_are_cut(tmp_path: Path) -> None:
    capture = read_columns(write_pcap(tmp_path / "x.pcap", timed([udp_frame(bytes(300))] * 3)))
    write_cut(capture, np.array([1]), tmp_path / "cut.pcap")
    whole = len(udp_frame(bytes(300)))
    assert read_columns(tmp_path / "cut.pcap").captured_bytes.tolist() == [whole, HEADER_BYTES, whole]


def test_a_capture_says_in_its_header_that_it_was_cut(tmp_path: Path) -> None:
    capture = read_columns(write_pcap(tmp_path / "x.pcap", timed([udp_frame(bytes(300))] * 3)))
    write_cut(capture, np.array([1]), tmp_path / "cut.pcap")
    assert (is_cut(tmp_path / "x.pcap"), is_cut(tmp_path / "cut.pcap")) == (False, True)


def test_a_cut_capture_of_one_in_microseconds_and_the_other_byte_order_has_the_same_times(tmp_path: Path) -> None:
    frames = timed([udp_frame(bytes(300))] * 3)
    capture = read_columns(write_pcap(tmp_path / "x.pcap", frames, byte_order=">", tick_ns=1000))
    write_cut(capture, np.arange(3), tmp_path / "cut.pcap")
    assert (read_columns(tmp_path / "cut.pcap").time_ns == capture.time_ns).all()


def test_after_the_cut_the_kept_summary_is_still_valid(marked: Path) -> None:
    keep_only_headers(marked, SESSION, {})
    assert is_kept(marked)


def test_the_cut_leaves_the_first_packets_of_the_sender_and_all_of_the_receiver_complete(run_dir: Path) -> None:
    near = write_pcap(run_dir / "sender.pcap", PACKETS)
    write_pcap(run_dir / "receiver.pcap", later(PACKETS, 25_000_000))
    load_or_summarise(run_dir, *ARGUMENTS)
    keep_only_headers(run_dir, SESSION, {})
    for path in (near, run_dir / "receiver.pcap"):
        cut = [row for row, cut in enumerate(read_columns(path).is_cut.tolist()) if cut]
        assert cut == list(range(8, 20))


def test_a_cut_that_was_interrupted_between_the_captures_leaves_the_summary_valid(marked: Path) -> None:
    whole = (marked / "receiver.pcap").read_bytes()
    keep_only_headers(marked, SESSION, {})
    (marked / "receiver.pcap").write_bytes(whole)
    assert is_kept(marked)


def test_cutting_twice_changes_nothing(marked: Path) -> None:
    keep_only_headers(marked, SESSION, {})
    once = (marked / "sender.pcap").read_bytes()
    keep_only_headers(marked, SESSION, {})
    assert (marked / "sender.pcap").read_bytes() == once
    assert is_kept(marked)


def test_the_cut_leaves_no_other_files(marked: Path) -> None:
    keep_only_headers(marked, SESSION, {})
    assert sorted(path.name for path in marked.iterdir()) == [PAIRS, "receiver.pcap", "sender.pcap", SUMMARY]


def test_captures_without_a_summary_are_not_cut(run_dir: Path) -> None:
    with pytest.raises(RuntimeError, match=r"expected a summary of these captures.*load_or_summarise"):
        keep_only_headers(run_dir, SESSION, {})


def test_captures_that_changed_after_the_summary_are_not_cut(marked: Path) -> None:
    with (marked / "sender.pcap").open("ab") as file:
        file.write(b"more")
    with pytest.raises(RuntimeError, match="expected a summary of these captures"):
        keep_only_headers(marked, SESSION, {})


def deliveries_in(run_dir: Path) -> list[dict[str, object]]:
    """What is kept of the packets of both directions, as lists."""
    both = [read_columns(run_dir / f"{side}.pcap") for side in ("sender", "receiver")]
    kept = load_pairs(run_dir, *both, SESSION)
    assert kept is not None
    return [as_lists(delivery) for delivery in (kept.forward, kept.reverse)]


def as_lists(delivery: Delivery) -> dict[str, object]:
    values = {name: getattr(delivery, name) for name in Delivery.__dataclass_fields__ if name != "background"}
    background = {} if delivery.background is None else as_lists(delivery.background)
    lists = {name: value.tolist() if isinstance(value, np.ndarray) else value for name, value in values.items()}
    return lists | {f"background {name}": value for name, value in background.items()}


@pytest.mark.parametrize("name", ["netem-all", "netem-half", "netem-tcp", "mixed"])
def test_what_became_of_each_packet_is_kept_as_it_was_found(tmp_path: Path, name: str) -> None:
    for side in ("sender", "receiver"):
        shutil.copy(DATA / f"{name}-{side}.pcap", tmp_path / f"{side}.pcap")
    both = [read_columns(tmp_path / f"{side}.pcap") for side in ("sender", "receiver")]
    load_or_match(tmp_path, *both, SESSION)
    found = match_captures(*both, SESSION)
    assert deliveries_in(tmp_path) == [as_lists(delivery) for delivery in (found.forward, found.reverse)]


def test_after_the_cut_what_became_of_each_packet_is_known_as_before(run_dir: Path) -> None:
    load_or_summarise(run_dir, *ARGUMENTS)
    before = deliveries_in(run_dir)
    keep_only_headers(run_dir, SESSION, {})
    assert deliveries_in(run_dir) == before


def test_pairs_of_complete_captures_that_other_code_made_are_not_taken(run_dir: Path) -> None:
    load_or_summarise(run_dir, *ARGUMENTS)
    change_file(run_dir / PAIRS, made_by_other_code)
    both = [read_columns(run_dir / f"{side}.pcap") for side in ("sender", "receiver")]
    assert load_pairs(run_dir, *both, SESSION) is None


def test_pairs_of_cut_captures_that_other_code_made_give_the_summary_of_the_complete_ones(run_dir: Path) -> None:
    before = load_or_summarise(run_dir, *ARGUMENTS)
    keep_only_headers(run_dir, SESSION, {})
    for name in (PAIRS, SUMMARY):
        change_file(run_dir / name, made_by_other_code)
    after = load_or_summarise(run_dir, *ARGUMENTS)
    assert after.model_copy(update={"source": None}) == before.model_copy(update={"source": None})


def test_pairs_of_other_captures_are_not_taken(run_dir: Path) -> None:
    load_or_summarise(run_dir, *ARGUMENTS)
    write_pcap(run_dir / "sender.pcap", PACKETS)
    both = [read_columns(run_dir / f"{side}.pcap") for side in ("sender", "receiver")]
    assert load_pairs(run_dir, *both, SESSION) is None


@pytest.mark.parametrize(
    "rows", [zlib.compress(bytes(4_000_000)), zlib.compress(b"\xff\xff\xff\x7f"), zlib.compress(b"abc"), b"no zlib"]
)
def test_forged_pairs_are_not_used(run_dir: Path, rows: bytes) -> None:
    """Among them a few bytes that stand for a million rows."""
    load_or_summarise(run_dir, *ARGUMENTS)
    stored = json.loads((run_dir / PAIRS).read_text())
    stored["forward"]["delivered"] = base64.b64encode(rows).decode()
    (run_dir / PAIRS).write_text(json.dumps(stored))
    both = [read_columns(run_dir / f"{side}.pcap") for side in ("sender", "receiver")]
    assert load_pairs(run_dir, *both, SESSION) is None


def test_what_is_kept_of_packets_is_small(run_dir: Path) -> None:
    """A hundred packets, half of them damaged, of which a tenth was lost."""
    load_or_summarise(run_dir, *ARGUMENTS)
    assert (run_dir / PAIRS).stat().st_size < 3_000
