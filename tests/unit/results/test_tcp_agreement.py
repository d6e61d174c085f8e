"""When the kernel and the packets are said to disagree."""

from __future__ import annotations

import pytest

from owlt.results.judgements import tcp_disagreement
from owlt.results.record import HostTcp


def host(*total_retrans: int, is_final: bool = True) -> HostTcp:
    return HostTcp(sockets=[{"is_final": is_final, "total_retrans": count} for count in total_retrans])


def test_the_sum_over_all_connections_agrees_with_the_packets() -> None:
    assert tcp_disagreement(host(3, 4), 7) == ""


@pytest.mark.parametrize("sent_again", [6, 8])
def test_a_difference_of_one_is_a_sentence_with_both_counts(sent_again: int) -> None:
    sentence = tcp_disagreement(host(3, 4), sent_again)

    assert "7 retransmitted segments" in sentence
    assert f"{sent_again} reached" in sentence


@pytest.mark.parametrize("sender", [HostTcp(problem="the sampler ended"), host(3, is_final=False)])
def test_a_kernels_count_that_may_not_be_complete_disagrees_with_nothing(sender: HostTcp) -> None:
    assert tcp_disagreement(sender, 9) == ""
