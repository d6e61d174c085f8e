"""Pairs in sweeps and in files: which there are, how they are called, and why some are not."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from owlt.orchestrator.commands.cli import app
from owlt.orchestrator.errors import ProfileError
from owlt.orchestrator.planning.plan import Plan, advertised_values
from owlt.orchestrator.profiles.catalogue import PROFILES, find_implementation, resolve

SWEEP = {"name": "small", "seed": 7, "file_size": "1 MB", "rate": "10 Mbit/s", "delay": "25 ms", "packet_error_rate": 0}
CFDP = ["cfdp", "cfdp-librecube"]
BOTH = ["cfdp-to-cfdp-librecube", "cfdp-librecube-to-cfdp"]


def planned(tmp_path: Path, **changes: Any) -> Plan:
    path = tmp_path / "sweep.yaml"
    path.write_text(json.dumps({**SWEEP, "implementations": CFDP, **changes}))
    return resolve(path)


def pairs_in(plan: Plan) -> list[str]:
    return [name for name, each in plan.implementations.items() if each.pair]


def mistake(tmp_path: Path, **changes: Any) -> str:
    with pytest.raises(ProfileError) as caught:
        planned(tmp_path, **changes)
    return str(caught.value).partition("sweep.yaml:1: ")[2]


def written(tmp_path: Path, text: str, name: str = "mine-to-cfdp") -> Path:
    path = tmp_path / f"{name}.yaml"
    path.write_text(text)
    return path


def test_a_sweep_without_the_key_has_no_pairs(tmp_path: Path) -> None:
    assert pairs_in(planned(tmp_path)) == []


def test_all_pairs_are_those_within_families(tmp_path: Path) -> None:
    plan = planned(tmp_path, implementations=[*CFDP, "ltp", "licklider"], pairs="all")

    assert pairs_in(plan) == [*BOTH, "ltp-to-licklider", "licklider-to-ltp"]


def test_each_pair_has_runs_of_its_own(tmp_path: Path) -> None:
    plan = planned(tmp_path, pairs="all", repetitions=2)

    assert sorted({run.permutation.implementation for run in plan.runs}) == sorted([*CFDP, *BOTH])
    assert len(plan.runs) == 8


def test_a_list_has_the_sender_first(tmp_path: Path) -> None:
    assert pairs_in(planned(tmp_path, pairs=[["cfdp-librecube", "cfdp"]])) == ["cfdp-librecube-to-cfdp"]


def test_one_against_each_is_in_both_roles(tmp_path: Path) -> None:
    plan = planned(tmp_path, implementations=["norm", "normcast", "norm-cc"], pairs={"each_against": "normcast"})

    assert pairs_in(plan) == ["norm-to-normcast", "normcast-to-norm", "normcast-to-norm-cc", "norm-cc-to-normcast"]


def test_an_implementation_without_another_of_its_family_is_named_with_the_reason(tmp_path: Path) -> None:
    plan = planned(tmp_path, implementations=[*CFDP, "ltp", "udpcast"], pairs="all")

    assert plan.left_out_pairs == {
        "ltp": "no other implementation of this sweep talks LTP over UDP, the file is one red block",
        "udpcast": "its profile has no 'pairing', which states with whom it can talk",
    }


def test_a_family_that_is_nearly_that_of_another_is_taken_for_a_mistake(tmp_path: Path) -> None:
    path = written(tmp_path, MINE.replace("family: CFDP class 2", "family: CFDP clas 2"), "mine")

    assert planned(tmp_path, implementations=["cfdp", str(path)], pairs="all").left_out_pairs["mine"] == (
        "no other implementation of this sweep talks CFDP clas 2 over UDP; did you mean CFDP class 2 over UDP?"
    )


def test_a_value_of_the_sweep_that_a_side_cannot_have_leaves_the_pair_out(tmp_path: Path) -> None:
    path = written(tmp_path, MINE, "mine")
    changes = {"implementations": ["cfdp", str(path)], "parameters": {"mine": {"kind": "7"}}}

    assert planned(tmp_path, pairs="all", **changes).left_out_pairs["mine-to-cfdp"] == (
        "mine has kind 7, and its pairing has no checksum for it"
    )
    assert mistake(tmp_path, pairs=[["mine", "cfdp"]], **changes) == (
        "pairs[0]: mine-to-cfdp is not possible: mine has kind 7, and its pairing has no checksum for it"
    )


def test_a_named_pair_of_different_families_is_a_mistake(tmp_path: Path) -> None:
    assert mistake(tmp_path, implementations=["cfdp", "ltp"], pairs=[["cfdp", "ltp"]]) == (
        "pairs[0]: cfdp-to-ltp is not possible: cfdp talks CFDP class 2 over UDP, ltp talks LTP over UDP, the file is "
        "one red block"
    )


def test_a_pair_with_an_unknown_side_is_a_mistake(tmp_path: Path) -> None:
    assert mistake(tmp_path, pairs=[["cfdp", "cfdp-libercube"]]) == (
        "pairs[0][1]: got 'cfdp-libercube', expected an implementation of this sweep: cfdp, cfdp-librecube; did you "
        "mean cfdp-librecube?"
    )


def test_a_side_is_named_and_not_given_by_its_file(tmp_path: Path) -> None:
    changes = {"implementations": ["cfdp", str(written(tmp_path, MINE, "mine"))], "pairs": [["./mine.yaml", "cfdp"]]}

    assert mistake(tmp_path, **changes) == (
        "pairs[0][0]: got './mine.yaml', expected an implementation of this sweep: cfdp, mine; did you mean mine?"
    )


def test_a_pair_of_one_implementation_is_a_mistake(tmp_path: Path) -> None:
    assert mistake(tmp_path, pairs=[["cfdp", "cfdp"]]).startswith("pairs[0]: cfdp with itself is no pair; remove it")


@pytest.mark.parametrize("pairs", ["some", [["cfdp"]], ["cfdp"], {"against": "cfdp"}, []])
def test_another_form_of_the_key_is_a_mistake(tmp_path: Path, pairs: object) -> None:
    assert "expected all, a list such as [[cfdp, mine], [mine, cfdp]], or {each_against: cfdp}" in mistake(
        tmp_path, pairs=pairs
    )


def test_each_variant_is_in_pairs(tmp_path: Path) -> None:
    plan = planned(tmp_path, pairs="all", parameters={"cfdp": {"nak": ["deferred", "immediate"]}})

    assert set(pairs_in(plan)) == {
        "cfdp-to-cfdp-librecube+sender.nak=deferred",
        "cfdp-to-cfdp-librecube+sender.nak=immediate",
        "cfdp-librecube-to-cfdp+receiver.nak=deferred",
        "cfdp-librecube-to-cfdp+receiver.nak=immediate",
    }


def test_variants_of_one_implementation_are_a_pair_if_they_are_named(tmp_path: Path) -> None:
    reno, cubic = "tcp+congestion_control=reno", "tcp+congestion_control=cubic"
    varied = {"tcp": {"congestion_control": ["reno", "cubic"]}}
    plan = planned(tmp_path, implementations=["tcp"], parameters=varied, pairs=[[reno, cubic]])

    assert pairs_in(plan) == ["tcp-to-tcp+sender.congestion_control=reno+receiver.congestion_control=cubic"]


def test_a_parameter_of_a_pair_can_be_varied(tmp_path: Path) -> None:
    plan = planned(tmp_path, pairs="all", parameters={BOTH[0]: {"receiver.nak_limit": [5, 250]}})

    assert pairs_in(plan)[:2] == [f"{BOTH[0]}+receiver.nak_limit=5", f"{BOTH[0]}+receiver.nak_limit=250"]
    limits = [plan.implementations[name].of("receiver").parameters["nak_limit"] for name in pairs_in(plan)[:2]]
    assert limits == [5, 250]


def test_a_parameter_that_a_pair_does_not_have_is_a_mistake(tmp_path: Path) -> None:
    assert mistake(tmp_path, pairs="all", parameters={BOTH[0]: {"nak_limit": 5}}).startswith(
        f"parameters.{BOTH[0]}.nak_limit: is not a parameter of {BOTH[0]}; did you mean"
    )


def test_parameters_of_a_pair_that_the_sweep_does_not_make_are_a_mistake(tmp_path: Path) -> None:
    assert mistake(tmp_path, pairs=[["cfdp", "cfdp-librecube"]], parameters={BOTH[1]: {"sender.gaps": "whole"}}) == (
        f"parameters.{BOTH[1]}: is not a pair of this sweep: they do not talk to each other, or 'pairs' does not name "
        "them; remove it"
    )


def test_what_is_advertised_to_an_implementation_is_advertised_to_pairs_that_it_sends_in(tmp_path: Path) -> None:
    plan = planned(tmp_path, pairs="all", advertised={"cfdp": {"rate": "5 Mbit/s"}})
    rates = {run.permutation.implementation: advertised_values(run, plan.sweep).rate_bps for run in plan.runs}

    assert rates == {"cfdp": 5e6, "cfdp-librecube": 10e6, BOTH[0]: 5e6, BOTH[1]: 10e6}


def test_all_pairs_are_without_the_side_that_a_program_does_not_have(tmp_path: Path) -> None:
    names = ["cfdp", str(written(tmp_path, ONE_SIDED, "receiver"))]
    plan = planned(tmp_path, implementations=names, pairs="all")

    assert pairs_in(plan) == ["cfdp-to-receiver"]
    assert plan.left_out_pairs["receiver-to-cfdp"].startswith("no such side: receiver has no sender")
    assert mistake(tmp_path, implementations=names, pairs=[["receiver", "cfdp"]]).startswith(
        "pairs[0]: receiver-to-cfdp is not possible: no such side: receiver has no sender"
    )


def test_the_name_of_a_pair_of_two_implementations_that_come_with_owlt_suffices(tmp_path: Path) -> None:
    assert pairs_in(planned(tmp_path, implementations=[BOTH[0]])) == [BOTH[0]]


def test_the_name_of_a_pair_that_is_not_possible_says_why() -> None:
    with pytest.raises(ProfileError, match="cfdp-to-ltp is not possible: cfdp talks CFDP class 2 over UDP, ltp talks"):
        find_implementation("cfdp-to-ltp")


@pytest.mark.parametrize(
    ("name", "fix"),
    [
        (
            "socat-to-mine",
            "'mine' does not come with owlt; give the path of the pair's file, such as socat-to-mine.yaml",
        ),
        ("cfpd-to-ltp", "did you mean cfdp?"),
    ],
)
def test_the_name_of_a_pair_with_a_side_that_does_not_come_with_owlt_says_how_to_name_it(
    tmp_path: Path, name: str, fix: str
) -> None:
    assert mistake(tmp_path, implementations=[name]) == (
        f"implementations: {name!r} is not a known implementation; {fix}"
    )


def test_the_name_of_a_pair_in_a_sweep_that_is_not_possible_is_a_mistake_in_its_list(tmp_path: Path) -> None:
    assert mistake(tmp_path, implementations=["cfdp-to-ltp"]).startswith("implementations: cfdp-to-ltp is not possible")


MINE = """
name: mine
title: Mine
protocol: CFDP
description: a program of the user's
sender: {command: [mine, send, "{file}", "{port}", "{kind}"]}
receiver: {command: [mine, receive, "{received_file}", "{port}", "{kind}"]}
parameters: {port: 1, kind: "0"}
session: {udp_ports: ["{port}"]}
time_limit: {rtts: 1, file_times: 1, extra_s: 1}
pairing:
  family: CFDP class 2 over UDP
  agree: {receiver_port: {parameter: port}, checksum: {parameter: kind, values: {modular: "0", crc32: "3"}}}
"""
ONE_SIDED = re.sub("sender: .*", "sender: {command: [sh, -c, exit 127]}", MINE).replace("name: mine", "name: receiver")


def test_a_file_of_five_lines_pairs_a_program_of_the_users(tmp_path: Path) -> None:
    written(tmp_path, MINE, "mine")
    path = written(
        tmp_path,
        "name: mine-to-cfdp\nsender: {from: mine.yaml}\nreceiver: {from: cfdp, parameters: {nak: immediate}}\n",
    )
    pair = find_implementation(str(path))

    assert pair.name == "mine-to-cfdp"
    assert pair.of("receiver").parameters["receiver_port"] == 1
    assert pair.of("receiver").parameters["checksum"] == "modular"
    assert pair.of("receiver").parameters["nak"] == "immediate"


def test_a_pair_is_shown_with_the_profiles_of_its_sides_and_without_what_only_a_side_has(tmp_path: Path) -> None:
    mine = written(tmp_path, MINE, "mine")
    pair = written(tmp_path, "name: mine-to-cfdp\nsender: {from: mine.yaml}\nreceiver: {from: cfdp}\n")
    shown = CliRunner().invoke(app, ["implementations", "show", str(pair)]).stdout
    rows = dict(line.strip().partition(" ")[::2] for line in shown.splitlines())
    receiver = PROFILES / "implementations" / "cfdp.yaml"

    assert rows["sender"].strip() == f"mine: {find_implementation(str(mine)).title}, {mine}"
    assert rows["receiver"].strip() == f"cfdp: CFDP (cfdp-py), {receiver}"
    assert rows.keys().isdisjoint({"binary", "needs", "version_command", "pair", "pairing"})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name: mine-to-cfdp\nsender: {from: ltpp}\nreceiver: {from: cfdp}\n", ":2: sender.from: .*did you mean ltp"),
        ("name: other\nsender: {from: ltp}\nreceiver: {from: ltp}\n", ":1: name: got 'other', expected 'mine-to-cfdp'"),
        ("name: mine-to-cfdp\nsender: {from: ltp}\nreceiver: {form: ltp}\n", ":3: receiver.form: is not a known key"),
        (
            "name: mine-to-cfdp\nsender: {from: ltp, parameters: {prot: 2}}\nreceiver: {from: ltp}\n",
            ":2: sender.parameters.prot: is not a parameter of ltp; did you mean port",
        ),
        (
            "name: mine-to-cfdp\nsender: {from: mien.yaml}\nreceiver: {from: cfdp}\n",
            ":2: sender.from: there is no such file: .*; a relative path is resolved against the directory of mine-to-",
        ),
        (
            "name: mine-to-cfdp\nsender: {from: cfdp-to-gsfc-cfdp}\nreceiver: {from: cfdp}\n",
            ":2: sender.from: cfdp-to-gsfc-cfdp is a pair itself",
        ),
        (
            "name: mine-to-cfdp\nsender: {from: receiver.yaml}\nreceiver: {from: cfdp}\n",
            "is not possible: no such side: receiver has no sender, .*; .* take the side from another implementation",
        ),
        ("name: mine-to-cfdp\nsender: {from: iperf3}\nreceiver: {from: tcp}\n", "starts its sender first, tcp its"),
    ],
)
def test_a_mistake_in_a_pair_is_named_with_its_place(tmp_path: Path, text: str, message: str) -> None:
    written(tmp_path, ONE_SIDED, "receiver")
    with pytest.raises(ProfileError, match=message):
        find_implementation(str(written(tmp_path, text)))


def test_a_pair_that_is_a_side_of_itself_is_a_mistake(tmp_path: Path) -> None:
    path = written(tmp_path, "name: mine-to-cfdp\nsender: {from: mine-to-cfdp.yaml}\nreceiver: {from: cfdp}\n")

    with pytest.raises(ProfileError, match="is a pair itself"):
        find_implementation(str(path))


def test_a_pair_has_the_values_that_its_name_states(tmp_path: Path) -> None:
    varied = {"ltp": {"port": [1113, 2000]}}
    plan = planned(tmp_path, implementations=["ltp", "licklider"], parameters=varied, pairs="all")
    ports = {name: plan.implementations[name].of("sender").parameters["port"] for name in pairs_in(plan)}

    assert ports == {
        "ltp-to-licklider+sender.port=1113": 1113,
        "ltp-to-licklider+sender.port=2000": 2000,
        "licklider-to-ltp+receiver.port=1113": 1113,
        "licklider-to-ltp+receiver.port=2000": 2000,
    }


@pytest.mark.parametrize("pairs", ["all", [["ltp", "licklider"]]], ids=["all", "named"])
def test_variants_whose_values_differ_are_left_out(tmp_path: Path, pairs: object) -> None:
    varied = {name: {"port": [1113, 2000]} for name in ("ltp", "licklider")}
    plan = planned(tmp_path, implementations=["ltp", "licklider"], parameters=varied, pairs=pairs)
    there = [name for name in pairs_in(plan) if name.startswith("ltp-")]

    assert there == [f"ltp-to-licklider+sender.port={port}+receiver.port={port}" for port in (1113, 2000)]
    assert plan.left_out_pairs["ltp-to-licklider+sender.port=1113+receiver.port=2000"] == (
        "port must agree, and would have to be 1113 and 2000"
    )


@pytest.mark.parametrize(("term", "suggestion"), [("chekcsum", "checksum"), ("receiver_prt", "receiver_port")])
def test_a_term_that_is_nearly_one_of_its_family_is_a_mistake(tmp_path: Path, term: str, suggestion: str) -> None:
    path = written(tmp_path, MINE.replace(f"{suggestion}:", f"{term}:"), "mine")

    with pytest.raises(ProfileError, match=rf"mine.yaml:\d+: pairing.agree.{term}: .*did you mean {suggestion}\?"):
        find_implementation(str(path))


def test_a_term_that_is_like_no_other_is_one_of_its_own(tmp_path: Path) -> None:
    path = written(tmp_path, MINE.replace("checksum:", "release:"), "mine")

    assert "release" in find_implementation(str(path)).pairing.agree  # type: ignore[union-attr]


def test_a_pair_that_is_listed_twice_is_a_mistake(tmp_path: Path) -> None:
    listed = [["cfdp", "cfdp-librecube"], ["cfdp-librecube", "cfdp"], ["cfdp", "cfdp-librecube"]]

    assert mistake(tmp_path, pairs=listed) == (
        "pairs[2]: cfdp to cfdp-librecube is already there: pairs[0]; remove one of them"
    )
    assert len(pairs_in(planned(tmp_path, pairs=listed[:2]))) == 2
