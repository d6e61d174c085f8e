"""Implementation files: what is accepted, and what each kind of mistake is answered with."""

from pathlib import Path

import pytest

from owlt.agents.contract.implementation import ContractError, load_implementation

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
    assert (implementation.hang_s, implementation.keep, implementation.not_repeatable) == (60, [], None)


def test_no_is_a_word_as_in_yaml_1_2(file: Path) -> None:
    file.write_text(GOOD.replace("protocol: UDP", "protocol: no"))

    assert load_implementation(file).protocol == "no"


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("title: An example", "titel: An example", "titel: is not a known key; did you mean title?"),
        ("title: An example\n", "", "title: is missing; add it (text: its name in figures)"),
        ("title: An example", "title: 5", "title: got 5, expected text; put quotes around it"),
        ("title: An example", 'title: ""', "title: got '', expected text that is not empty"),
        (
            "name: example",
            "name: Example One",
            "name: got 'Example One', expected lower-case letters, digits, . _ and -",
        ),
        ("name: example", "name: example+fast", "name: got 'example+fast', expected a name without +"),
        ("name: example", "name: other", "name: got 'other', expected 'example', the name of the file"),
        ("[take, ", "[17, ", "receiver.command[0]: got 17, expected text; put quotes around it"),
        ('[take, "{received_file}"]', "[]", "receiver.command: got [], expected at least one"),
        ('[take, "{received_file}"]', "take it", "expected a list such as [one, two], or [sh, -c, "),
        (
            '["{port}"]',
            "{port}",
            'session.udp_ports: got {port} without quotes, expected "{port}"; braces need quotes in YAML',
        ),
        (
            '"{received_file}"]',
            "{received_file}]",
            'got {received_file} without quotes, expected "{received_file}"; braces',
        ),
        (
            '{udp_port: "{port}"}',
            "{udp_port: {port}}",
            'got {port} without quotes, expected "{port}"; braces need quotes',
        ),
        ('{udp_port: "{port}"}', "{udp_port: five}", "got 'five', expected a port from 1 to 65535, or a {placeholder}"),
        ('{udp_port: "{port}"}', "{udp_port: true}", "got true, expected a port from 1 to 65535, or a {placeholder}"),
        (
            '{udp_port: "{port}"}',
            "{udp_port: 1, within_s: 30 s}",
            "got '30 s', expected a number of at least 0, or a {placeholder}, in seconds; leave out the unit",
        ),
        (
            "environment:",
            "card_rate_bps: -1\n  environment:",
            "got -1, expected a number of at least 0, or a {placeholder}, in bit/s",
        ),
        (
            "environment:",
            "stop: {signal: TREM}\n  environment:",
            "one of TERM, INT, KILL, HUP, QUIT, USR1, USR2; did you mean TERM?",
        ),
        (
            "environment:",
            "stop: {signal: SIGINT}\n  environment:",
            "got 'SIGINT', expected a signal, without SIG: one of",
        ),
        (
            "environment:",
            "stop: {signal: 9}\n  environment:",
            "receiver.stop.signal: got 9, expected a signal, without SIG",
        ),
        (
            "environment:",
            "failed_line: '('\n  environment:",
            "receiver.failed_line: got '(', expected a valid regular expression",
        ),
        (
            "{received_file}",
            "{recieved_file}",
            "receiver.command[1]: {recieved_file} is not a known placeholder",
        ),
        ("{file_size_bytes}", "{size}", "receiver.environment.SIZE: {size} is not a known placeholder"),
        ('["{port}"]', '["{prot}"]', "session.udp_ports[0]: {prot} is not a known placeholder"),
        ('["{port}"]', "[70000]", "session.udp_ports[0]: got 70000, expected a port from 1 to 65535, a range such as"),
        (
            '["{port}"]',
            '["7000-6000"]',
            'expected a port from 1 to 65535, a range such as "6000-6999", the lower one first',
        ),
        ('["{port}"]', '["{port}"], ports: any', "expected either ports: any, or udp_ports, tcp_ports, sctp_ports"),
        ('udp_ports: ["{port}"]', "ports: all", "session.ports: got 'all', expected one of any"),
        ('{udp_port: "{port}"}', "{line: '('}", "receiver.ready.line: got '(', expected a valid regular expression"),
        ('{udp_port: "{port}"}', "{}", "receiver.ready: got {}, expected exactly one of line, udp_port"),
        ('{udp_port: "{port}"}', "{udp_port: 1, line: x}", "expected exactly one of line, udp_port"),
        ('{udp_port: "{port}"}', "{dccp_port: 1}", "receiver.ready.dccp_port: is not a known key"),
        ("rtts: 10", "rtts: -1", "time_limit.rtts: got -1, expected a number of at least 0"),
        ("rtts: 10", "rtts: true", "time_limit.rtts: got true, expected a number"),
        (
            "extra_s: 5",
            "extra_s: 5 s",
            "time_limit.extra_s: got '5 s', expected a number, in seconds; leave out the unit",
        ),
        ("extra_s: 5", "extra_s: ", "time_limit.extra_s: got nothing, expected a number, in seconds"),
        ("rtts: 10", "rtts: .inf", "time_limit.rtts: got inf, expected a finite number"),
        ("rtts: 10, ", "", "time_limit.rtts: is missing; add it (a number of round trips at the propagation delay)"),
        (
            "{port: 4000}",
            "{port: 4000, seed: 1}",
            "parameters.seed: {seed} is a placeholder of every run; choose another name",
        ),
        (
            "{port: 4000}",
            "{port: 4000, a-b: 1}",
            "parameters.a-b: cannot stand between braces, expected a name such as",
        ),
        (
            "{port: 4000}",
            "{port: [1, 2]}",
            "parameters.port: got [1, 2], expected a single value here; to try several, put the list under parameters",
        ),
        ("{port: 4000}", "{port: true}", "parameters.port: got true, expected a number or text; put quotes around it"),
        ("{port: 4000}", "{port: .nan}", "parameters.port: got nan, expected a finite number or text"),
        (
            "{port: 4000}",
            "{port: }",
            'parameters.port: got nothing, expected a number or text; write "" for an empty string',
        ),
        (
            "{port: 4000}",
            "{port: 4000, linger: 60}",
            "parameters.linger: got 60, but nothing uses it; write {linger} where it belongs, or leave it out",
        ),
        (
            "{port: 4000}",
            "{port: 4000, ports: 5}",
            "parameters.ports: got 5, but nothing uses it; did you mean port? Else write {ports} where it belongs",
        ),
        ("title:", "received_file: out.bin\ntitle:", "received_file: got 'out.bin', expected a path below {run_dir}/"),
        ("title:", "received_file: '{run_dir}/../x'\ntitle:", "expected a path below {run_dir}/, where no file of"),
        ("title:", "done: never\ntitle:", "done: got 'never', expected one of both_exit, receiver_exits"),
        ("title:", "clocks: [fast]\ntitle:", "clocks[0]: got 'fast', expected one of exact, skip, real"),
        ("title:", "clocks: []\ntitle:", "clocks: got [], expected at least one"),
        (
            "title:",
            "clocks: virtual\ntitle:",
            "clocks: got 'virtual', expected a list of any of exact, skip, real, such as",
        ),
        (
            "title:",
            "binary: {tool: {search: [tool, ~/bin/tool], fix: get it}}\ntitle:",
            "binary.tool.search: got '~/bin/tool', expected a name, to be found on PATH, or an absolute path",
        ),
        (
            "title:",
            "binary: {tool: {search: [/tmp/tool], fix: get it}}\ntitle:",
            "binary.tool.search: got '/tmp/tool', expected a path not below /tmp, /var/tmp, /dev/shm, which are empty",
        ),
        (
            "title:",
            "limits: {ip_versions: 6}\ntitle:",
            "limits.ip_versions: got 6, expected a list of any of 4, 6, such as [6]",
        ),
        ("title:", "needs: [{fix: do it}]\ntitle:", "expected exactly one of file, command, python_module, library"),
        ("title:", "needs: [{file: /x}]\ntitle:", "needs[0].fix: is missing; add it (the command that installs it)"),
        (
            "title:",
            "known_limits: [{why: at times, it crashes}]\ntitle:",
            "known_limits[0].it crashes: is not a known key; if it belongs to the text before it, put quotes around",
        ),
        ("title:", "version_command: [x, '{file}']\ntitle:", "version_command[1]: {file} is not a known placeholder"),
        (
            "title:",
            "unsupported_exit_status: 0\ntitle:",
            "unsupported_exit_status: got 0, expected a number from 1 to 255",
        ),
        ("title:", "hang_s: 0\ntitle:", "hang_s: got 0, expected a number of at least 1, in seconds"),
        ("title:", "hang_s: true\ntitle:", "hang_s: got true, expected a number"),
        (
            "title:",
            "keep: [../ion.log]\ntitle:",
            "keep[0]: got '../ion.log', expected the name of a file below the run",
        ),
        (
            "title:",
            "choices: {x: kernel}\ntitle:",
            "choices.x: got 'kernel', expected a list such as [one, two] or one of kernel_congestion_controls",
        ),
        ("title:", "not_repeatable: true\ntitle:", "not_repeatable: got true, expected text"),
        ("title:", "title: again\ntitle:", "example.yaml:4: title: appears twice, first on line 3; remove one"),
        ("title:", "title: [\ntitle:", "example.yaml:3: not valid YAML: the [ here is not closed"),
    ],
)
def test_a_mistake_is_answered_with_file_key_got_and_expected(file: Path, old: str, new: str, said: str) -> None:
    message = refusal(file, old, new)

    assert message.startswith(str(file))
    assert said in message


def test_every_mistake_is_named_at_once(file: Path) -> None:
    message = refusal(file, "title: An example\nprotocol: UDP", "title: 5\nprotocol: 6")

    assert [line.split(": ")[1] for line in message.splitlines()] == ["title", "protocol"]


def test_a_list_whose_values_are_all_wrong_is_not_called_empty(file: Path) -> None:
    message = refusal(file, "title:", "limits: {ip_versions: [5]}\ntitle:")

    assert message == f"{file}:3: limits.ip_versions[0]: got 5, expected one of 4, 6"


def test_a_misspelt_key_is_one_mistake(file: Path) -> None:
    message = refusal(file, "title: An example", "titel: An example")

    assert message == f"{file}:3: titel: is not a known key; did you mean title?"


def test_every_placeholder_that_nothing_fills_is_named_at_once(file: Path) -> None:
    message = refusal(file, '"{file}", "{receiver_address}', '"{fiel}", "{reciever_address}')

    assert [line.split(": ")[1] for line in message.splitlines()] == ["sender.command[1]", "sender.command[2]"]


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ("protocol: UDP", "protocol: 5", 4),
        ("rtts: 10", "rtts: many", 14),
        ("TZ: UTC", "TZ: 5", 11),
        ("TZ: UTC", "net.ipv4.x: 5", 11),
        ("parameters: {port: 4000}", "parameters:\n  port: 4000\n  linger: 1", 14),
        ("rtts: 10, ", "", 14),
        ("title: An example\n", "", 2),
        ("name: example", "name: other", 2),
        ('command: [take, "{received_file}"]', "command:\n  - take\n  - {received_file}", 11),
        ("environment: {", 'files:\n    a.conf: "{{ what }}"\n  environment: {', 12),
    ],
)
def test_a_mistake_is_reported_with_the_line_of_its_key(file: Path, old: str, new: str, line: int) -> None:
    assert refusal(file, old, new).startswith(f"{file}:{line}: ")


def test_a_parameter_that_only_a_file_uses_is_used(file: Path) -> None:
    file.write_text(
        GOOD.replace("{port: 4000}", "{port: 4000, linger: 1}").replace(
            "environment:", 'files: {a.conf: "{% if linger > 0 %}stay{% endif %}"}\n  environment:'
        )
    )

    assert load_implementation(file).parameters["linger"] == 1


@pytest.mark.parametrize(
    "use",
    [
        "prepare: [[sh, -c, '{linger}']]",
        "sysctls: {net.x: '{linger}'}",
        "route: {initcwnd: '{linger}'}",
        "dialogue: [{send: '{linger}'}]",
        "card_rate_bps: '{linger}'",
        "stop: {grace_s: 1}\n  files: {a: '{{ linger }}'}",
    ],
)
def test_a_parameter_is_used_wherever_its_placeholder_stands(file: Path, use: str) -> None:
    file.write_text(
        GOOD.replace("{port: 4000}", "{port: 4000, linger: 1}").replace("environment:", f"{use}\n  environment:")
    )

    assert load_implementation(file).parameters["linger"] == 1


def test_a_parameter_in_the_place_of_the_received_file_is_used(file: Path) -> None:
    file.write_text(
        GOOD.replace("{port: 4000}", "{port: 4000, inbox: in}").replace(
            "title:", 'received_file: "{run_dir}/{inbox}/a"\ntitle:'
        )
    )

    assert load_implementation(file).parameters["inbox"] == "in"


@pytest.mark.parametrize(
    ("key", "said"),
    [
        ("files: {a: 'x {linger}'}", "in a file write {{ linger }}"),
        ("prepare: [[x, '{{linger}}']]", "write {linger}: doubled braces are literal"),
        ("done_line: 'x{linger}'", "write {linger} where it belongs, or leave it out"),
    ],
)
def test_a_parameter_that_is_written_in_the_wrong_braces_is_reported_the_right_ones(
    file: Path, key: str, said: str
) -> None:
    changed = GOOD.replace("environment:", f"{key}\n  environment:")
    file.write_text(changed.replace("{port: 4000}", "{port: 4000, linger: 1}"))

    with pytest.raises(ContractError) as refused:
        load_implementation(file)

    assert said in str(refused.value)


def test_an_empty_file_is_refused(file: Path) -> None:
    file.write_text("")

    with pytest.raises(ContractError, match="got nothing, expected keys and values"):
        load_implementation(file)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ContractError, match=r"absent\.yaml: there is no such file"):
        load_implementation(tmp_path / "absent.yaml")
