"""A side of a build: its templated files, its dialogue, its signs, and what is refused of them."""

from typing import Any

import pytest
from pydantic import ValidationError

from owlt.agents.contract.implementation import Implementation
from owlt.agents.contract.limits import Limits, Space
from owlt.agents.contract.placeholders import RunValues, as_text
from owlt.agents.contract.side import Ready, Side, Stop


def implementation(**changes: Any) -> Implementation:
    """A build of two lines, with changes."""
    side = {"command": ["run"]}
    keys = {"name": "a", "title": "A", "protocol": "P", "description": "d", "sender": side, "receiver": side}
    rest = {"session": {}, "time_limit": {"rtts": 1, "file_times": 1, "extra_s": 1}}
    return Implementation.model_validate(keys | rest | changes)


def refusal(**changes: Any) -> str:
    """Why such a build is refused."""
    with pytest.raises(ValidationError) as refused:
        implementation(**changes)
    return str(refused.value)


def test_a_file_is_a_template_with_the_placeholders_of_commands() -> None:
    side = Side(
        command=["run"], files={"a.conf": "rate {{ rate_bps|int // 1000 }}k\n{% if rtt_s|float > 1 %}far{% endif %}"}
    )

    assert side.rendered({"rate_bps": "10000000", "rtt_s": "2.5"}).files == {"a.conf": "rate 10000k\nfar"}


def test_a_number_of_the_run_is_doubled_as_a_number_in_a_file(run_values: RunValues) -> None:
    side = Side(command=["run"], files={"a.conf": "{{ rtt_s * 2 }} of {{ rtt_s }}"})

    assert side.rendered(run_values.as_text()).files == {"a.conf": "0.1 of 0.05"}


def test_a_number_among_the_parameters_is_a_number_in_a_file() -> None:
    build = implementation(parameters={"port": 5000}, sender={"command": ["x"], "files": {"a": "{{ port + 1 }}"}})

    assert build.rendered({}, {}).sender.files == {"a": "5001"}


def test_text_among_the_parameters_stays_text_in_a_file() -> None:
    build = implementation(parameters={"word": "5"}, sender={"command": ["x"], "files": {"a": "{{ word + '1' }}"}})

    assert build.rendered({}, {}).sender.files == {"a": "51"}


def test_a_line_that_tells_of_failure_stands_as_it_is_written() -> None:
    side = Side.model_validate({"command": ["run"], "failed_line": "^fail{1}ed"})

    assert side.rendered({}).failed_line == "^fail{1}ed"


@pytest.mark.parametrize("name", ["TERM", "INT", "KILL", "HUP", "QUIT", "USR1"])
def test_a_signal_is_named_without_sig(name: str) -> None:
    assert Stop(signal=name).signal == name


def test_a_file_that_names_what_nothing_fills_is_refused_with_what_does() -> None:
    told = refusal(sender={"command": ["run"], "files": {"a.conf": "{{ oneway }}"}})

    assert "sender.files.a.conf: has {{ oneway }}, which has no value; " in told
    assert "one_way_delay_" in told


def test_a_file_that_is_no_template_is_refused_with_its_line() -> None:
    told = refusal(sender={"command": ["run"], "files": {"a.conf": "x\n{% if %}"}})

    assert "sender.files.a.conf: is not a Jinja2 template: line 2" in told


def test_what_is_typed_is_filled_and_what_is_expected_stands_as_it_is() -> None:
    side = Side.model_validate({"command": ["run"], "dialogue": [{"expect": "^x{2}>", "send": "put {file} 102"}]})

    exchange = side.rendered({"file": "/f"}).dialogue[0]
    assert (exchange.expect, exchange.send) == ("^x{2}>", "put /f 102")


def test_a_deadline_in_a_placeholder_becomes_a_number() -> None:
    side = Side.model_validate({"command": ["run"], "dialogue": [{"expect": "x", "within_s": "{rtt_s}"}]})

    assert side.rendered({"rtt_s": "2.5"}).dialogue[0].within_s == 2.5


def test_a_port_in_a_placeholder_becomes_a_number() -> None:
    side = Side.model_validate({"command": ["run"], "ready": {"tcp_port": "{port}"}})

    assert side.rendered({"port": "5001"}).ready == Ready(tcp_port=5001)


def test_ready_has_one_sign() -> None:
    with pytest.raises(ValidationError, match="exactly one of line, udp_port, tcp_port, sctp_port, file"):
        Ready(udp_port=1, tcp_port=1)


def test_a_side_without_a_dialogue_has_no_terminal_to_be_stopped_at() -> None:
    with pytest.raises(ValidationError, match=r"stop\.send: requires a dialogue"):
        Side.model_validate({"command": ["run"], "stop": {"send": "quit"}})


def test_an_unknown_placeholder_is_refused_wherever_it_stands() -> None:
    for key, value in (
        ("command", ["{fiel}"]),
        ("environment", {"A": "{fiel}"}),
        ("prepare", [["{fiel}"]]),
        ("sysctls", {"net.x": "{fiel}"}),
        ("route", {"initcwnd": "{fiel}"}),
        ("dialogue", [{"send": "{fiel}"}]),
        ("ready", {"file": "{fiel}"}),
    ):
        assert "did you mean {file}?" in refusal(sender={"command": ["run"]} | {key: value}), key


def test_a_program_found_is_a_placeholder_of_the_command_and_of_the_version() -> None:
    binary = {"tool": {"search": ["tool", "{third_party}/tool/bin/tool"], "fix": "make third-party"}}
    build = implementation(binary=binary, sender={"command": ["{tool}", "-x"]}, version_command=["{tool}", "-V"])

    assert build.rendered({}, {"tool": "/opt/tool"}).sender.command == ["/opt/tool", "-x"]


def test_a_name_cannot_be_a_program_and_a_parameter() -> None:
    told = refusal(binary={"x": {"search": ["x"], "fix": "m"}}, parameters={"x": 1})

    assert "parameters.x: the name is under binary too; rename one" in told


def test_the_received_file_is_made_of_the_run_directory_and_the_files_name() -> None:
    build = implementation(received_file="{run_dir}/inbox/{file_name}")

    assert build.received_at("/run/1", "file-10.bin") == "/run/1/inbox/file-10.bin"


@pytest.mark.parametrize(
    ("limits", "said"),
    [
        (Limits(largest_file_bytes=999), "largest_file_bytes is 999"),
        (Limits(slowest_rate_bps=20_000), "slowest_rate_bps is 20000"),
        (Limits(longest_one_way_delay_s=0.5), "longest_one_way_delay_s is 0.5"),
    ],
)
def test_a_run_beyond_a_limit_is_reported_which(limits: Limits, said: str) -> None:
    assert said in str(limits.exceeded(1000, 10_000, 1.0))


def test_a_run_at_its_limits_is_within_them() -> None:
    limits = Limits(largest_file_bytes=1000, slowest_rate_bps=10_000, longest_one_way_delay_s=1)

    assert limits.exceeded(1000, 10_000, 1.0) is None


def test_an_unlimited_rate_is_not_too_slow() -> None:
    assert Limits(slowest_rate_bps=10_000).exceeded(1, None, 0) is None


def test_a_run_directory_grows_with_the_file() -> None:
    assert Space(file_sizes=2, extra_bytes=5).bytes_for(1000) == 2005


def test_a_placeholder_that_is_filled_with_no_number_is_refused() -> None:
    side = Side.model_validate({"command": ["run"], "card_rate_bps": "{word}"})

    with pytest.raises(ValidationError, match=r"a number of at least 0, or a \{placeholder\}"):
        side.rendered({"word": "fast"})


@pytest.mark.parametrize("name", ["/etc/hosts", "../x", "a/../../x"])
def test_a_file_that_would_outlive_the_run_is_refused(name: str) -> None:
    told = refusal(sender={"command": ["run"], "files": {name: ""}})

    assert "the name of a file below the run directory" in told


def test_a_file_that_cannot_be_reckoned_is_named() -> None:
    side = Side(command=["run"], files={"a.conf": "{{ 1 / rate_bps }}"})

    with pytest.raises(ValueError, match=r"^files\.a\.conf: ZeroDivisionError: "):
        side.rendered({"rate_bps": as_text(0.0)})
