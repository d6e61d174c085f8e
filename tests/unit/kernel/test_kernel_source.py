"""Which kernel source is chosen among those on offer, and where it is looked for."""

from __future__ import annotations

from pathlib import Path

import pytest

from owlt.orchestrator.errors import Missing
from owlt.orchestrator.kernel.source import NEWER_SUITES, Archive, choose, fetch_source, local_source, places

DEBIAN = Archive("http://mirror.example/debian", ("bookworm", "bookworm-updates"), ("main",), "/k.gpg")
SECURITY = Archive("http://mirror.example/debian-security", ("bookworm-security",), ("main",))


def nobody(_phase: str, _fraction: float | None, _message: str) -> None:
    """Told, and takes no notice."""


def test_a_proven_source_with_seccomp_mode_is_chosen_before_a_newer_one() -> None:
    assert choose(["linux-source-7.5", "linux-source-7.3", "linux-source-6.1"]) == "linux-source-7.3"


def test_when_the_archive_has_moved_on_the_newest_with_seccomp_mode_is_chosen() -> None:
    offered = ["linux-source-6.1", "linux-source-7.5", "linux-source-7.10", "linux-source-6.12"]

    assert choose(offered) == "linux-source-7.10"


def test_without_seccomp_mode_the_newest_proven_one_is_chosen() -> None:
    assert choose(["linux-source-6.1", "linux-source-6.12", "linux-source-6.15"]) == "linux-source-6.12"


def test_the_fallback_alone_is_chosen() -> None:
    assert choose(["linux-source", "linux-source-6.1"]) == "linux-source-6.1"


def test_the_package_without_a_version_is_not_chosen() -> None:
    assert choose(["linux-source", "linux-source-rt"]) is None


def test_newer_suites_are_looked_at_first_and_the_releases_own_last() -> None:
    assert [suite for suite, _ in places([DEBIAN, SECURITY], "bookworm")] == [*NEWER_SUITES, "bookworm"]


def test_newer_suites_come_from_the_machines_own_mirror_with_its_key() -> None:
    text = dict(places([DEBIAN, SECURITY], "bookworm"))["trixie-backports"]

    assert "URIs: http://mirror.example/debian\n" in text
    assert "Suites: trixie-backports\n" in text
    assert "Signed-By: /k.gpg\n" in text


def test_the_releases_own_suites_include_its_security_fixes() -> None:
    text = dict(places([DEBIAN, SECURITY], "bookworm"))["bookworm"]

    assert "Suites: bookworm bookworm-updates\n" in text
    assert "Suites: bookworm-security\n" in text


def test_where_apt_knows_no_archive_the_message_names_the_other_way(tmp_path: Path) -> None:
    with pytest.raises(Missing, match="owlt kernel build --source TARBALL"):
        fetch_source(tmp_path, nobody, archives=[])


def test_an_archive_that_cannot_be_reached_is_named_with_apts_words(tmp_path: Path) -> None:
    nowhere = Archive(f"file:{tmp_path}/no-such-archive", ("bookworm",), ("main",))

    with pytest.raises(Missing, match=r"trixie-backports: .*does not have a Release file"):
        fetch_source(tmp_path, nobody, archives=[nowhere], release="bookworm")


def test_a_tarball_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(Missing, match=r"nothing\.tar\.xz: there is no such file"):
        local_source(tmp_path / "nothing.tar.xz")
