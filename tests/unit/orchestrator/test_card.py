"""The queueing discipline that gives a host's interface the rate of a card."""

from __future__ import annotations

import pytest

from owlt.orchestrator.rigs.rig import card_command


@pytest.mark.parametrize(("rate_bps", "burst"), [(1e6, "15140"), (1e9, "15140"), (1e11, "1514000")])
def test_the_burst_of_a_card_takes_no_less_time_above_1_gbit_s(rate_bps: float, burst: str) -> None:
    command = card_command("test0", rate_bps)

    assert command[command.index("burst") + 1] == burst
