"""An implementation filled for a run, its deadline, its parameters, and its schema for editors."""

import re
from importlib import import_module
from pathlib import Path

import jsonschema
import pytest
from pydantic import ValidationError
from ruamel.yaml import YAML

from owlt.agents.contract.implementation import ROLES, ContractError, Implementation, load_implementation
from owlt.agents.contract.limits import TimeLimit
from owlt.agents.contract.placeholders import RunValues, as_text
from owlt.agents.contract.requirements import Need, unmet
from owlt.agents.contract.session_ports import SessionPorts
from owlt.agents.contract.side import TEMPLATES

PROFILES = Path(__file__).parents[3] / "profiles" / "implementations"
SHIPPED = sorted(PROFILES.glob("*.yaml"))


@pytest.fixture
def cfdp() -> Implementation:
    return load_implementation(PROFILES / "cfdp.yaml")


def test_there_are_shipped_implementations() -> None:
    assert {path.stem for path in SHIPPED} >= {"cfdp", "norm"}


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_a_shipped_implementation_renders_for_a_run(path: Path, run_values: RunValues) -> None:
    build = load_implementation(path)
    filled = build.rendered(run_values.as_text(), {name: f"/bin/{name}" for name in build.binary})

    texts = [*filled.sender.command, *filled.receiver.command, *filled.session.multicast_groups]
    assert not [text for text in texts if "{" in text]


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_the_files_of_a_shipped_implementation_are_those_of_text_alone(path: Path, run_values: RunValues) -> None:
    build = load_implementation(path)
    programs = {name: f"/bin/{name}" for name in build.binary}
    texts = run_values.as_text() | programs | {name: as_text(value) for name, value in build.parameters.items()}
    plain = {name: str(text) for name, text in texts.items()}

    for role in ROLES:
        expected = {name: TEMPLATES.from_string(text).render(plain) for name, text in build.side(role).files.items()}
        assert build.rendered(run_values.as_text(), programs).side(role).files == expected


@pytest.mark.parametrize(("factor", "is_deterministic"), [(0, True), ("0", True), (4, False)])
def test_norm_is_deterministic_without_random_back_offs(factor: int | str, is_deterministic: bool) -> None:
    norm = load_implementation(PROFILES / "norm.yaml")

    assert norm.with_parameters({"backoff_factor": factor}).is_deterministic is is_deterministic


@pytest.mark.parametrize(
    ("deterministic", "problem"),
    [
        ("true", r"deterministic: is true, but a side gets \{seed\}"),
        ("{backof_factor: 0}", r"deterministic\.backof_factor: .*backoff_factor"),
        ("{congestion_control: reno}", r"deterministic\.congestion_control: got 'reno'"),
    ],
)
def test_a_profile_that_is_wrongly_called_deterministic_is_refused(
    tmp_path: Path, deterministic: str, problem: str
) -> None:
    shipped = (PROFILES / "norm.yaml").read_text()
    (tmp_path / "norm.yaml").write_text(re.sub(r"(?m)^deterministic: .*$", f"deterministic: {deterministic}", shipped))

    with pytest.raises(ContractError, match=problem):
        load_implementation(tmp_path / "norm.yaml")


def test_ports_are_numbers_once_rendered(cfdp: Implementation, run_values: RunValues) -> None:
    assert cfdp.rendered(run_values.as_text(), {}).session.udp_ports == [2501, 2502]


def test_any_port_is_every_port_of_udp_tcp_and_sctp_in_captures(cfdp: Implementation, run_values: RunValues) -> None:
    build = cfdp.model_copy(update={"session": SessionPorts(ports="any")})

    assert build.rendered(run_values.as_text(), {}).session.in_captures == {
        "udp_ports": ["1-65535"],
        "tcp_ports": ["1-65535"],
        "sctp_ports": ["1-65535"],
        "multicast_groups": [],
    }


def test_ranges_of_ports_can_be_made_of_parameters(cfdp: Implementation, run_values: RunValues) -> None:
    ports = SessionPorts(udp_ports=["{sender_port}", "{receiver_port}-2600", "6000-6999", "7000-7000"])
    build = cfdp.model_copy(update={"session": ports})

    assert build.rendered(run_values.as_text(), {}).session.udp_ports == [2501, "2502-2600", "6000-6999", 7000]


def test_any_port_beside_named_ones_is_a_mistake(cfdp: Implementation) -> None:
    with pytest.raises(ValidationError, match="either ports: any, or udp_ports, tcp_ports, sctp_ports"):
        SessionPorts.model_validate({"ports": "any", "udp_ports": [69]})


@pytest.mark.parametrize("wrong", ["6999-6000", "6000-70000", "0-9", "any", "69,70"])
def test_what_is_no_range_of_ports_is_a_mistake(wrong: str) -> None:
    with pytest.raises(ValidationError, match="port"):
        SessionPorts.model_validate({"udp_ports": [wrong]})


def test_a_changed_parameter_reaches_the_command(cfdp: Implementation, run_values: RunValues) -> None:
    command = cfdp.with_parameters({"segment_bytes": 997}).rendered(run_values.as_text(), {}).sender.command

    assert command[command.index("--segment-bytes") + 1] == "997"


def test_an_unknown_parameter_is_refused_with_the_known_ones(cfdp: Implementation) -> None:
    with pytest.raises(ValueError, match=r"cfdp has no parameter 'segment'; it has: ack_limit, ack_timer_s"):
        cfdp.with_parameters({"segment": 997})


def test_the_deadline_adds_round_trips_file_times_and_seconds() -> None:
    limit = TimeLimit(rtts=10, file_times=2, extra_s=5)

    assert limit.deadline_s(rtt_s=2.5, file_size_bytes=1_000_000, rate_bps=1e6) == 10 * 2.5 + 2 * 8 + 5


def test_a_number_of_a_run_prints_in_a_file_as_on_a_command_line(run_values: RunValues) -> None:
    texts = run_values.as_text()

    assert {name: TEMPLATES.from_string(f"{{{{ {name} }}}}").render(texts) for name in texts} == {
        name: f"{{{name}}}".format_map(texts) for name in texts
    }


def test_an_unlimited_rate_adds_no_time_to_the_deadline() -> None:
    assert TimeLimit(rtts=1, file_times=9, extra_s=3).deadline_s(1.0, 10**9, None) == 4


def test_an_implementation_cannot_be_changed(cfdp: Implementation) -> None:
    with pytest.raises(ValueError, match="frozen"):
        setattr(cfdp, "name", "other")  # noqa: B010 - mypy knows better than to assign


def test_the_schema_names_every_key_for_editors() -> None:
    schema = Implementation.model_json_schema()

    assert set(schema["properties"]) == set(Implementation.model_fields) - {"pair"}  # which no file has
    assert schema["additionalProperties"] is False


def test_the_schema_explains_every_key_to_editors() -> None:
    schema = Implementation.model_json_schema()
    parts = {"": schema, **schema["$defs"]}

    assert [
        f"{part}.{key}"
        for part, told in parts.items()
        for key, value in told["properties"].items()
        if not value.get("description")
    ] == []


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_the_schema_accepts_what_comes_with_owlt(path: Path) -> None:
    tree = YAML(typ="safe", pure=True).load(path.read_text())

    jsonschema.validate(tree, Implementation.model_json_schema())


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("ready", {"udp_port": "five"}),
        ("ready", {"udp_port": 70000}),
        ("ready", {"udp_port": 1, "line": "x"}),
        ("ready", {"line": "x", "within_s": "30 s"}),
        ("card_rate_bps", "fast"),
        ("stop", {"signal": "TREM"}),
        ("stop", {"signal": "SIGTERM"}),
    ],
)
def test_the_schema_refuses_what_the_loader_refuses(key: str, value: object) -> None:
    tree = YAML(typ="safe", pure=True).load((PROFILES / "cfdp.yaml").read_text())
    tree["sender"][key] = value

    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(tree, Implementation.model_json_schema())
    with pytest.raises(ValueError, match=rf"sender\.{key}"):
        Implementation.model_validate(tree)


@pytest.mark.parametrize(
    ("present", "absent"),
    [
        (Need(file="/", fix="m"), Need(file="/no/such/file", fix="m")),
        (Need(command="sh", fix="m"), Need(command="no-such-command", fix="m")),
        (Need(python_module="json", fix="m"), Need(python_module="no_such_module", fix="m")),
        (Need(library="libc.so.6", fix="m"), Need(library="libnosuch.so.1", fix="m")),
    ],
)
def test_only_an_absent_need_is_unmet(present: Need, absent: Need) -> None:
    assert unmet([present, absent]) == [absent]


@pytest.mark.parametrize("name", ["cfdp", "norm"])
def test_our_own_endpoints_understand_their_rendered_commands(name: str, run_values: RunValues) -> None:
    parser = import_module(f"owlt.agents.{name}.__main__")._parser()
    filled = load_implementation(PROFILES / f"{name}.yaml").rendered(run_values.as_text(), {})

    for side in (filled.sender, filled.receiver):
        assert side.command[:3] == [run_values.python, "-m", f"owlt.agents.{name}"]
        parser.parse_args(side.command[3:])
