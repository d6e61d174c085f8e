"""`owlt prove` on our endpoints: the file is delivered after every fault, and runs that share their beginning are the
same as when they are performed alone and whole."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.system.fault_trials import UDP, is_shared, owlt, with_defect

pytestmark = pytest.mark.usefixtures("guest_kernel")
ENDPOINTS = ["cfdp", "ltp", "norm", "saratoga", "bp-cs"]
Proof = tuple[Path, int, dict[str, Any]]
"""Its directory, exit status and result."""


@pytest.fixture(scope="module")
def proof_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Proof]:
    """The proof of an endpoint with each loss, duplicate and delay; of CFDP with each loss."""

    @cache
    def proven(endpoint: str) -> Proof:
        folder = tmp_path_factory.mktemp(endpoint)
        profile = with_defect("none", folder, endpoint, UDP if endpoint == "bp-cs" else {})
        kinds = ["--faults", "drop,duplicate,delay"] if endpoint != "cfdp" else []
        return folder, *owlt(folder, "prove", str(profile), "--file-size", "2 kB", "--guests", "1", *kinds)

    return proven


def test_a_sound_endpoint_delivers_after_the_loss_of_any_packet(proof_of: Callable[[str], Proof]) -> None:
    _, status, proof = proof_of("cfdp")
    lost = [trial["faults"] for trial in proof["trials"]]

    assert (status, proof["proven"], proof["counterexample"]) == (0, True, None)
    assert lost[0] == []
    assert sorted(name for (name,) in lost[1:]) == [
        "forward #1 (metadata) is lost",
        "forward #2 (data) is lost",
        "forward #3 (data) is lost",
        "forward #4 (EOF) is lost",
        "forward #5 (ACK of Finished) is lost",
        "reverse #1 (ACK of EOF) is lost",
        "reverse #2 (Finished) is lost",
    ]


@pytest.mark.parametrize("endpoint", ENDPOINTS[1:])
def test_a_sound_endpoint_of_each_protocol_delivers_after_every_loss_duplicate_and_delay(
    proof_of: Callable[[str], Proof], endpoint: str
) -> None:
    _, status, proof = proof_of(endpoint)

    assert (status, proof["proven"]) == (0, True)


@pytest.mark.parametrize("endpoint", [each for each in ENDPOINTS if each != "norm"])
def test_a_run_that_shares_its_beginning_has_the_packets_of_the_whole_run(
    proof_of: Callable[[str], Proof], endpoint: str
) -> None:
    folder, _, proof = proof_of(endpoint)
    runs = [folder / trial["run"] for trial in proof["trials"] if trial["faults"]]
    shared = [run for run in runs if is_shared(run)]

    replays = [owlt(folder, "replay", str(run))[1] for run in (shared[0], shared[-1])]

    assert len(shared) == len(runs) - 1  # all but the first
    assert [replay["captures"] for replay in replays] == [{"sender.pcap": "", "receiver.pcap": ""}] * 2
