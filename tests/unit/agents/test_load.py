"""Implementation files: what is accepted, and what each kind of mistake is answered with."""

from pathlib import Path

import pytest

from agents.load import ContractError, load_implementation

GOOD = """
name: example
title: An example
protocol: UDP
description: copies a file
sender:
  command: [copy, "{file}", "{receiver_address}:{port}"]
receiver:
  command: [take, "{received_file}"]
  ready: {udp_port: "{port}"}
  environment: {TZ: UTC, SIZE: "{file_size_bytes}"}
parameters: {port: 4000}
session: {udp_ports: ["{port}"]}
time_limit: {rtts: 10, file_times: 2, extra_s: 5}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "example.yaml"
    path.write_text(GOOD)
    return path


def refusal(file: Path, old: str, new: str) -> str:
    """What the loader says about the good file with one thing changed."""
    assert old in GOOD
    file.write_text(GOOD.replace(old, new))
    with pytest.raises(ContractError) as refused:
        load_implementation(file)
    return str(refused.value)


def test_a_good_file_loads_with_its_defaults(file: Path) -> None:
    implementation = load_implementation(file)

    assert implementation.clocks == ["exact", "skip", "real"]
    assert (implementation.starts_first, implementation.done) == ("receiver", "both_exit")
    assert implementation.unsupported_exit_status == 127


def test_no_is_a_word_as_in_yaml_1_2(file: Path) -> None:
    file.write_text(GOOD.replace("protocol: UDP", "protocol: no"))

    assert load_implementation(file).protocol == "no"


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("title: An example", "titel: An example", "titel: is not a known key; did you mean title?"),
        ("title: An example\n", "", "title: is missing; add it (string)"),
        ("title: An example", "title: 5", "title: got 5, wanted text; put quotes around a number"),
        ("title: An example", 'title: ""', "title: got '', wanted at least one"),
        ("name: example", "name: Example One", "name: got 'Example One', wanted text of the form ^[a-z0-9]"),
        ("name: example", "name: other", "name: got 'other', wanted 'example' as the file is called"),
        ("[take, ", "[17, ", "receiver.command[0]: got 17, wanted text; put quotes around a number"),
        ('[take, "{received_file}"]', "[]", "receiver.command: got [], wanted at least one"),
        ('[take, "{received_file}"]', "take it", "receiver.command: got 'take it', wanted a list such as [one, two]"),
        (
            "{received_file}",
            "{recieved_file}",
            "receiver.command[1]: got '{recieved_file}', whose {recieved_file} is not a plain known placeholder",
        ),
        ("{file_size_bytes}", "{size}", "receiver.environment.SIZE: got '{size}', whose {size} is not"),
        ('["{port}"]', '["{prot}"]', "session.udp_ports[0]: got '{prot}', whose {prot} is not"),
        ('["{port}"]', "[70000]", "session.udp_ports[0]: got 70000, wanted less than or equal to 65535 or text"),
        ('{udp_port: "{port}"}', "{line: '('}", "receiver.ready.line: got '(', wanted a regular expression"),
        ('{udp_port: "{port}"}', "{}", "receiver.ready: got {}, wanted exactly one of line, udp_port"),
        ('{udp_port: "{port}"}', "{udp_port: 1, line: x}", "wanted exactly one of line, udp_port"),
        ('{udp_port: "{port}"}', "{sctp_port: 1}", "receiver.ready.sctp_port: is not a known key"),
        ("rtts: 10", "rtts: -1", "time_limit.rtts: got -1, wanted greater than or equal to 0"),
        ("rtts: 10", "rtts: .inf", "time_limit.rtts: got inf, wanted a finite number"),
        ("rtts: 10, ", "", "time_limit.rtts: is missing; add it (number)"),
        ("{port: 4000}", "{port: 4000, seed: 1}", "{seed} comes from the run: choose another name"),
        ("{port: 4000}", "{port: 4000, a-b: 1}", "'a-b' cannot stand between braces"),
        ("{port: 4000}", "{port: [1]}", "parameters.port: got [1], wanted a valid integer or a valid number or text"),
        ("title:", "done: never\ntitle:", "done: got 'never', wanted 'both_exit', 'receiver_exits'"),
        ("title:", "clocks: [fast]\ntitle:", "clocks[0]: got 'fast', wanted 'exact', 'skip' or 'real'"),
        ("title:", "clocks: []\ntitle:", "clocks: got [], wanted at least one"),
        ("title:", "needs: [{mend: do it}]\ntitle:", "wanted exactly one of file, command, python_module, library"),
        ("title:", "needs: [{file: /x}]\ntitle:", "needs[0].mend: is missing; add it (string)"),
        (
            "title:",
            "known_limits: [{why: at times, it crashes}]\ntitle:",
            "known_limits[0].it crashes: is not a known key; if it belongs to the text before it, put quotes around",
        ),
        ("title:", "version_command: [x, '{file}']\ntitle:", "version_command[1]: got '{file}', whose {file} is not"),
        (
            "title:",
            "unsupported_exit_status: 0\ntitle:",
            "unsupported_exit_status: got 0, wanted greater than or equal to 1",
        ),
        ("title:", "title: again\ntitle:", "not YAML: found duplicate key"),
        ("title:", "title: [\ntitle:", "line 5: is not YAML"),
    ],
)
def test_a_mistake_is_answered_with_file_key_got_and_wanted(file: Path, old: str, new: str, said: str) -> None:
    message = refusal(file, old, new)

    assert message.startswith(str(file))
    assert said in message


def test_every_mistake_is_named_at_once(file: Path) -> None:
    message = refusal(file, "title: An example", "titel: An example")

    assert [line.split(": ")[1] for line in message.splitlines()] == ["title", "titel"]


def test_an_empty_file_is_refused(file: Path) -> None:
    file.write_text("")

    with pytest.raises(ContractError, match="got nothing, wanted keys and values"):
        load_implementation(file)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ContractError, match=r"absent\.yaml: there is no such file"):
        load_implementation(tmp_path / "absent.yaml")
