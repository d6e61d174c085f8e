"""The profiles of the papers' own implementations, which no registry has: how they render a channel."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest

from owlt.agents.contract.implementation import ROLES, Implementation, Parameter, Role
from owlt.agents.contract.placeholders import RunValues
from owlt.agents.contract.requirements import Binary
from owlt.orchestrator.checks.doctor import missing_for
from owlt.orchestrator.profiles.catalogue import find_implementation

ORIGINALS = ("gsfc-cfdp", "ltplib", "nrl-norm", "saratoga-perl", "ion-ltp", "ion-acs", "hdtn-ltp")
CHANNEL = RunValues(
    python="/usr/bin/python3",
    third_party="/third-party",
    file="/files/file-10000000.bin",
    received_file="/runs/1/received.bin",
    file_size_bytes=10_000_000,
    rate_bps=2_000_000,
    reverse_rate_bps=8_000,
    one_way_delay_s=600,
    rtt_s=1200,
    channel_rate_bps=2_000_000,
    channel_one_way_delay_s=600,
    mtu_bytes=1500,
    packet_error_rate=0,
    bit_error_rate=0,
    reverse_bit_error_rate=0,
    sender_address="192.0.2.1",
    receiver_address="192.0.2.2",
    sender_interface="test0",
    receiver_interface="test0",
    run_dir="/runs/1",
    seed=1,
)
UNLIMITED = replace(CHANNEL, rate_bps=None, reverse_rate_bps=None, channel_rate_bps=None)


def rendered(name: str, channel: RunValues = CHANNEL, **parameters: Parameter) -> Implementation:
    """A profile as it is for a channel; its programs are in /opt."""
    implementation = find_implementation(name).with_parameters(parameters)
    return implementation.rendered(channel.as_text(), {program: f"/opt/{program}" for program in implementation.binary})


def file_of(name: str, role: Role, file: str, channel: RunValues = CHANNEL, **parameters: Parameter) -> str:
    """One of the files that a side is given."""
    return rendered(name, channel, **parameters).side(role).files[file]


@pytest.mark.parametrize("channel", [CHANNEL, UNLIMITED, replace(CHANNEL, one_way_delay_s=0, rtt_s=0)])
@pytest.mark.parametrize("name", ORIGINALS)
def test_an_original_renders_and_its_scripts_are_shell(name: str, channel: RunValues) -> None:
    implementation = rendered(name, channel)

    for role in ROLES:
        for file, text in implementation.side(role).files.items():
            assert "{{" not in text, file
            if file.endswith(".sh"):
                subprocess.run(["sh", "-n"], input=text, text=True, check=True)


@pytest.mark.parametrize("name", [name for name in ORIGINALS if name != "nrl-norm"])  # normcast installs that
def test_an_original_that_is_not_there_says_who_brings_it(name: str) -> None:
    implementation = find_implementation(name)
    nowhere = {
        program: Binary(search=["no-such-program"], fix=binary.fix) for program, binary in implementation.binary.items()
    }
    (lack,) = (
        each for each in missing_for(implementation.model_copy(update={"binary": nowhere})) if each.name in nowhere
    )

    told = "bring your own: put it on PATH or change binary.search (docs/implementations.md)"
    assert (lack.needed_by, lack.fix) == (name, told)


@pytest.mark.parametrize("name", ["ion-ltp", "ion-acs"])
def test_ion_is_given_rates_in_bytes_a_second(name: str) -> None:
    contacts = file_of(name, "sender", "contacts.ionrc").splitlines()

    assert contacts[:2] == ["a contact +1 +604800 1 2 250000", "a contact +1 +604800 2 1 1000"]


def test_ion_has_a_rate_on_a_channel_without_one() -> None:
    contacts = file_of("ion-ltp", "receiver", "contacts.ionrc", UNLIMITED).splitlines()

    assert [line.split()[-1] for line in contacts[:2]] == ["125000000", "125000000"]


@pytest.mark.parametrize(("delay_s", "owlt"), [(0, 0), (0.025, 1), (1, 1), (1.25, 2), (600, 600)])
def test_ion_is_given_a_light_time_in_whole_seconds_rounded_up(delay_s: float, owlt: int) -> None:
    channel = replace(CHANNEL, one_way_delay_s=delay_s, rtt_s=2 * delay_s)

    assert file_of("ion-ltp", "sender", "contacts.ionrc", channel).endswith(f"a range +1 +604800 1 2 {owlt}\n")


def test_ions_spans_lead_to_each_other_with_the_segment_size_and_a_pace_below_the_rate() -> None:
    sender = file_of("ion-ltp", "sender", "node.ltprc", segment_bytes=1400).splitlines()
    receiver = file_of("ion-ltp", "receiver", "node.ltprc", segment_bytes=1400).splitlines()

    assert sender[-2:] == ["a span 2 64 64 1400 64000 1 'udplso 192.0.2.2:1113 1980582'", "s 'udplsi 192.0.2.1:1113'"]
    assert receiver[-2:] == ["a span 1 64 64 1400 64000 1 'udplso 192.0.2.1:1113 7922'", "s 'udplsi 192.0.2.2:1113'"]


def test_ion_drops_nothing_that_comes_before_a_light_time_rounded_up() -> None:
    for name, role in product(("ion-ltp", "ion-acs"), ROLES):
        assert "m screening n" in file_of(name, role, "node.ltprc").splitlines()


def test_ions_two_nodes_keep_their_data_apart() -> None:
    assert file_of("ion-ltp", "sender", "node.ionrc").startswith("1 1 node.ionconfig\n")
    assert file_of("ion-ltp", "receiver", "node.ionrc").startswith("1 2 node.ionconfig\n")
    assert "pathName /runs/1\n" in file_of("ion-ltp", "sender", "node.ionconfig")


def maxber_of(name: str, role: Role, channel: RunValues, **parameters: Parameter) -> float:
    """The bit error rate that ION is to provide for."""
    (line,) = (
        line for line in file_of(name, role, "node.ltprc", channel, **parameters).splitlines() if "maxber" in line
    )
    assert line.startswith("m maxber 0.")
    return float(line.split()[2])


@pytest.mark.parametrize(("name", "role"), [*product(("ion-ltp", "ion-acs"), ROLES)])
@pytest.mark.parametrize("segment_bytes", [512, 1024, 1400])
def test_ion_repeats_as_often_as_frames_and_their_answers_are_lost(name: str, role: Role, segment_bytes: int) -> None:
    """By its own reckoning, 1 - (1 - maxber)^(8 x segment), of a PER of 0.1 one way and 0.05 the other."""
    forward, reverse = (1 - (1 - rate) ** (1 / (8 * 1514)) for rate in (0.1, 0.05))
    channel = replace(CHANNEL, packet_error_rate=0.1, bit_error_rate=forward, reverse_bit_error_rate=reverse)

    maxber = maxber_of(name, role, channel, segment_bytes=segment_bytes)

    assert 1 - (1 - maxber) ** (8 * segment_bytes) == pytest.approx(1 - 0.9 * 0.95, rel=1e-5)


@pytest.mark.parametrize("rate", [0.0, 1.0])
def test_ion_is_configured_for_a_channel_without_errors_and_for_a_dead_one(rate: float) -> None:
    """Both of which ION takes for its default."""
    channel = replace(CHANNEL, packet_error_rate=rate, bit_error_rate=rate, reverse_bit_error_rate=rate)

    assert f"m maxber {rate:.12f}\n" in file_of("ion-ltp", "sender", "node.ltprc", channel)


@pytest.mark.parametrize("margin", [0.0333, 0.1666])
def test_a_bundle_goes_again_after_the_papers_timer(margin: float) -> None:
    timer = {0.0333: 1240, 0.1666: 1400}[margin]

    assert f"'udpclo 192.0.2.2:4556 {timer}'" in file_of("ion-acs", "sender", "node.bprc", custody_margin=margin)


@pytest.mark.parametrize(
    ("rtt_s", "rate_bps", "timer_s"),
    [
        (0.05, 1e7, 4),  # an aggregate's delay of 1 s, 2 s of clocks, the time of a bundle and of an aggregate
        (2.5, 1e7, 6),
        (0.05, 1e4, 8),  # a bundle alone takes 4 s, an aggregate 0.8 s
        (0.05, None, 4),
        (120, 1e7, 124),  # the margin's share, 4 s
    ],
)
def test_a_bundle_goes_again_soon_after_its_round_trip(rtt_s: float, rate_bps: float | None, timer_s: int) -> None:
    channel = replace(CHANNEL, one_way_delay_s=rtt_s / 2, rtt_s=rtt_s, rate_bps=rate_bps, reverse_rate_bps=rate_bps)

    assert f"'udpclo 192.0.2.2:4556 {timer_s}'" in file_of("ion-acs", "sender", "node.bprc", channel)


def test_a_newer_ion_is_given_its_timer_alone() -> None:
    ducts = file_of("ion-acs", "sender", "node.bprc", release=4)

    assert "a outduct udp 192.0.2.2:4556 'udpclo 1240'\n" in ducts


def test_custody_is_signalled_in_aggregates_or_one_by_one() -> None:
    assert " start_acs &&" in file_of("ion-acs", "receiver", "node.sh")
    assert " start_acs &&" not in file_of("ion-acs", "receiver", "node.sh", custody="cs")
    assert file_of("ion-acs", "receiver", "node.acsrc").endswith("a ipn:1.0 1000 1\n")


def start_ion(directory: Path, acsadmin: str | None, **parameters: Parameter) -> subprocess.CompletedProcess[str]:
    """Start a node of ION with programs that do nothing; `acsadmin` is the script of that one, None: there is none."""
    scripts = dict.fromkeys(("ionadmin", "bpadmin", "ipnadmin"), "") | (
        {} if acsadmin is None else {"acsadmin": acsadmin}
    )
    for program, script in scripts.items():
        (directory / program).write_text(f"#!/bin/sh\n{script}\n")
        (directory / program).chmod(0o755)
    (directory / "ion.log").write_text("at the end of ion.log\n")
    implementation = find_implementation("ion-acs").with_parameters(parameters)
    rendered = implementation.rendered(CHANNEL.as_text(), {"ionadmin": str(directory / "ionadmin")})
    node = ["sh", "-c", rendered.receiver.files["node.sh"]]
    return subprocess.run(node, cwd=directory, capture_output=True, text=True, timeout=20, check=False)


@pytest.mark.parametrize(
    ("release", "custody", "acsadmin", "status"),
    [(4, "cs", "", 127), (4, "cs", None, 0), (4, "acs", "", 0), (3, "cs", "", 0), (3, "acs", "", 0)],
)
def test_an_ion_4_with_aggregates_cannot_do_without_them(
    tmp_path: Path, release: int, custody: str, acsadmin: str | None, status: int
) -> None:
    done = start_ion(tmp_path, acsadmin, release=release, custody=custody)

    assert (done.returncode, "--enable-acs" in done.stderr) == (status, status == 127)


@pytest.mark.parametrize("release", [3, 4])
def test_an_ion_without_aggregates_says_how_to_build_one_with_them(tmp_path: Path, release: int) -> None:
    done = start_ion(tmp_path, None, release=release)

    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("this ION has no acsadmin: for custody acs, build")


def test_a_node_whose_aggregates_have_no_memory_fails_although_acsadmin_does_not(tmp_path: Path) -> None:
    done = start_ion(tmp_path, "echo \"Couldn't initialize ACS\"; echo 'Stopping acsadmin.'; exit 0")

    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("acsadmin: Couldn't initialize ACS: no shared memory")


def test_custody_over_ltp_starts_ltp() -> None:
    asked: dict[str, Parameter] = {"convergence": "ltp", "port": 1113}

    assert "ltpadmin node.ltprc" in file_of("ion-acs", "sender", "node.sh", **asked)
    assert "a outduct ltp 2 ltpclo\n" in file_of("ion-acs", "sender", "node.bprc", **asked)
    assert file_of("ion-acs", "sender", "node.ipnrc", **asked) == "a plan 2 ltp/2\n"


def test_the_receiver_waits_for_every_bundle_of_the_file() -> None:
    assert "while [ $got -lt 2000 ]" in file_of("ion-acs", "receiver", "receive.sh")
    assert "while [ $got -lt 334 ]" in file_of("ion-acs", "receiver", "receive.sh", bundle_bytes=30_000)


def test_hdtns_ducts_are_json_with_the_light_time_in_whole_milliseconds() -> None:
    channel = replace(CHANNEL, one_way_delay_s=0.0254, rtt_s=0.0508)
    (out,) = json.loads(file_of("hdtn-ltp", "sender", "outducts.json", channel))["outductVector"]
    (into,) = json.loads(file_of("hdtn-ltp", "receiver", "inducts.json", channel))["inductVector"]

    assert out["oneWayLightTimeMs"] == into["oneWayLightTimeMs"] == 26
    assert (out["remoteHostname"], into["ltpRemoteUdpHostname"]) == ("192.0.2.2", "192.0.2.1")
    assert out["ltpDataSegmentMtu"] == 1000


def test_hdtn_is_given_its_rate_and_the_bundles_version() -> None:
    assert "--cla-rate=2000000 " in file_of("hdtn-ltp", "sender", "send.sh")
    assert "--use-bp-version-7" in file_of("hdtn-ltp", "sender", "send.sh")
    assert "--use-bp-version-7" not in file_of("hdtn-ltp", "sender", "send.sh", bp_version=6)


@pytest.mark.parametrize(
    ("rate_bps", "told_kbps"), [(1_000_000, 1000), (10_000_000, 10_000), (1e9, 85_000), (None, 85_000)]
)
def test_saratoga_is_given_a_rate_at_which_it_works(rate_bps: float | None, told_kbps: int) -> None:
    told = file_of("saratoga-perl", "sender", "sara.conf", replace(CHANNEL, rate_bps=rate_bps)).splitlines()

    assert told == [
        '$C_hostaddr = "192.0.2.1";',
        '$C_peeraddr = "192.0.2.2";',
        "$C_verbose = 0;",
        f"$C_rate = {told_kbps};",
    ]


def test_cfdps_entities_know_each_other() -> None:
    nodes = "101 udp 192.0.2.1 2501\n102 udp 192.0.2.2 2502\n"

    assert {role: file_of("gsfc-cfdp", role, "mib.nodes") for role in ROLES} == dict.fromkeys(ROLES, nodes)


def test_cfdp_is_paced_where_the_channel_is() -> None:
    assert rendered("gsfc-cfdp").sender.card_rate_bps == 2_000_000
    assert rendered("gsfc-cfdp", UNLIMITED).sender.card_rate_bps == 0


def test_norm_paces_itself_to_what_it_is_given() -> None:
    command = rendered("nrl-norm").sender.command

    assert command[command.index("rate") + 1] == "2000000"


def test_what_ltpd_received_is_moved_to_where_it_is_looked_for(tmp_path: Path) -> None:
    """Its server script, with an ltpd that says what the paper's said."""
    ltpd = tmp_path / "ltpd"
    ltpd.write_text("#!/bin/sh\necho content >ltpd.out-192.0.2.1.1113\necho LTPD: Wrote 8 bytes\nexec sleep 60\n")
    ltpd.chmod(0o755)
    channel = replace(CHANNEL, received_file=str(tmp_path / "received.bin"), rtt_s=0)
    implementation = find_implementation("ltplib")
    (tmp_path / "receive.sh").write_text(
        implementation.rendered(channel.as_text(), {"ltpd": str(ltpd)}).receiver.files["receive.sh"]
    )

    done = subprocess.run(["sh", "receive.sh"], cwd=tmp_path, capture_output=True, text=True, timeout=20, check=False)

    assert done.returncode == 0, done.stderr
    assert (tmp_path / "received.bin").read_text() == "content\n"
