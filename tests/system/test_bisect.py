"""`owlt bisect` finds the version from which on a program sends other packets."""

from __future__ import annotations

import json
from pathlib import Path

from ruamel.yaml import YAML

from owlt.orchestrator.kernel.kernel import Kernel
from owlt.orchestrator.profiles.catalogue import PROFILES
from tests.system.sweeps import owlt


def test_the_version_with_other_packets_is_found(tmp_path: Path, guest_kernel: Kernel) -> None:
    """Of four versions of CFDP, the last two send smaller segments."""
    profile = YAML(typ="safe").load(PROFILES / "implementations" / "cfdp.yaml")
    paths = [tmp_path / f"cfdp-{number}.yaml" for number in range(1, 5)]
    for path, segment_bytes in zip(paths, (1000, 1000, 900, 900), strict=True):
        parameters = profile["parameters"] | {"segment_bytes": segment_bytes}
        path.write_text(json.dumps(profile | {"name": path.stem, "parameters": parameters}))

    done = owlt("bisect", *paths, "--file-size", "5 kB", "--json")

    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert (result["last_good"], result["first_bad"]) == (str(paths[1]), str(paths[2]))
    assert "packet with payload 2: 1014 B" in result["tried"][-1]["why"]
