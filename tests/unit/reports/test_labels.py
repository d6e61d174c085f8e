"""How implementations are called in a report."""

from __future__ import annotations

import pytest

from owlt.agents.contract.implementation import Implementation
from owlt.orchestrator.profiles.catalogue import implementations_of
from owlt.reports.results.load import congestion_control_of, labels_of
from tests.unit.reports.conftest import sweep


def profiles(*names: str, **parameters: dict[str, object]) -> dict[str, Implementation]:
    return implementations_of(sweep(implementations=list(names), parameters=parameters))


def labels(*names: str, **parameters: dict[str, object]) -> list[str]:
    return list(labels_of(profiles(*names, **parameters)).values())


def test_a_label_leaves_out_the_remark_of_a_title() -> None:
    assert labels("cfdp", "norm", "tcp") == ["CFDP", "NORM", "TCP"]


def test_a_remark_distinguishes_implementations_of_one_protocol() -> None:
    assert labels("cfdp", "cfdp-librecube", "ltp") == ["CFDP (cfdp-py)", "CFDP (LibreCube)", "LTP"]


def test_a_congestion_control_is_written_as_the_field_writes_it() -> None:
    assert labels("tcp", tcp={"congestion_control": ["cubic", "reno", "bbr", "htcp"]}) == [
        "TCP CUBIC",
        "TCP Reno",
        "TCP BBR",
        "TCP H-TCP",
    ]


@pytest.mark.parametrize(
    ("key", "value", "label"),
    [
        ("segment_bytes", 500, "TCP, segment 500 B"),
        ("delack_limit_ms", 20, "TCP, delack limit 20 ms"),
        ("initcwnd", 4, "TCP, initcwnd 4"),
        ("buffers", "kernel", "TCP, buffers kernel"),
    ],
)
def test_a_varied_parameter_follows_with_its_unit(key: str, value: object, label: str) -> None:
    assert labels("tcp", tcp={key: [value, "9999"]})[0] == label


def test_a_parameter_that_does_not_vary_is_not_in_the_label() -> None:
    assert labels("tcp", tcp={"congestion_control": "bbr", "segment_bytes": [500, 700]}) == [
        "TCP, segment 500 B",
        "TCP, segment 700 B",
    ]


def test_the_version_of_a_congestion_control_of_linux_is_known() -> None:
    chosen = profiles("tcp", "ngtcp2", tcp={"congestion_control": "bbr"}, ngtcp2={"congestion_control": "bbr"})

    assert {name: congestion_control_of(each) for name, each in chosen.items()} == {
        "tcp": "BBR version 1 (tcp_bbr of Linux)",
        "ngtcp2": "",
    }
