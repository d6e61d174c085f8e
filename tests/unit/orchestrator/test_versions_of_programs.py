"""Implementations with another version of their third-party program."""

from __future__ import annotations

import pytest

from owlt.agents.contract.requirements import Binary
from owlt.orchestrator.errors import OwltError
from owlt.orchestrator.profiles.catalogue import find_implementation
from owlt.orchestrator.profiles.third_party import find_installables
from owlt.orchestrator.profiles.versions import binary_of_version, find_version, versions_between


def test_another_version_is_the_same_profile_with_the_program_of_that_version() -> None:
    pinned, other = find_implementation("pycfdp"), find_version("pycfdp@0.2.2")
    (program,) = other.binary.values()

    assert program.search == ["{third_party}/pycfdp@0.2.2/bin/owlt-pycfdp"]
    assert program.fix == "owlt third-party install pycfdp@0.2.2"
    assert other.title.endswith(", version 0.2.2, not pinned by owlt")
    assert other.model_copy(update={"binary": pinned.binary, "title": pinned.title}) == pinned


def test_a_program_of_another_version_is_not_looked_for_in_path() -> None:
    (installed,) = find_installables(["pycfdp@0.2.2"])
    binary = Binary(search=["owlt-pycfdp", "{third_party}/pycfdp/bin/owlt-pycfdp"], fix="install it")

    assert binary_of_version(binary, installed).search == ["{third_party}/pycfdp@0.2.2/bin/owlt-pycfdp"]


def test_the_pinned_version_is_the_profile_itself() -> None:
    assert find_version("pycfdp@0.2.3") == find_version("pycfdp") == find_implementation("pycfdp")


def test_an_implementation_without_a_third_party_program_has_no_versions() -> None:
    with pytest.raises(OwltError, match="ltp: has no other versions"):
        find_version("ltp@1.0")


def test_a_version_that_is_not_installed_is_named_with_how_to_install_it() -> None:
    with pytest.raises(OwltError, match=r"pycfdp@0\.1\.7: is not installed.*owlt third-party install pycfdp@0\.1\.7"):
        versions_between("pycfdp", "0.1.7", "0.2.3")
