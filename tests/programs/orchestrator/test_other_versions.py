"""Other versions of a Python package than the pinned one, installed from a directory that is pip's only index."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from owlt.orchestrator.profiles.third_party import at_version, home, installed_versions
from tests.unit.orchestrator.test_third_party_install import installed, locked, printed, programs, wheel, wheel_of  # noqa: F401  (fixtures)


@pytest.fixture
def index(wheel: Path, monkeypatch: pytest.MonkeyPatch) -> Path:  # noqa: F811
    """An index of two versions, with the digest of each; its page of the package."""
    pages = wheel.parent / "simple" / "mine" / "index.html"
    pages.parent.mkdir(parents=True)
    links = [
        f'<a href="{path.as_uri()}#sha256={digest_of(path)}">{path.name}</a>'
        for path in (wheel, wheel_of("0.9", wheel.parent))
    ]
    pages.write_text(f"<!DOCTYPE html><html><body>{''.join(links)}</body></html>")
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.delenv("PIP_FIND_LINKS")
    monkeypatch.setenv("PIP_INDEX_URL", pages.parent.parent.as_uri())
    return pages


def digest_of(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_another_version_is_installed_beside_the_pinned_one_with_the_digest_of_the_index(
    wheel: Path,  # noqa: F811
    index: Path,
) -> None:
    installable = locked(wheel)
    other = at_version(installable, "0.9")

    [_, installation], _ = installed(installable, other)

    assert installation.installed, installation.message
    assert (printed(installable), printed(other)) == ("mine 1.0\n", "mine 0.9\n")
    lock = (home(other) / "unpinned.lock").read_text().replace("\\", "")
    assert lock.split() == ["mine==0.9", f"--hash=sha256:{digest_of(wheel.parent / 'mine-0.9-py3-none-any.whl')}"]
    assert [each.name for each in installed_versions(installable)] == ["mine@0.9", "mine"]
    assert [each.is_pinned for each in installed_versions(installable)] == [False, True]


def test_a_file_that_is_not_the_one_whose_digest_the_index_states_is_refused(wheel: Path, index: Path) -> None:  # noqa: F811
    index.write_text(index.read_text().replace(digest_of(wheel.parent / "mine-0.9-py3-none-any.whl"), "0" * 64))

    [installation], _ = installed(at_version(locked(wheel), "0.9"))

    assert not installation.installed


def test_a_version_of_which_the_index_states_no_digest_is_refused(wheel: Path) -> None:  # noqa: F811
    wheel_of("0.9", wheel.parent)

    [installation], _ = installed(at_version(locked(wheel), "0.9"))

    assert installation.message == "mine==0.9: the package index states no SHA-256"


def test_a_version_that_the_index_does_not_have_is_not_installed(wheel: Path, index: Path) -> None:  # noqa: F811
    [installation], _ = installed(at_version(locked(wheel), "0.8"))

    assert installation.message == "mine==0.8: ERROR: No matching distribution found for mine==0.8"
