"""The same seed or pattern: two protocols whose packets are as many and as long lose the same ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.system.conftest import Guest
from tests.system.test_emulator_channel import SCRIPTS, number, read_pcap

SEEDED = ["dropped", "bursts", "four-states", "bit-errors"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, guest_kernel: Any) -> Path:
    """The captures of all channels, from one boot."""
    out = tmp_path_factory.mktemp("same-losses")
    done = Guest(out, guest_kernel).run(SCRIPTS / "same_losses.py", timeout_s=120)
    assert done.returncode == 0, done.stderr
    return out


def lost(folder: Path) -> list[int]:
    """The numbers of the packets that came in and did not go out."""
    came_in, went_out = (
        [number(frame) for _, frame in read_pcap(folder / f"{name}.pcap")] for name in ("sender-in", "receiver-out")
    )
    assert came_in == list(range(2000))
    return sorted(set(came_in) - set(went_out))


@pytest.mark.parametrize("channel", [*SEEDED, "pattern"])
def test_two_protocols_lose_the_same_packets(folder: Path, channel: str) -> None:
    assert lost(folder / f"{channel}-one") == lost(folder / f"{channel}-other") != []


@pytest.mark.parametrize("channel", SEEDED)
def test_with_another_seed_other_packets_are_lost(folder: Path, channel: str) -> None:
    assert lost(folder / f"{channel}-one") != lost(folder / f"{channel}-reseeded")


def test_a_pattern_loses_exactly_what_it_lists_whatever_the_seed(folder: Path) -> None:
    listed = [0, 1, 5, 700, 1999]

    assert lost(folder / "pattern-one") == lost(folder / "pattern-reseeded") == listed
