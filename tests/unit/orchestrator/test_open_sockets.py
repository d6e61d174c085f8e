"""The sockets that a run has opened on a host, beside those of its other services."""

from __future__ import annotations

import pytest

from owlt.orchestrator.run.observing import opened_since

BEFORE = ["tcp 22 ESTABLISHED", "tcp 22 LISTEN", "udp 123"]


@pytest.mark.parametrize(
    ("now", "opened"),
    [
        (BEFORE, []),
        ([*BEFORE, "udp 4556"], ["udp 4556"]),
        ([*BEFORE, "udp 123"], ["udp 123"]),
        ([*BEFORE, "tcp 5001 LISTEN", "tcp 5001 ESTABLISHED"], ["tcp 5001 ESTABLISHED", "tcp 5001 LISTEN"]),
        ([*BEFORE, "tcp 22 ESTABLISHED", "tcp 22 CLOSE_WAIT"], []),
        ([*BEFORE, "tcp 2222 ESTABLISHED"], ["tcp 2222 ESTABLISHED"]),
    ],
    ids=["none", "one of UDP", "a second one", "a server", "further connections of SSH", "a similar port"],
)
def test_sockets_of_the_run_are_those_that_no_service_of_the_host_had_before(now: list[str], opened: list[str]) -> None:
    assert opened_since(BEFORE, now) == opened
