"""The provenance of a machine: digests by group, and what two machines differ in."""

from __future__ import annotations

from pathlib import Path

import pytest

from owlt.orchestrator.errors import Missing
from owlt.orchestrator.rigs.provenance import (
    NOT_INSTALLED,
    Provenance,
    differences,
    file_digest,
    packages_of,
    programs_and_libraries,
    provenance_of,
    read_provenances,
    tree,
    write_provenance,
)

HERE = Provenance(
    groups={"kernel": {"guest": "1"}, "owlt": {f"{number}.py": "1" for number in range(9)}},
    implementations={"norm": {"norm/bin/normCast": "1"}, "ltp": {"licklider": "1"}},
)


def test_equal_machines_do_not_differ() -> None:
    assert differences(HERE, HERE.model_copy(deep=True)) == []


def test_a_file_that_differs_is_named_after_its_group() -> None:
    other = HERE.model_copy(update={"groups": HERE.groups | {"kernel": {"guest": "2"}}})

    assert differences(HERE, other) == ["kernel: guest"]


def test_a_file_that_one_machine_does_not_have_differs() -> None:
    assert differences(HERE, HERE.model_copy(update={"implementations": {"norm": {}, "ltp": {"licklider": "1"}}})) == [
        "norm: norm/bin/normCast"
    ]


def test_of_many_files_the_first_are_named() -> None:
    assert differences(HERE, HERE.model_copy(update={"groups": {"kernel": {"guest": "1"}}})) == [
        "owlt: 0.py, 1.py, 2.py, 3.py, 4.py and 4 more"
    ]


def test_the_digests_of_a_run_do_not_depend_on_other_implementations() -> None:
    alone = HERE.model_copy(update={"implementations": {"norm": HERE.implementations["norm"]}})

    assert alone.digests("norm") == HERE.digests("norm")
    assert HERE.digests("norm") != HERE.digests("ltp")


def test_an_unknown_machine_has_no_digests() -> None:
    assert Provenance().digests("norm") == {}


def test_a_machine_is_read_as_it_was_written(tmp_path: Path) -> None:
    write_provenance(HERE, tmp_path)
    write_provenance(HERE, tmp_path)

    assert list(read_provenances(tmp_path)) == [HERE]


def test_a_tree_has_the_digest_of_each_file_by_its_path(tmp_path: Path) -> None:
    for name in ("a", "b", "__pycache__"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text(name)

    assert tree(tmp_path, ("__pycache__",)) == {
        "a/file": file_digest(tmp_path / "a" / "file"),
        "b/file": file_digest(tmp_path / "b" / "file"),
    }


def test_a_script_is_a_program_without_libraries(tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text("#!/bin/sh\n")
    script.chmod(0o755)

    assert list(programs_and_libraries([script])) == [str(script)]


def test_another_kernel_of_guests_is_another_machine(tmp_path: Path) -> None:
    for name in ("one", "other"):
        (tmp_path / name).write_text(name)

    assert differences(provenance_of(tmp_path / "one", {}), provenance_of(tmp_path / "other", {})) == ["kernel: guest"]


def test_this_machine_has_a_digest_for_every_group_of_files() -> None:
    groups = provenance_of(None, {}).groups

    assert {name for name, group in groups.items() if group} == {"kernel", "owlt", "python", "packages", "system"}
    assert "orchestrator/rigs/provenance.py" in groups["owlt"]
    assert any(name.startswith("numpy ") for name in groups["packages"])
    assert any("libc.so" in name for name in groups["system"])


def test_a_required_package_that_is_not_installed_is_named_in_the_place_of_its_digest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed = tmp_path / "asker-1.0.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: asker\nVersion: 1.0\nRequires-Dist: no-such-package\n"
    )
    monkeypatch.syspath_prepend(tmp_path)

    assert packages_of("asker") == {"no-such-package": NOT_INSTALLED}


def test_a_clone_that_is_not_installed_has_a_provenance() -> None:
    assert packages_of("no-such-package") == {"no-such-package": NOT_INSTALLED}


def test_a_missing_ldd_is_a_message_with_the_package(tmp_path: Path) -> None:
    with pytest.raises(Missing, match=r"ldd, which lists the libraries .* is missing; apt-get install libc-bin"):
        programs_and_libraries([Path("/bin/sh")], search_path=str(tmp_path))
