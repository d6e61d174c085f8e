"""What is read from apt's own sources, and which of the archives there is the distribution's own."""

from __future__ import annotations

from owlt.orchestrator.kernel.source import Archive, main_archive, parse_list, parse_sources, release_archives

DEB822 = """\
# the image's own
Types: deb deb-src
URIs: http://mirror.example/debian
Suites: bookworm bookworm-updates
Components: main contrib
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg

Types: deb
URIs: http://mirror.example/debian-security
Suites: bookworm-security
Components: main

Enabled: no
Types: deb
URIs: http://off.example/debian
Suites: bookworm
Components: main
"""
ONE_LINE = """\
# deb http://commented.example/debian bookworm main
deb [arch=amd64 signed-by=/usr/share/keyrings/k.gpg] http://mirror.example/debian bookworm main contrib # ours
deb-src http://mirror.example/debian bookworm main
deb http://mirror.example/debian-security bookworm-security main
"""
KEY_BLOCK = """\
Types: deb
URIs: http://mirror.example/debian
Suites: bookworm
Components: main
Signed-By:
 -----BEGIN PGP PUBLIC KEY BLOCK-----
 .
 xsFNBF
 -----END PGP PUBLIC KEY BLOCK-----
"""
DEBIAN = Archive("http://mirror.example/debian", ("bookworm", "bookworm-updates"), ("main",), "/k.gpg")


def test_enabled_binary_entries_of_a_sources_file_are_read() -> None:
    found = parse_sources(DEB822)

    assert [archive.uris for archive in found] == [
        "http://mirror.example/debian",
        "http://mirror.example/debian-security",
    ]
    assert found[0].suites == ("bookworm", "bookworm-updates")
    assert found[0].signed_by == "/usr/share/keyrings/debian-archive-keyring.gpg"


def test_binary_entries_of_a_list_file_are_read() -> None:
    assert parse_list(ONE_LINE) == [
        Archive("http://mirror.example/debian", ("bookworm",), ("main", "contrib"), "/usr/share/keyrings/k.gpg"),
        Archive("http://mirror.example/debian-security", ("bookworm-security",), ("main",)),
    ]


def test_a_key_block_survives_reading_and_writing() -> None:
    (archive,) = parse_sources(KEY_BLOCK)

    assert parse_sources(archive.entry()) == [archive]
    assert archive.entry().endswith(KEY_BLOCK.partition("Signed-By:")[2])


def test_another_suite_of_an_archive_keeps_its_mirror_and_key() -> None:
    (newer,) = parse_sources(DEBIAN.entry("trixie-backports"))

    assert newer == Archive("http://mirror.example/debian", ("trixie-backports",), ("main",), "/k.gpg")


def test_an_archive_without_a_key_of_its_own_names_none() -> None:
    assert "Signed-By" not in Archive("http://mirror.example/debian", ("bookworm",), ("main",)).entry()


def test_the_main_archive_is_the_one_with_the_release_itself() -> None:
    security = Archive("http://mirror.example/debian-security", ("bookworm-security",), ("main",))

    assert main_archive([security, DEBIAN], "bookworm") == DEBIAN


def test_another_vendors_archive_for_the_release_is_not_the_main_one() -> None:
    vendor = Archive("http://vendor.example/apt", ("bookworm",), ("main",))
    rolling = Archive("http://other.example/deb", ("stable",), ("main",))

    assert main_archive([rolling, vendor, DEBIAN], "bookworm") == DEBIAN


def test_an_archive_that_names_the_release_by_its_rank_is_found() -> None:
    stable = Archive("http://mirror.example/debian", ("stable",), ("main",))

    assert main_archive([stable], "bookworm") == stable


def test_security_fixes_belong_to_the_release() -> None:
    security = Archive("http://mirror.example/debian-security", ("bookworm-security",), ("main",))
    elsewhere = Archive("http://vendor.example/apt", ("nodistro",), ("main",))

    assert release_archives([DEBIAN, security, elsewhere], "bookworm") == [DEBIAN, security]


def test_where_apt_has_no_archive_of_the_release_there_is_no_main_one() -> None:
    assert main_archive([Archive("http://vendor.example/apt", ("nodistro",), ("main",))], "bookworm") is None
