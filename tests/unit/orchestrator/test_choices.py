"""Values of parameters that an implementation or a kernel does not have: found before anything starts."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from owlt.agents.contract.implementation import Implementation
from owlt.orchestrator.checks.doctor import missing_for_plan, unavailable_congestion_controls
from owlt.orchestrator.errors import SweepMistake
from owlt.orchestrator.kernel.kernel import Kernel, keep_kernel, recipe_digest
from owlt.orchestrator.planning.plan import Plan
from owlt.orchestrator.profiles.catalogue import find_implementation
from tests.unit.orchestrator.small_sweep import small_plan

SETTINGS = "CONFIG_TCP_CONG_ADVANCED=y CONFIG_TCP_CONG_HSTCP=y CONFIG_TCP_CONG_BBR=y CONFIG_TCP_CONG_CUBIC=y"


def with_tcp(*values: str) -> Plan:
    chosen = {"tcp": {"congestion_control": [*values]}}
    return small_plan("exact", rig="virtual", implementations=["cfdp", "tcp"], parameters=chosen)


def cache_kernel(directory: Path, program: str) -> None:
    """Cache a kernel whose program is a script."""
    path = directory / "script"
    path.write_text(f"#!/bin/sh\n{program}\n")
    path.chmod(0o755)
    features = dict.fromkeys(("seccomp", "ends_spins", "virtual_tsc", "templates", "netem_seed", "bpf"), True)
    values = {"path": path, "version": "7.0", "package": "linux", "recipe": recipe_digest(), "patches": [], "hz": 100}
    keep_kernel(path, Kernel.model_validate(values | features | {"clocks": ["exact"]}))


def about_kernel(plan: Plan) -> list[str]:
    return [str(each) for each in missing_for_plan(plan) if "congestion_control" in str(each)]


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


def test_a_congestion_control_that_the_guests_kernel_does_not_have_is_refused_with_those_that_it_has(
    tmp_path: Path,
) -> None:
    cache_kernel(tmp_path, f'[ "$1" = --showconfig ] && printf "%s\\n" {SETTINGS}')

    assert about_kernel(with_tcp("cubic", "reno", "highspeed", "bbr3")) == [
        "tcp+congestion_control=bbr3: congestion_control bbr3 is not in the guests' kernel, Linux 7.0, expected one of "
        "bbr, cubic, highspeed, reno; did you mean bbr?"
    ]


def test_a_kernel_that_does_not_tell_its_settings_refuses_nothing(tmp_path: Path) -> None:
    cache_kernel(tmp_path, "exit 1")

    assert about_kernel(with_tcp("bbr3")) == []


def test_an_implementation_without_such_a_parameter_needs_no_congestion_control() -> None:
    implementations = {name: find_implementation(name) for name in ("ltp", "quic-aioquic", "iperf3")}

    assert unavailable_congestion_controls(implementations, {"reno", "cubic"}, "a kernel") == []
    [mistake] = unavailable_congestion_controls(implementations, {"reno"}, "a kernel")
    assert mistake.problem == "iperf3: congestion_control cubic is not in a kernel"


def test_a_value_that_the_profile_does_not_list_is_refused_with_its_place() -> None:
    with pytest.raises(SweepMistake) as problem:
        small_plan(implementations=["norm"], parameters={"norm": {"congestion_control": ["cc", "ccc"]}})

    [mistake] = problem.value.mistakes
    assert str(mistake) == (
        "parameters.norm.congestion_control: got 'ccc', expected one of none, cc, cce, ccl; did you mean cc?"
    )


def with_choices(choices: dict[str, object]) -> Implementation:
    return Implementation.model_validate(find_implementation("udp-blast").model_dump() | {"choices": choices})


def test_choices_are_of_a_parameter_and_have_its_default() -> None:
    name, value = next(iter(find_implementation("udp-blast").parameters.items()))

    with pytest.raises(ValidationError, match=r"choices\.speed: is not a parameter"):
        with_choices({"speed": ["fast"]})
    with pytest.raises(ValidationError, match=rf"choices\.{name}: .* is missing; add it"):
        with_choices({name: ["another"]})
    assert with_choices({name: [value, "another"]}).allows(name, "another")


def test_a_plan_is_written_without_choices() -> None:
    tcp = with_tcp("bbr").implementations["tcp+congestion_control=bbr"]

    assert tcp.choices == {"congestion_control": "kernel_congestion_controls"}
    assert "choices" not in tcp.model_dump()
