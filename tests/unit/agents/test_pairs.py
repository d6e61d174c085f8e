"""Pairs: on what their sides agree, why some are not possible, and what they have of both."""

from __future__ import annotations

from typing import Any

import pytest

from owlt.agents.contract.implementation import Implementation
from owlt.agents.contract.limits import Limits, TimeLimit
from owlt.agents.contract.pairing import Pairing, Term
from owlt.agents.contract.pairs import CannotPair, pair_name, pair_of, with_parameters
from owlt.agents.contract.placeholders import RunValues
from owlt.agents.contract.session_ports import SessionPorts
from owlt.orchestrator.profiles.catalogue import find_implementation

PARAMETERS = {"port": 5000, "checksum": "modular"}


def program(name: str, terms: dict[str, Any], **changes: Any) -> Implementation:
    """An implementation whose commands have all of its parameters."""
    parameters = changes.pop("parameters", PARAMETERS)
    command = [name, *(f"{{{each}}}" for each in parameters)]
    values = {
        "name": name,
        "title": name,
        "protocol": "TEST",
        "description": "a program",
        "sender": {"command": [*command, "{file}"]},
        "receiver": {"command": [*command, "{received_file}"]},
        "parameters": parameters,
        "session": {"udp_ports": ["{port}"]} if "port" in parameters else {"udp_ports": [7]},
        "time_limit": {"rtts": 1, "file_times": 1, "extra_s": 1},
        "pairing": {"family": "test", "agree": terms},
    }
    return Implementation.model_validate(values | changes)


SETTABLE = {"port": {"parameter": "port"}, "checksum": {"parameter": "checksum"}}


def sides_of(sender: Implementation, receiver: Implementation) -> tuple[Implementation, Implementation]:
    pair = pair_of(sender, receiver).pair
    assert pair is not None
    return pair.sender, pair.receiver


def reason(sender: Implementation, receiver: Implementation) -> str:
    with pytest.raises(CannotPair) as caught:
        pair_of(sender, receiver)
    return str(caught.value)


def test_the_receiver_takes_what_both_can_set_from_the_sender() -> None:
    one, other = program("one", SETTABLE), program("other", SETTABLE, parameters={"port": 6000, "checksum": "crc32"})

    assert sides_of(one, other)[1].parameters == {"port": 5000, "checksum": "modular"}
    assert sides_of(other, one)[1].parameters == {"port": 6000, "checksum": "crc32"}


def test_the_sender_takes_what_the_receiver_cannot_change() -> None:
    fixed = program("fixed", SETTABLE | {"checksum": {"fixed": "crc32"}}, parameters={"port": 5000})

    assert sides_of(program("one", SETTABLE), fixed)[0].parameters["checksum"] == "crc32"


def test_a_fixed_value_of_zero_is_a_value() -> None:
    fixed = program("fixed", SETTABLE | {"checksum": {"fixed": 0}}, parameters={"port": 5000})

    assert sides_of(program("one", SETTABLE), fixed)[0].parameters["checksum"] == 0


def test_each_side_has_its_own_word_for_a_value() -> None:
    words = {"checksum": {"parameter": "kind", "values": {"modular": "0", "crc32": "3"}}}
    other = program("other", words, parameters={"kind": "0"})
    one = program("one", SETTABLE, parameters={"port": 1, "checksum": "crc32"})

    assert sides_of(one, other)[1].parameters["kind"] == "3"
    assert sides_of(other, one)[1].parameters["checksum"] == "modular"


def test_a_parameter_of_two_terms_makes_them_equal() -> None:
    two = {"sender_port": {"parameter": "near"}, "receiver_port": {"parameter": "far"}}
    both = {"sender_port": {"parameter": "port"}, "receiver_port": {"parameter": "port"}}
    sender = program("sender", two, parameters={"near": 1, "far": 2})

    assert sides_of(sender, program("other", both))[0].parameters == {"near": 1, "far": 1}


def test_a_term_that_one_side_alone_has_changes_nothing() -> None:
    assert sides_of(program("one", {"port": {"fixed": 9}}), program("other", {}))[1].parameters == PARAMETERS


def test_a_term_of_a_receiver_alone_binds_no_sender() -> None:
    picky = program("picky", {}, pairing={"family": "test", "receiver": {"checksum": {"fixed": "crc32"}}})
    one = program("one", SETTABLE)

    assert sides_of(one, picky)[0].parameters["checksum"] == "crc32"
    assert sides_of(picky, one)[1].parameters["checksum"] == "modular"


def test_two_fixed_values_that_differ_are_the_reason_why_a_pair_is_not_possible() -> None:
    one, other = (program(name, {"checksum": {"fixed": value}}) for name, value in (("one", "a"), ("other", "b")))

    assert reason(one, other) == "checksum must agree, and neither can change it: one has a, other has b"


@pytest.mark.parametrize("status", [127, 3])
def test_a_program_of_one_side_is_no_pair_in_the_other_role(status: int) -> None:
    one, receiver = program("one", SETTABLE), program("other", SETTABLE, unsupported_exit_status=status)
    no_sender = receiver.sender.model_copy(update={"command": ["sh", "-c", f"exit {status}"]})
    receiver = receiver.model_copy(update={"sender": no_sender})

    assert reason(receiver, one) == "no such side: other has no sender, its command only exits"
    assert pair_of(one, receiver).name == "one-to-other"


def test_a_value_for_which_a_side_has_no_word_is_a_reason() -> None:
    words = {"checksum": {"parameter": "kind", "values": {"modular": "0"}}}
    other = program("other", words, parameters={"kind": "0"})
    one = program("one", SETTABLE, parameters={"port": 1, "checksum": "crc32"})

    assert reason(one, other) == (
        "checksum would be crc32, which other cannot have as the receiver: its kind has values for modular"
    )


def test_a_value_that_a_profile_does_not_list_is_a_reason() -> None:
    listed = program("listed", SETTABLE, choices={"checksum": ["modular", "null"]})
    one = program("one", SETTABLE, parameters={"port": 1, "checksum": "crc32"})

    assert reason(one, listed).endswith("its checksum has values for modular, null")


def test_another_family_is_a_reason() -> None:
    other = program("other", {}, pairing={"family": "else"})

    assert reason(program("one", {}), other) == "one talks test, other talks else"


def test_a_profile_without_pairing_is_a_reason_unless_the_pair_is_written_by_hand() -> None:
    one, other = program("one", SETTABLE), program("other", {}, pairing=None)

    assert reason(one, other) == "the profile of other has no 'pairing', which states with whom it can talk"
    assert pair_of(one, other, needs_family=False).name == "one-to-other"


def test_sides_that_both_wait_for_the_other_are_no_pair() -> None:
    assert "starts its receiver first, other its sender" in reason(
        program("one", {}), program("other", {}, starts_first="sender")
    )


def test_sides_without_a_common_clock_are_no_pair() -> None:
    assert reason(program("one", {}, clocks=["real"]), program("other", {}, clocks=["exact", "skip"])) == (
        "one works on real, other on exact and skip"
    )


def test_the_name_of_a_pair_says_whose_parameter_a_variant_changes() -> None:
    assert pair_name("cfdp+nak=deferred", "ltp+sessions=2") == "cfdp-to-ltp+sender.nak=deferred+receiver.sessions=2"


def test_the_title_of_a_pair_has_the_protocol_once() -> None:
    one, other = program("a", {}, title="CFDP (cfdp-py)"), program("b", {}, title="CFDP (LibreCube)")

    assert pair_of(one, other).title == "CFDP (cfdp-py to LibreCube)"


def test_the_limits_of_a_pair_are_the_stricter_ones_and_its_time_the_longer() -> None:
    one = program("one", {}, limits={"largest_file_bytes": 10, "slowest_rate_bps": 5})
    other = program("other", {}, limits={"largest_file_bytes": 20, "slowest_rate_bps": 7})
    slow = other.model_copy(update={"time_limit": TimeLimit(rtts=9, file_times=0, extra_s=0)})
    pair = pair_of(one, slow)

    assert pair.limits == Limits(largest_file_bytes=10, slowest_rate_bps=7)
    assert pair.time_limit == TimeLimit(rtts=9, file_times=1, extra_s=1)


def test_a_pair_uses_the_versions_of_ip_that_both_sides_can() -> None:
    old, both, new = (program(f"of-{len(n)}-{n[0]}", {}, limits={"ip_versions": n}) for n in ([4], [4, 6], [6]))

    assert pair_of(old, both).limits.ip_versions == (4,)
    assert pair_of(both, new).limits.ip_versions == (6,)
    with pytest.raises(CannotPair, match="no version of IP in common"):
        pair_of(old, new)


@pytest.mark.parametrize(
    ("of_sender", "of_receiver", "expected"),
    [
        ("both_exit", "both_exit", "both_exit"),
        ("sender_exits", "receiver_exits", "both_exit"),
        ("sender_exits", "sender_exits", "sender_exits"),
        ("both_exit", "file_delivered", "sender_exits"),
        ("receiver_exits", "both_exit", "receiver_exits"),
        ("receiver_exits", "sender_exits", "file_delivered"),
    ],
)
def test_a_pair_ends_with_the_exits_that_mean_something(of_sender: str, of_receiver: str, expected: str) -> None:
    assert pair_of(program("one", {}, done=of_sender), program("other", {}, done=of_receiver)).done == expected


def test_the_parameters_of_a_pair_are_those_of_its_sides_without_those_that_follow() -> None:
    pair = pair_of(program("one", SETTABLE), program("other", {"port": {"parameter": "port"}}))

    assert pair.parameters == {"sender.port": 5000, "sender.checksum": "modular", "receiver.checksum": "modular"}


def test_a_parameter_that_a_side_does_not_use_is_none_of_a_pair() -> None:
    receiver = {"command": ["other", "{port}", "{received_file}"]}

    assert "receiver.checksum" not in pair_of(program("one", {}), program("other", {}, receiver=receiver)).parameters


def test_another_parameter_of_the_sender_reaches_the_receiver() -> None:
    pair = with_parameters(pair_of(program("one", SETTABLE), program("other", SETTABLE)), {"sender.port": 7})

    assert pair.of("receiver").parameters["port"] == 7


def test_a_parameter_that_a_pair_does_not_have_is_refused() -> None:
    with pytest.raises(ValueError, match=r"one-to-other has no parameter 'receiver\.port'; it has: sender\.checksum"):
        with_parameters(pair_of(program("one", SETTABLE), program("other", SETTABLE)), {"receiver.port": 7})


def test_the_packets_of_a_pair_are_those_of_both() -> None:
    one = SessionPorts(udp_ports=[1, 2], multicast_groups=["224.1.2.3"])

    assert one.joined(SessionPorts(udp_ports=[2, 3])) == SessionPorts(
        udp_ports=[1, 2, 3], multicast_groups=["224.1.2.3"]
    )
    assert one.joined(SessionPorts(ports="any")) == SessionPorts(ports="any", multicast_groups=["224.1.2.3"])


def test_a_side_is_filled_with_the_parameters_of_its_own_implementation(run_values: RunValues) -> None:
    pair = pair_of(program("one", {}), program("other", {}, parameters={"port": 6000, "checksum": "crc32"}))
    commands = [
        pair.of(role).rendered(run_values.as_text(), {}).side(role).command[:3] for role in ("sender", "receiver")
    ]

    assert commands == [["one", "5000", "modular"], ["other", "6000", "crc32"]]


def test_a_pair_is_the_same_once_it_has_been_in_a_plan() -> None:
    pair = find_implementation("cfdp-to-cfdp-librecube").planned

    assert Implementation.model_validate_json(pair.model_dump_json()) == pair


@pytest.mark.parametrize("term", [{}, {"parameter": "a", "fixed": "b"}, {"fixed": "b", "values": {"x": "y"}}])
def test_a_term_has_either_a_parameter_or_a_fixed_value(term: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"exactly one of parameter, fixed|requires a parameter"):
        Term.model_validate(term)


def test_a_term_with_a_parameter_that_does_not_exist_is_a_mistake_in_the_profile() -> None:
    with pytest.raises(ValueError, match=r"pairing\.agree\.port\.parameter: got 'prot', .*did you mean port"):
        program("one", {"port": {"parameter": "prot"}})


def test_the_terms_of_a_role_are_those_of_both_roles_and_its_own() -> None:
    pairing = Pairing.model_validate({"family": "x", "agree": {"a": {"fixed": 1}}, "sender": {"b": {"fixed": 2}}})

    assert list(pairing.terms("sender")) == ["a", "b"]
    assert list(pairing.terms("receiver")) == ["a"]


def limits_of(sender: Implementation, receiver: Implementation) -> list[tuple[str, dict[str, Any]]]:
    return [(limit.why, limit.parameters) for limit in pair_of(sender, receiver).known_limits]


def test_a_known_limit_of_one_side_is_one_of_pairs_with_that_side() -> None:
    one = program("one", SETTABLE, known_limits=[{"why": "it is deaf", "side": "receiver"}])

    assert limits_of(program("other", SETTABLE), one) == [("one: it is deaf", {})]
    assert limits_of(one, program("other", SETTABLE)) == []


def test_a_known_limit_of_parameters_names_them_with_their_side() -> None:
    parameters = {"port": 5000, "rest_s": 1}
    terms = {"port": {"parameter": "port"}}
    one = program("one", terms, parameters=parameters, known_limits=[{"why": "late", "parameters": {"rest_s": [1]}}])

    assert limits_of(one, program("other", SETTABLE)) == [("one: late", {"sender.rest_s": [1]})]


def test_a_known_limit_of_a_parameter_that_follows_from_the_other_side_is_decided_with_it() -> None:
    one = program("one", SETTABLE, known_limits=[{"why": "slow", "parameters": {"checksum": ["crc32"]}}])
    with_crc32 = program("other", SETTABLE, parameters={"port": 1, "checksum": "crc32"})

    assert limits_of(with_crc32, one) == [("one: slow", {})]
    assert limits_of(program("other", SETTABLE), one) == []


def test_a_known_limit_names_parameters_of_its_profile() -> None:
    with pytest.raises(ValueError, match=r"known_limits\[0\].parameters.checksom.*did you mean checksum"):
        program("one", SETTABLE, known_limits=[{"why": "slow", "parameters": {"checksom": ["crc32"]}}])
