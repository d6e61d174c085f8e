"""An implementation filled for a run, its deadline, its parameters, and its schema for editors."""

from importlib import import_module
from pathlib import Path

import pytest

from agents.contract import Implementation, Need, TimeLimit
from agents.load import load_implementation
from agents.needs import unmet
from agents.placeholders import RunValues

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


def test_ports_are_numbers_once_rendered(cfdp: Implementation, run_values: RunValues) -> None:
    assert cfdp.rendered(run_values.as_text(), {}).session.udp_ports == [2501, 2502]


def test_a_changed_parameter_reaches_the_command(cfdp: Implementation, run_values: RunValues) -> None:
    command = cfdp.with_parameters({"segment_bytes": 997}).rendered(run_values.as_text(), {}).sender.command

    assert command[command.index("--segment-bytes") + 1] == "997"


def test_an_unknown_parameter_is_refused_with_the_known_ones(cfdp: Implementation) -> None:
    with pytest.raises(ValueError, match=r"cfdp has no parameter 'segment'; it has: ack_limit, ack_timer_s"):
        cfdp.with_parameters({"segment": 997})


def test_the_deadline_adds_round_trips_file_times_and_seconds() -> None:
    limit = TimeLimit(rtts=10, file_times=2, extra_s=5)

    assert limit.deadline_s(rtt_s=2.5, file_size_bytes=1_000_000, rate_bps=1e6) == 10 * 2.5 + 2 * 8 + 5


def test_an_unlimited_rate_adds_no_time_to_the_deadline() -> None:
    assert TimeLimit(rtts=1, file_times=9, extra_s=3).deadline_s(1.0, 10**9, None) == 4


def test_an_implementation_cannot_be_changed(cfdp: Implementation) -> None:
    with pytest.raises(ValueError, match="frozen"):
        setattr(cfdp, "name", "other")  # noqa: B010 - mypy knows better than to assign


def test_the_schema_names_every_key_for_editors() -> None:
    schema = Implementation.model_json_schema()

    assert set(schema["properties"]) == set(Implementation.model_fields)
    assert schema["additionalProperties"] is False


@pytest.mark.parametrize(
    ("present", "absent"),
    [
        (Need(file="/", mend="m"), Need(file="/no/such/file", mend="m")),
        (Need(command="sh", mend="m"), Need(command="no-such-command", mend="m")),
        (Need(python_module="json", mend="m"), Need(python_module="no_such_module", mend="m")),
        (Need(library="libc.so.6", mend="m"), Need(library="libnosuch.so.1", mend="m")),
    ],
)
def test_only_an_absent_need_is_unmet(present: Need, absent: Need) -> None:
    assert unmet([present, absent]) == [absent]


@pytest.mark.parametrize("name", ["cfdp", "norm"])
def test_our_own_endpoints_understand_their_rendered_commands(name: str, run_values: RunValues) -> None:
    parser = import_module(f"agents.{name}.__main__")._parser()
    filled = load_implementation(PROFILES / f"{name}.yaml").rendered(run_values.as_text(), {})

    for side in (filled.sender, filled.receiver):
        assert side.command[:3] == [run_values.python, "-m", f"agents.{name}"]
        parser.parse_args(side.command[3:])
