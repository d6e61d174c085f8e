"""The archive of a reproduction: the page made again from it, and archives that cannot be used."""

from __future__ import annotations

import json
import resource
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from zipfile import ZipFile, ZipInfo

import pytest

from owlt.reports.reproduction.archive import MANIFEST, TEMPLATE
from owlt.reports.reproduction.database import MOST_ROWS, BadQuery
from owlt.reports.reproduction.page import PLACES, make_page, make_page_of_archive
from owlt.results.files import ReportError
from tests.unit.captures.making import SESSION
from tests.unit.reports.conftest import change_record, few, write_captures, write_results

NAME = "mine"
RUN = "cfdp_1MB_10Mbps_25ms_per0_r1"
CLAIMS = f"""\
paper: {{authors: A, title: T, year: 2002, published_in: J}}
chosen: before the runs
packets_of: run_id = '{RUN}'
views: {{counts: "SELECT count(*) AS n, max(at_s) AS s FROM packets"}}
claims:
  - id: one
    kind: measurement
    states: S
    place: section 1
    ours: SELECT median(goodput_bps) FROM good
    accept: {{least: 1}}
tables:
  - {{name: packets, rows: "SELECT n, s FROM counts"}}
  - {{name: runs, rows: "SELECT run_id, outcome, parameters, goodput_bps, suspect FROM all_runs ORDER BY 1"}}
figures:
  - name: f
    panels: [{{title: t, x: {{label: x}}, y: {{label: y}}, points: "SELECT 'a', 1, goodput_bps FROM good"}}]
"""


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    source, results = tmp_path / "source", write_results(tmp_path / "results", few())
    source.mkdir()
    (source / "claims.yaml").write_text(CLAIMS)
    (source / TEMPLATE).write_text("\n\n".join([*PLACES, "{table packets}", "{table runs}"]))
    write_captures(results / "runs" / RUN)
    change_record(results, RUN, session=SESSION.model_dump(mode="json"))
    make_page(source, [results], NAME, tmp_path / "archive.zip")
    return tmp_path / "archive.zip"


def contents(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def test_the_page_of_an_archive_is_the_same(archive: Path) -> None:
    page, verdicts = make_page_of_archive(archive, NAME)

    assert contents(page.parent) == contents(archive.parent / "results" / "reproduction")
    assert [each.claim.id for each in verdicts] == ["one"]
    assert "| 0 |" not in (page.parent / f"{NAME}-packets.csv").read_text()


def test_values_of_json_are_made_public(tmp_path: Path, archive: Path) -> None:
    title, private = "CFDP and NORM, terrestrial and cislunar", "cislunar"

    def jsons() -> list[str]:
        with ZipFile(archive) as file:
            return [file.read(name).decode() for name in file.namelist() if name.endswith(".json")]

    assert any(title in text for text in jsons())
    make_page(
        tmp_path / "source",
        [tmp_path / "results"],
        NAME,
        archive,
        lambda values: json.loads(json.dumps(values).replace(private, "<place>")),
    )

    assert any("<place>" in text for text in jsons())
    assert not any(private in text for text in jsons())


def test_an_archive_has_a_sample_of_captures_and_the_plan(archive: Path) -> None:
    with ZipFile(archive) as file:
        names = file.namelist()

    assert sum(name.endswith("/plan.json") for name in names) == 1
    assert sum(name.endswith((".pcap", "/record.json")) for name in names) == 3


def test_the_manifest_has_the_digest_of_every_other_member(archive: Path) -> None:
    with ZipFile(archive) as file:
        manifest = json.loads(file.read(MANIFEST))
        digests = {name: sha256(file.read(name)).hexdigest() for name in file.namelist() if name != MANIFEST}

    assert manifest == {"name": NAME, "sha256": digests}


def changed(archive: Path, member: str, content: bytes | None) -> Path:
    """The archive with another content of a member, or without it."""
    with ZipFile(archive) as file:
        members = {name: file.read(name) for name in file.namelist()}
    members.pop(member)
    with ZipFile(archive, "w") as file:
        for name, each in (members | ({} if content is None else {member: content})).items():
            file.writestr(name, each)
    return archive


def forged(archive: Path, members: Mapping[str, bytes]) -> Path:
    """The archive with other contents of members, and a manifest that has their digests."""
    with ZipFile(archive) as file:
        manifest = json.loads(file.read(MANIFEST))
    for member, content in members.items():
        changed(archive, member, content)
        manifest["sha256"][member] = sha256(content).hexdigest()
    return changed(archive, MANIFEST, json.dumps(manifest).encode())


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("SELECT content FROM read_text('/etc/passwd')", "file system operations are disabled"),
        ("COPY good TO '/tmp/stolen.csv'", "file system operations are disabled"),
        ("SELECT repeat('x', 4000000000)", "Out of Memory"),
        ("SELECT list(range) FROM range(3000000000)", "Out of Memory"),
        ("SELECT range FROM range(1000000000000)", "more than 1,000,000 rows"),
    ],
)
def test_a_query_of_an_archive_reaches_no_file_and_has_bounds(archive: Path, query: str, message: str) -> None:
    claims = CLAIMS.replace("SELECT median(goodput_bps) FROM good", json.dumps(query))
    limits = resource.getrlimit(resource.RLIMIT_AS)

    with pytest.raises((BadQuery, ReportError), match=message):
        make_page_of_archive(forged(archive, {"claims.yaml": claims.encode()}), NAME)

    assert resource.getrlimit(resource.RLIMIT_AS) == limits


def test_a_table_of_an_archive_with_too_many_rows_is_refused(archive: Path, tmp_path: Path) -> None:
    import duckdb

    many = tmp_path / "many.parquet"
    with duckdb.connect() as connection:
        connection.execute(f"COPY (SELECT 'a' AS sweep FROM range({MOST_ROWS + 1})) TO '{many}' (COMPRESSION zstd)")

    with pytest.raises(BadQuery, match=r"packets\.parquet: 20,000,001 rows; a table has at most 20,000,000"):
        make_page_of_archive(forged(archive, {"tables/packets.parquet": many.read_bytes()}), NAME)


def test_an_archive_with_a_link_or_a_name_outside_is_refused(archive: Path) -> None:
    content = archive.read_bytes()
    for name, mode, message in (("../x", 0o100644, "name of a file"), ("x", 0o120777, "is a link")):
        archive.write_bytes(content)
        with ZipFile(archive, "a") as file:
            entry = ZipInfo(name)
            entry.external_attr = mode << 16
            file.writestr(entry, b"/etc/passwd")
        with pytest.raises(ReportError, match=message):
            make_page_of_archive(archive, NAME)


@pytest.mark.parametrize(
    ("member", "content", "message"),
    [
        ("claims.yaml", CLAIMS.replace("least: 1", "least: 2").encode(), "claims.yaml: differs from the manifest"),
        ("tables/packets.parquet", b"", "tables/packets.parquet: differs from the manifest"),
        ("facts.json", None, "facts.json"),
        (MANIFEST, None, MANIFEST),
        (MANIFEST, b"[]", "cannot be used"),
        (MANIFEST, b"\xff", "cannot be used"),
    ],
)
def test_a_changed_archive_is_refused(archive: Path, member: str, content: bytes | None, message: str) -> None:
    with pytest.raises(ReportError, match=message):
        make_page_of_archive(changed(archive, member, content), NAME)


def test_an_archive_with_encrypted_or_damaged_members_is_refused(archive: Path) -> None:
    content = archive.read_bytes()
    begin = content.index(b"PK\x03\x04")
    data = begin + 30 + int.from_bytes(content[begin + 26 : begin + 28], "little")
    entry = content.index(b"PK\x01\x02")

    for place, octet, message in ((data, 0xFF, "invalid block type"), (entry + 8, 0x01, "encrypted")):
        archive.write_bytes(content[:place] + bytes([octet]) + content[place + 1 :])
        with pytest.raises(ReportError, match=message):
            make_page_of_archive(archive, NAME)


def test_a_manifest_that_is_nested_too_deeply_is_refused(archive: Path) -> None:
    with pytest.raises(ReportError, match="cannot be used"):
        make_page_of_archive(changed(archive, MANIFEST, b"[" * 100_000), NAME)


def test_the_archive_of_another_reproduction_is_refused(archive: Path) -> None:
    with pytest.raises(ReportError, match="it is of 'mine'"):
        make_page_of_archive(archive, "other")


def test_a_file_that_is_no_archive_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file.zip").write_bytes(b"no archive")

    with pytest.raises(ReportError, match="expected an archive that 'owlt reproduce NAME --archive FILE' wrote"):
        make_page_of_archive(tmp_path / "file.zip", NAME)
