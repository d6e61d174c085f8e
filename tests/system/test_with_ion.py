"""Our LTP engine and our custody against JPL's ION, both ways and without anything between them, over three channels.

ION is in no registry, so CI has none: there, `tests/unit/agents/test_recorded_ion.py` holds what was recorded here.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from owlt.orchestrator.own_directories import third_party_directory
from tests.system.sweeps import IMPLEMENTATIONS, RECORDED, perform, records

CHANNELS = {"clean": (25, 0), "lossy": (250, 0.01), "far": (1250, 0.1)}
"""One-way delay in ms, packet error rate both ways."""
OURS = {"ltp-to-ion": "sender", "ion-to-ltp": "receiver", "bp-to-ion": "sender", "ion-to-bp": "receiver"}


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory, guest_kernel: object) -> Path:
    """LTP, custody signals and aggregates, each with ION as receiver and as sender: 18 runs."""
    programs = third_party_directory() / "ion" / "bin"
    if not all((programs / name).exists() for name in ("ionadmin", "acsadmin")):
        pytest.skip(f"missing capability: ION 4.1.3, built with --enable-bpv6 --enable-acs, in {programs}")
    directory = tmp_path_factory.mktemp("ion")
    names = []
    for name, (delay_ms, rate) in CHANNELS.items():
        link: dict[str, Any] = {"delay": f"{delay_ms} ms", "rate": "10 Mbit/s", "packet_error_rate": rate}
        path = directory / f"{name}.yaml"
        path.write_text(json.dumps({"name": name, "title": name, "forward": link, "reverse": link}))
        names.append(str(path))
    done = perform(
        directory,
        directory / "results",
        implementations=[str(IMPLEMENTATIONS / f"{name}.yaml") for name in OURS],
        parameters={name: {"custody": ["acs", "cs"]} for name in OURS if "bp" in name},
        channel=names,
        certify=False,
        keep_captures="full",
        runs_per_guest=6,
    )
    assert done.returncode in RECORDED, done.stderr
    return directory / "results"


def last_line(results: Path, run_id: str, implementation: str) -> str:
    """What our side said at its end."""
    return (results / "runs" / run_id / f"{our_side(implementation)}.out").read_text().splitlines()[-1]


def our_side(implementation: str) -> str:
    """Which side is not ION; behind a plus stand parameters that tell implementations apart."""
    return OURS[implementation.partition("+")[0]]


def test_every_file_arrives_whichever_side_is_ion(results: Path) -> None:
    found = records(results)

    assert len(found) == 18
    assert {run_id: run["reason"] for run_id, run in found.items() if run["outcome"] != "completed"} == {}


def test_our_side_completes_and_refuses_nothing_of_ion(results: Path) -> None:
    for run_id, run in records(results).items():
        line = last_line(results, run_id, run["implementation"])
        assert line.startswith("complete "), run_id
        assert " unreadable=0 " in line, run_id
        assert "ltp" not in run["implementation"] or " refused=0 " in line, run_id
        assert line.endswith(" from_other_addresses=0"), run_id


def test_custody_is_signalled_as_was_asked(results: Path) -> None:
    for run_id, run in records(results).items():
        if "bp" in run["implementation"]:
            line = last_line(results, run_id, run["implementation"])
            way = "received" if our_side(run["implementation"]) == "sender" else "sent"
            assert re.search(rf" {way}=\({run['parameters']['custody']}=[1-9][0-9]*\) ", line), (run_id, line)
