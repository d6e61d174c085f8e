"""What the journal says of earlier starts of a sweep."""

from __future__ import annotations

from owlt.orchestrator.sweep.journal import entries_in


def test_damaged_lines_of_a_journal_are_skipped() -> None:
    lines = b'{"at_s": 1.0, "batch": 3, "event": "boot"}\n\xff\x00\xfe\n[]\n{"batch": "x"}\n{"at_s": 2.0, "ba'

    assert [each.batch for each in entries_in(lines.decode(errors="replace").splitlines())] == [3]


OF_AN_EARLIER_VERSION = """\
{"at_s": 1795351028.9676, "batch": 16, "event": "boot", "slot": 0}
{"at_s": 1795351029.8693, "batch": 16, "event": "connect"}
{"at_s": 1795351032.258, "batch": 16, "event": "certify", "channel": "b54e26e08c50d77d"}
{"at_s": 1795351035.5, "batch": 16, "event": "certified", "channel": "b54e26e08c50d77d", "verdict": "ok"}
{"at_s": 1795351035.6, "batch": 16, "event": "end"}
{"at_s": 1795351036.1, "batch": 0, "event": "wait", "for": "a quiet machine"}
{"at_s": 1795351037.0, "batch": 0, "event": "run", "run_id": "cfdp_1MB_r1"}
{"at_s": 1795351037.1, "batch": 0, "event": "phase", "run_id": "cfdp_1MB_r1", "phase": "apply"}
{"at_s": 1795351038.0, "batch": 0, "event": "done", "run_id": "cfdp_1MB_r1", "outcome": "completed", "reason": ""}
{"at_s": 1795351038.1, "batch": 0, "event": "published", "run_id": "cfdp_1MB_r1", "outcome": "completed", "reason": ""}
"""


def test_every_line_of_a_journal_of_an_earlier_version_is_read() -> None:
    names = [each.event.event for each in entries_in(OF_AN_EARLIER_VERSION.splitlines())]

    assert names == ["boot", "connect", "certify", "certified", "end", "wait", "run", "phase", "done", "published"]
