"""`owlt prove` on our endpoints: the file is delivered after every fault."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.system.fault_trials import UDP, owlt, with_defect

pytestmark = pytest.mark.usefixtures("guest_kernel")


def test_a_sound_endpoint_delivers_after_the_loss_of_any_packet(tmp_path: Path) -> None:
    status, proof = owlt(tmp_path, "prove", str(with_defect("none", tmp_path)), "--file-size", "2 kB")
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


@pytest.mark.parametrize("endpoint", ["ltp", "norm", "saratoga", "bp-cs"])
def test_a_sound_endpoint_of_each_protocol_delivers_after_every_loss_duplicate_and_delay(
    tmp_path: Path, endpoint: str
) -> None:
    profile = with_defect("none", tmp_path, endpoint, UDP if endpoint == "bp-cs" else {})
    status, proof = owlt(tmp_path, "prove", str(profile), "--file-size", "2 kB", "--faults", "drop,duplicate,delay")

    assert (status, proof["proven"]) == (0, True)
