"""What is in a capsule: one run, its losses and digests, and nothing that names the user or the machine."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest
from typer.testing import CliRunner

from owlt.captures.accounting.cutting import is_cut
from owlt.captures.accounting.derived_files import CAPTURES, digest_of_file
from owlt.captures.accounting.summary import load_summary
from owlt.inputs.sweep import Restart
from owlt.orchestrator.commands.cli import app
from owlt.orchestrator.commands.replay import difference_behind, machine_differences
from owlt.orchestrator.errors import Missing, OwltError
from owlt.orchestrator.own_directories import third_party_directory
from owlt.orchestrator.planning.plan import Plan, read_plan
from owlt.orchestrator.planning.stored_plan import without_presentation
from owlt.orchestrator.private_names import PrivateNames, private_names
from owlt.orchestrator.rigs.provenance import Provenance, write_provenance
from owlt.orchestrator.run.closure import closure_of, place_of
from owlt.orchestrator.sweep.capsules import contents_of, restored
from owlt.results.capsule import BrokenCapsule, Manifest, unpack, write_capsule
from owlt.results.plain_files import make_directory, write_whole
from owlt.results.record import read_record, write_record
from tests.unit.orchestrator.performing import COPY
from tests.unit.orchestrator.runs_with_losses import DAMAGED, LOST, run_with_losses
from tests.unit.orchestrator.small_sweep import small_plan

HOST, USER = "gs-darmstadt-7", "amelia.e"
KEY = "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXk\n-----END OPENSSH PRIVATE KEY-----"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The home directory of a user on a host, both with names of their own."""
    home = tmp_path / "home-of-amelia"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("USER", USER)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(socket, "gethostname", lambda: f"{HOST}.example.org")
    return home


def capsule_of(run: Path, target: Path, with_programs: bool = False) -> Manifest:
    """Write the capsule of a run."""
    results = run.parent.parent
    contents = contents_of(results, read_plan(results), read_record(run), private_names(results), with_programs)
    return write_capsule(target, contents.manifest, contents.files)


def unpacked(run: Path, tmp_path: Path) -> tuple[Path, Manifest]:
    """The run's directory in its unpacked capsule, and the manifest."""
    capsule_of(run, tmp_path / "it.zip")
    manifest = unpack(tmp_path / "it.zip", make_directory(tmp_path / "unpacked"))
    return restored(tmp_path / "unpacked", manifest, private_names()), manifest


def test_a_capsule_has_the_losses_of_its_run(tmp_path: Path) -> None:
    _, manifest = unpacked(run_with_losses(tmp_path / "results", is_cut=False), tmp_path)

    assert manifest.losses == {"forward": [LOST, DAMAGED], "reverse": []}


def test_the_plan_has_no_other_run(tmp_path: Path) -> None:
    run = run_with_losses(tmp_path / "results", is_cut=False)
    plan = read_plan(unpacked(run, tmp_path)[0].parent.parent)

    assert [each.run_id for each in plan.runs] == [run.name]
    assert plan.sweep.packet_error_rate == [plan.runs[0].permutation.packet_error_rate]


def test_what_is_sent_in_the_run_is_as_it_was_planned(tmp_path: Path, home: Path) -> None:
    """Also if the profile has a path in the user's home directory."""
    named = small_plan("exact", certify=True)
    profile = named.implementations["cfdp"]
    search = profile.sender.model_copy(update={"command": [f"{home}/build/send", *profile.sender.command]})
    plan = named.model_copy(update={"implementations": {"cfdp": profile.model_copy(update={"sender": search})}})
    run = run_with_losses(tmp_path / "results", False, plan)
    again = read_plan(unpacked(run, tmp_path)[0].parent.parent)

    assert as_sent(again, run.name) == as_sent(plan, run.name)
    assert any("paths are written as <home>" in note for note in capsule_of(run, tmp_path / "b.zip").notes)


def test_what_concerns_the_runs_over_another_channel_is_left_out(tmp_path: Path) -> None:
    plan = small_plan("exact", certify=True)
    others = {"restarts": {"other": Restart(side="sender", at="1 s", after="1 s")}, "skipped_waits": {"other": []}}
    others |= {"commands": {"other": []}}
    planned = plan.model_copy(update={"sweep": plan.sweep.model_copy(update=others)})
    again = read_plan(unpacked(run_with_losses(tmp_path / "results", False, planned), tmp_path)[0].parent.parent)

    assert (again.sweep.restarts, again.sweep.commands, again.sweep.skipped_waits) == ({}, {}, {})


def as_sent(plan: Plan, run_id: str) -> list[object]:
    run = next(each for each in plan.runs if each.run_id == run_id)
    values = without_presentation(plan.model_dump(mode="json"))
    return [run, values["implementations"], plan.channels[run.channel_key]]


@pytest.mark.parametrize("is_cut_before", [False, True], ids=["complete", "cut"])
def test_captures_are_cut_and_their_complete_digests_stay(tmp_path: Path, is_cut_before: bool) -> None:
    complete = run_with_losses(tmp_path / "complete", is_cut=False)
    run, _ = unpacked(run_with_losses(tmp_path / "results", is_cut_before), tmp_path)
    summary = load_summary(run)

    assert all(is_cut(run / name) for name in CAPTURES)
    assert summary is not None and summary.source is not None
    assert all(digest_of_file(complete / name) in summary.source.captures[name] for name in CAPTURES)


def test_the_same_run_makes_the_same_bytes(tmp_path: Path) -> None:
    run = run_with_losses(tmp_path / "results", is_cut=False)
    elsewhere = run_with_losses(tmp_path / "elsewhere" / "results", is_cut=False)
    for number, each in enumerate((run, run, elsewhere)):
        capsule_of(each, tmp_path / f"{number}.zip")

    assert len({(tmp_path / f"{number}.zip").read_bytes() for number in range(3)}) == 1


def test_a_run_stays_as_it_is(tmp_path: Path) -> None:
    run = run_with_losses(tmp_path / "results", is_cut=False)
    before = {path: path.read_bytes() for path in run.parent.parent.rglob("*") if path.is_file()}
    capsule_of(run, tmp_path / "it.zip")

    assert {path: path.read_bytes() for path in run.parent.parent.rglob("*") if path.is_file()} == before


def private_run(tmp_path: Path, home: Path) -> Path:
    """A run in whose files are the user's directories, the host, the user, and a private key."""
    run = run_with_losses(home / "results", is_cut=False)
    text = f"{home}/.ssh/id: {KEY}\n{USER}@{HOST} and {HOST}.example.org\n{run}/x\n{third_party_directory()}/uftp\n"
    (run / "sender.err").write_text(text)
    (run / "why.json").write_text(json.dumps({"cause": text}))
    machine = Provenance(groups={"system": {f"{home}/bin/tool": "1"}}, implementations={"cfdp": {"a": "1"}, "x": {}})
    write_provenance(machine, run.parent.parent)
    write_record(read_record(run).model_copy(update={"machine": HOST, "suspect": [text]}), run)
    return run


def bytes_of(content: bytes | Path) -> bytes:
    return content if isinstance(content, bytes) else content.read_bytes()


@pytest.mark.parametrize("what", ["home-of-amelia", HOST, USER, "b3BlbnNzaC1rZXk", "PRIVATE KEY"])
def test_a_capsule_does_not_name_its_user_and_machine(tmp_path: Path, home: Path, what: str) -> None:
    run = private_run(tmp_path, home)
    before = b"".join(path.read_bytes() for path in sorted(run.parent.parent.rglob("*")) if path.is_file())
    contents = contents_of(
        run.parent.parent, read_plan(run.parent.parent), read_record(run), private_names(run.parent.parent), False
    )
    assert what.encode() in before

    named = [
        name for name, content in contents.files.items() if isinstance(content, bytes) and what.encode() in content
    ]
    assert named == []
    assert what not in contents.manifest.model_dump_json()


def test_an_explanation_of_the_run_is_in_its_capsule(tmp_path: Path, home: Path) -> None:
    manifest = capsule_of(private_run(tmp_path, home), tmp_path / "it.zip")

    assert any(name.endswith("/why.json") for name in manifest.files)


def test_other_implementations_of_the_machine_are_left_out(tmp_path: Path, home: Path) -> None:
    run, _ = unpacked(private_run(tmp_path, home), tmp_path)
    (machine,) = (run.parent.parent / "machines").iterdir()

    assert Provenance.model_validate_json(machine.read_bytes()).implementations == {"cfdp": {"a": "1"}}


def test_a_name_that_is_a_word_of_the_plan_is_left_and_reported(
    tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A user whose name is cfdp: what is replaced would be the implementation."""
    monkeypatch.setenv("USER", "cfdp")
    manifest = capsule_of(private_run(tmp_path, home), tmp_path / "it.zip")

    assert any("contains the name of the user as a word" in note for note in manifest.notes)


def test_a_file_that_may_be_anything_is_left_out_and_named(tmp_path: Path) -> None:
    run = run_with_losses(tmp_path / "results", is_cut=False)
    (run / "core").write_bytes(b"\x7fELF\xff")
    (run / "sender.out").write_bytes(b"\xff\xfe")

    assert "left out: core, sender.out" in capsule_of(run, tmp_path / "it.zip").notes


def test_a_secret_word_in_the_profile_is_reported(tmp_path: Path) -> None:
    plan = small_plan("exact")
    profile = plan.implementations["cfdp"].model_copy(update={"description": "Uses --password hunter2."})
    run = run_with_losses(tmp_path / "results", False, plan.model_copy(update={"implementations": {"cfdp": profile}}))

    assert any("contains the word password" in note for note in capsule_of(run, tmp_path / "it.zip").notes)


def changed_plan(run: Path, tmp_path: Path, old: str, new: str) -> Manifest:
    """The capsule of a run, unpacked, in whose plan a text is replaced."""
    capsule_of(run, tmp_path / "it.zip")
    manifest = unpack(tmp_path / "it.zip", make_directory(tmp_path / "unpacked"))
    path = tmp_path / "unpacked" / "plan.json"
    text = path.read_text()
    assert old in text
    write_whole(path, text.replace(old, new))
    return manifest


@pytest.mark.parametrize("rig", ["local", "lab"])
def test_a_capsule_of_another_rig_is_refused(tmp_path: Path, rig: str) -> None:
    run = run_with_losses(tmp_path / "results", is_cut=False)
    manifest = changed_plan(run, tmp_path, '"rig": "virtual"', f'"rig": "{rig}"')

    with pytest.raises(OwltError, match=f"was performed on the rig {rig}, .* expected a run on the rig virtual"):
        restored(tmp_path / "unpacked", manifest, private_names())


def test_a_channel_with_a_path_as_its_name_is_refused(tmp_path: Path) -> None:
    run = run_with_losses(tmp_path / "results", is_cut=False)
    key = read_record(run).channel_key
    manifest = changed_plan(run, tmp_path, key, "../../x")

    with pytest.raises(BrokenCapsule, match=r"plan\.json: the name of a channel or implementation should be"):
        restored(tmp_path / "unpacked", manifest, private_names())


def test_a_plan_of_another_run_is_refused(tmp_path: Path) -> None:
    run = run_with_losses(tmp_path / "results", is_cut=False)
    manifest = changed_plan(run, tmp_path, f'"run_id": "{run.name}"', '"run_id": "another"')

    with pytest.raises(BrokenCapsule, match=r"plan\.json: is not the plan of its run"):
        restored(tmp_path / "unpacked", manifest, private_names())


def test_a_capsule_without_a_record_is_refused(tmp_path: Path) -> None:
    run = run_with_losses(tmp_path / "results", is_cut=False)
    manifest = capsule_of(run, tmp_path / "it.zip")

    with pytest.raises(BrokenCapsule, match="has no plan or no record"):
        restored(make_directory(tmp_path / "empty"), manifest, private_names())


def test_other_octets_behind_the_headers_are_a_difference(tmp_path: Path) -> None:
    run, _ = unpacked(run_with_losses(tmp_path / "results", is_cut=False), tmp_path)
    performed = run_with_losses(tmp_path / "again", is_cut=False)

    same = difference_behind(run, performed, "sender.pcap")
    content = bytearray((performed / "sender.pcap").read_bytes())
    content[-1] ^= 1
    (performed / "sender.pcap").write_bytes(content)

    assert same == ""
    assert "the complete capture has another SHA-256" in difference_behind(run, performed, "sender.pcap")


def test_versions_and_files_that_differ_are_named(tmp_path: Path) -> None:
    run = run_with_losses(tmp_path / "results", is_cut=False)
    groups = {"kernel": {"guest": "1"}}
    write_provenance(Provenance(groups=groups, implementations={"cfdp": {}}), run.parent.parent)
    write_provenance(Provenance(groups={"kernel": {"guest": "2"}}, implementations={"cfdp": {}}), tmp_path / "again")
    recorded = read_record(run).model_copy(update={"versions": {"libnorm": "1.5.8", "owlt": "1"}})
    performed = recorded.model_copy(update={"versions": {"libnorm": "1.5.9", "owlt": "1"}})

    assert machine_differences(run.parent.parent, recorded, tmp_path / "again", performed) == [
        "libnorm: 1.5.9 here, 1.5.8 recorded",
        "files of kernel: guest",
    ]


def test_a_broken_capsule_is_an_error_of_the_user(tmp_path: Path) -> None:
    (tmp_path / "it.zip").write_text("no archive")

    error = CliRunner().invoke(app, ["replay", str(tmp_path / "it.zip")]).exception

    assert isinstance(error, OwltError)
    assert str(error).startswith(f"{tmp_path}/it.zip: is not a file of owlt, or damaged (it is too short)")


def test_a_run_on_another_clock_has_no_capsule(tmp_path: Path) -> None:
    run = run_with_losses(tmp_path / "results", False, small_plan("skip"))

    error = CliRunner().invoke(app, ["capsule", str(run), "--out", str(tmp_path / "it.zip")]).exception

    assert "a run on the clock skip cannot be repeated packet for packet" in str(error)
    assert not (tmp_path / "it.zip").exists()


def test_the_command_writes_a_capsule_and_names_it(tmp_path: Path) -> None:
    run = run_with_losses(tmp_path / "results", is_cut=False)

    done = CliRunner().invoke(app, ["capsule", str(run), "--out", str(tmp_path / "it.zip"), "--json"])

    assert json.loads(done.stdout)["capsule"] == str(tmp_path / "it.zip")
    assert (tmp_path / "it.zip").stat().st_size == json.loads(done.stdout)["size_bytes"] < 100_000


@pytest.mark.parametrize(
    ("text", "public"),
    [
        ("/home/me/x and /home/me", "<home>/x and <home>"),
        ("/home/me/.cache/owlt", "<cache>/owlt"),
        ("/home/mean/x /srv/home/me", "/home/mean/x /srv/home/<user>"),
        ("me@host, hostname, some, me-too", "<user>@<host>, hostname, some, me-too"),
    ],
)
def test_paths_and_whole_words_are_replaced(text: str, public: str) -> None:
    names = PrivateNames({"/home/me": "<home>", "/home/me/.cache": "<cache>"}, {"host": "<host>", "me": "<user>"})

    assert names.replaced(text) == public


def test_a_closure_has_the_libraries_and_the_installation_of_a_program(
    tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    installed = make_directory(tmp_path / "cache" / "owlt" / "third-party" / "tool" / "bin")
    (installed / "tool").write_bytes(Path("/bin/true").read_bytes())
    (installed / "tool").chmod(0o755)
    (installed.parent / "data").write_text("table")
    (installed.parent / "install.log").write_text(f"{home}")
    binary = {name: {"search": ["{third_party}/tool/bin/tool"], "fix": "install it"} for name in ("send", "take")}
    profile = small_plan("exact").implementations["cfdp"].model_validate(COPY | {"binary": binary})

    places = {place_of(path) for path in closure_of(profile)}

    assert {"third-party/tool/bin/tool", "third-party/tool/data"} <= places
    assert any("/libc.so" in place for place in places)
    assert not any("install.log" in place for place in places)


def test_a_program_that_is_not_installed_has_no_closure() -> None:
    profile = small_plan("exact").implementations["cfdp"].model_validate(COPY)

    with pytest.raises(Missing, match=r"a program is missing, .*; install send"):
        closure_of(profile)
