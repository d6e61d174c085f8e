"""The drivers that come with owlt: what pins them, and which options of theirs the profiles use."""

from __future__ import annotations

import re
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from aioquic.quic.configuration import QuicConfiguration

from owlt.agents.contract.implementation import ROLES
from owlt.orchestrator.profiles.catalogue import find_implementation
from owlt.orchestrator.profiles.third_party import Driver, Installable, all_installables, driver_files, go_driver
from tests.unit.orchestrator.test_original_profiles import CHANNEL, UNLIMITED, file_of

DRIVEN = [installable for installable in all_installables() if isinstance(installable.recipe, Driver)]
OTHER_PROFILES = {"quiche": ("quiche-http3",)}
"""Further profiles with the driver of one."""
QUIC = ("quiche", "quinn")


def each_driver() -> pytest.MarkDecorator:
    return pytest.mark.parametrize("installable", DRIVEN, ids=lambda installable: installable.name)


def manifest_and_lock(installable: Installable) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """A driver's Cargo.toml, and the packages of its lock file."""
    assert isinstance(installable.recipe, Driver)
    manifest, lock = (tomllib.loads(path.read_text()) for path in driver_files(installable.recipe)[:2])
    return manifest, lock["package"]


def options_of(command: str) -> set[str]:
    return set(re.findall(r"--[a-z-]+", command))


@each_driver()
def test_the_lock_file_of_a_driver_has_a_hash_for_every_other_package_and_names_no_registry(
    installable: Installable,
) -> None:
    manifest, packages = manifest_and_lock(installable)

    assert [each["name"] for each in packages if "checksum" not in each] == [manifest["package"]["name"]]
    assert not any("source" in each for each in packages)


@each_driver()
def test_a_driver_has_the_version_of_its_library_in_recipe_manifest_and_lock_file(installable: Installable) -> None:
    manifest, packages = manifest_and_lock(installable)
    library = next(iter(manifest["dependencies"]))

    version = installable.recipe_version
    assert manifest["package"]["version"] == version
    assert {"name": library, "version": version}.items() <= next(
        each.items() for each in packages if each["name"] == library
    )


@each_driver()
def test_a_driver_needs_the_compiler_that_its_manifest_needs(installable: Installable) -> None:
    manifest, _ = manifest_and_lock(installable)

    assert isinstance(installable.recipe, Driver)
    assert manifest["package"]["rust-version"] == installable.recipe.minimum_compiler


@pytest.mark.parametrize("name", [*QUIC, "cfdp-rs"])
def test_a_profile_gives_the_options_that_its_driver_has(name: str) -> None:
    (installable,) = [each for each in DRIVEN if each.name == name]
    assert isinstance(installable.recipe, Driver)
    usage = next(path for path in driver_files(installable.recipe) if path.name == "main.rs").read_text()
    profiles = [find_implementation(each) for each in (name, *OTHER_PROFILES.get(name, ()))]
    given = set().union(*(options_of(str(each.side(role))) for each in profiles for role in ROLES))

    known = options_of(usage.partition('USAGE: &str = "')[2].partition('";')[0])
    assert given == known


@pytest.mark.parametrize("name", QUIC)
def test_the_default_set_gives_nothing_of_the_channel(name: str) -> None:
    options = file_of(name, "sender", "options")

    assert set(options.split()[1::2]) == {"default"}


@pytest.mark.parametrize("name", QUIC)
def test_the_set_for_deep_space_gives_timers_and_windows_of_the_channel(name: str) -> None:
    options = file_of(name, "receiver", "options", settings="deep-space").split()
    given = dict(zip(reversed(options[::2]), reversed(options[1::2]), strict=True))  # the first of two that are alike

    assert given["--initial-rtt-ms"] == "1200100"
    assert given["--max-idle-timeout-ms"] == str((30 + 64 * 1200) * 1000)
    assert given["--stream-window-bytes"] == str(4 * 2_000_000 * 1200 // 8)
    assert given["--mtu-discovery"] == "off"


@pytest.mark.parametrize("channel", [UNLIMITED, replace(CHANNEL, one_way_delay_s=0, rtt_s=0)])
@pytest.mark.parametrize("name", QUIC)
def test_the_windows_for_deep_space_are_never_below_16_mib(name: str, channel: object) -> None:
    options = file_of(name, "receiver", "options", channel, settings="deep-space").split()  # type: ignore[arg-type]

    assert options[options.index("--connection-window-bytes") + 1] == "16777216"


@pytest.mark.parametrize("name", QUIC)
def test_a_parameter_overrides_the_set(name: str) -> None:
    options = file_of(name, "sender", "options", settings="deep-space", initial_rtt_ms=5000).split()

    last = len(options) - 1 - options[::-1].index("--initial-rtt-ms")
    assert options[last + 1] == "5000"


def test_the_modules_that_drivers_share_are_compiled_with_each() -> None:
    shared = {Path("agents/drivers/options.rs")}

    for installable in DRIVEN:
        assert isinstance(installable.recipe, Driver)
        files = driver_files(installable.recipe)
        assert {Path(*path.parts[-3:]) for path in files if path.parent.name == "drivers"} == shared


def test_the_default_set_gives_ngtcp2_nothing_of_the_channel() -> None:
    assert file_of("ngtcp2", "receiver", "options", settings="default").split() == []
    assert file_of("ngtcp2", "receiver", "receiver_options", settings="default").split() == []


def test_the_set_for_deep_space_gives_ngtcp2_the_round_trip_of_the_channel() -> None:
    options = file_of("ngtcp2", "sender", "options").split()

    assert options == ["--initial-rtt=1200000ms", "--timeout=1000h", "--handshake-timeout=1000h", "--no-pmtud"]


def test_a_window_is_given_to_ngtcp2_for_the_stream_and_the_connection_alike() -> None:
    windows = file_of("ngtcp2", "receiver", "receiver_options", settings="default", flow_window="1M").split()

    assert windows == ["--max-data=1M", "--max-stream-data-bidi-local=1M", "--max-window=1M", "--max-stream-window=1M"]


def test_the_profile_of_quic_go_gives_the_options_that_its_driver_has() -> None:
    implementation = find_implementation("quic-go")
    given = set().union(*(options_of(str(implementation.side(role))) for role in ROLES))

    assert given == options_of(go_driver("quic-go").read_text().partition("usage = `")[2].partition("`")[0])


def test_the_default_set_gives_quic_go_nothing_of_the_channel() -> None:
    assert set(file_of("quic-go", "sender", "options").split()[1::2]) == {"default"}


def test_the_set_for_deep_space_gives_quic_go_timeouts_and_windows_of_the_channel() -> None:
    options = file_of("quic-go", "receiver", "options", settings="deep-space").split()

    assert options[:4:2] == ["--handshake-idle-timeout-ms", "--max-idle-timeout-ms"]
    assert options[1:4:2] == [str((30 + 64 * 1200) * 1000)] * 2
    assert options[options.index("--initial-stream-window-bytes") + 1] == str(4 * 2_000_000 * 1200 // 8)


def test_the_default_set_gives_aioquic_its_own_values() -> None:
    options = file_of("quic-aioquic", "sender", "options", settings="default").split()

    own = QuicConfiguration()
    values = dict(zip(options[::2], map(float, options[1::2]), strict=True))
    assert values == {
        "--initial-rtt-s": own.initial_rtt,
        "--idle-limit-s": own.idle_timeout,
        "--flow-window-bytes": own.max_data,
    }


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("quinn", "--initial-rtt-ms 2100000 --max-idle-timeout-ms 2100000 --congestion-control fixed"),
        ("quiche", "--initial-rtt-ms 2100000 --max-idle-timeout-ms 2100000 --hystart off"),
        ("tquic", "--initial-rtt 2100000 --handshake-timeout 2100000 --idle-timeout 2100000 --max-pto 6300000"),
        ("ngtcp2", "--initial-rtt=2100000ms --timeout=2100000ms --handshake-timeout=2100000ms --no-pmtud"),
        ("quic-go", "--handshake-idle-timeout-ms 2100000 --max-idle-timeout-ms 2100000"),
        ("quic-aioquic", "--initial-rtt-s 2100.0 --idle-limit-s 2100.0"),
    ],
)
def test_the_set_of_the_draft_has_the_longest_round_trip_for_timers_and_timeouts(name: str, given: str) -> None:
    """20 min for the delay of the channel, and an outage of 15 min."""
    options = file_of(name, "receiver", "options", settings="tiptop-draft", longest_outage_s=900).split()

    assert " ".join(options).startswith(given)


@pytest.mark.parametrize(("name", "bytes_each"), [("quinn", 1), ("quiche", 1200), ("tquic", 1200)])
def test_the_set_of_the_draft_has_a_window_of_one_bandwidth_delay_product(name: str, bytes_each: int) -> None:
    options = file_of(name, "receiver", "options", settings="tiptop-draft", longest_outage_s=900).split()
    (window,) = [
        value
        for option, value in zip(options[::2], options[1::2], strict=False)
        if option in ("--initial-window-bytes", "--initial-window-packets", "--initial-congestion-window")
        and value != "default"
    ]

    assert int(window) * bytes_each == 2_000_000 * 1200 // 8
