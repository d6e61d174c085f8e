"""When the kernel and the packets are said to disagree."""

from __future__ import annotations

from typing import Any

import pytest

from owlt.captures.protocols.tcp_counts import TcpCounts
from owlt.reports.results.records import HostTcp
from owlt.reports.results.tcp_agreement import tcp_disagreement


def host(*total_retrans: int, is_final: bool = True) -> HostTcp:
    return HostTcp(sockets=tuple({"is_final": is_final, "total_retrans": count} for count in total_retrans))


def packets(sent_again: int) -> TcpCounts:
    nothing: dict[str, Any] = dict.fromkeys(TcpCounts.model_fields, 0)
    return TcpCounts(**nothing | {"sent_again": sent_again})


def test_the_sum_over_all_connections_agrees_with_the_packets() -> None:
    assert tcp_disagreement(host(3, 4), packets(7)) == ""


@pytest.mark.parametrize("sent_again", [6, 8])
def test_a_difference_of_one_is_a_sentence_with_both_counts(sent_again: int) -> None:
    sentence = tcp_disagreement(host(3, 4), packets(sent_again))

    assert "7 retransmitted segments" in sentence
    assert f"{sent_again} reached" in sentence


@pytest.mark.parametrize("sender", [HostTcp(problem="the sampler ended"), host(3, is_final=False)])
def test_a_kernels_count_that_may_not_be_complete_disagrees_with_nothing(sender: HostTcp) -> None:
    assert tcp_disagreement(sender, packets(9)) == ""
