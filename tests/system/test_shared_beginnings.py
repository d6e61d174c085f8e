"""Runs of a deterministic implementation that share their beginning: each is the same as when it is performed alone and
whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from owlt.orchestrator.profiles.catalogue import find_implementation, implementation_files
from tests.system.fault_trials import is_shared, owlt
from tests.system.sweeps import owlt as perform_with
from tests.system.sweeps import perform, records, sweep_file

pytestmark = pytest.mark.usefixtures("guest_kernel")
DETERMINISTIC = sorted(each.stem for each in implementation_files() if find_implementation(each.stem).deterministic)
REPETITIONS = 5
NOISY = """
forward: {rate: 1 Mbit/s, delay: 250 ms, bit_error_rate: 1.0e-5, duplication_rate: 0.05, jitter: {amount: 1 ms}}
reverse: {rate: 100 kbit/s, delay: 250 ms, packet_error_rate: 0.1}
"""
"""A channel whose errors of all kinds depend on seeds, in both directions."""


@pytest.fixture(scope="module")
def repeated(tmp_path_factory: pytest.TempPathFactory, guest_kernel: object) -> Path:
    """The results of five repetitions of all deterministic implementations, and of one that is not."""
    directory = tmp_path_factory.mktemp("repeated")
    (directory / "noisy.yaml").write_text(NOISY)
    done = perform(
        directory,
        directory / "results",
        implementations=[*DETERMINISTIC, "norm-cc"],
        repetitions=REPETITIONS,
        channel=str(directory / "noisy.yaml"),
        file_size="10 kB",
        certify=False,
        keep_captures="full",
    )
    assert done.returncode == 0, done.stderr
    return directory / "results"


def test_repetitions_of_deterministic_implementations_share_their_beginning_after_the_first(repeated: Path) -> None:
    shared = {name for name in records(repeated) if is_shared(repeated / "runs" / name)}
    names = {
        each["implementation"]: name.removesuffix("_r1")
        for name, each in records(repeated).items()
        if name.endswith("_r1")
    }

    assert shared == {f"{names[each]}_r{number}" for each in DETERMINISTIC for number in range(2, REPETITIONS + 1)}


def test_the_channel_has_other_errors_in_each_repetition(repeated: Path) -> None:
    for name in DETERMINISTIC:
        ended = {each["ended_at_ns"] for each in records(repeated).values() if each["implementation"] == name}

        assert len(ended) > 1, name


@pytest.mark.parametrize("name", DETERMINISTIC)
def test_a_repetition_that_shares_its_beginning_has_the_packets_of_the_whole_run(repeated: Path, name: str) -> None:
    (run,) = (
        repeated / "runs" / run_id
        for run_id, each in records(repeated).items()
        if each["implementation"] == name and each["repetition"] == REPETITIONS
    )

    _, replay = owlt(repeated, "replay", str(run))

    assert replay["captures"] == {"sender.pcap": "", "receiver.pcap": ""}


ERROR_RATES = [0, 0.02, 0.1, 0.2]


@pytest.fixture(scope="module")
def with_error_rates(tmp_path_factory: pytest.TempPathFactory, guest_kernel: object) -> Path:
    """The results of one run with each packet error rate, of all deterministic implementations, one after the other."""
    directory = tmp_path_factory.mktemp("with-error-rates")
    (directory / "noisy.yaml").write_text(NOISY)
    sweep = sweep_file(
        directory,
        implementations=DETERMINISTIC,
        channel=str(directory / "noisy.yaml"),
        packet_error_rate=ERROR_RATES,
        file_size="10 kB",
        keep_captures="full",
    )
    done = perform_with("run", sweep, "--results", directory / "results", "--no-report", "--guests", 1)
    assert done.returncode == 0, done.stderr
    return directory / "results"


def test_runs_with_other_packet_error_rates_share_their_beginning(with_error_rates: Path) -> None:
    runs = [with_error_rates / "runs" / name for name in records(with_error_rates)]

    assert len(runs) == len(ERROR_RATES) * len(DETERMINISTIC)
    assert all(map(is_shared, runs))


def test_a_run_that_shares_its_beginning_has_the_packet_error_rate_and_the_certificate_of_its_own_channel(
    with_error_rates: Path,
) -> None:
    for each in records(with_error_rates).values():
        link = each["channel"]["forward"]

        assert link.get("packet_error_rate", 0) == pytest.approx(each["packet_error_rate"], abs=2**-32)
        assert each["certificate"] == "ok"


@pytest.mark.parametrize("name", DETERMINISTIC)
def test_a_run_with_errors_that_shares_its_beginning_has_the_packets_of_the_whole_run(
    with_error_rates: Path, name: str
) -> None:
    (run,) = (
        with_error_rates / "runs" / run_id
        for run_id, each in records(with_error_rates).items()
        if each["implementation"] == name and each["packet_error_rate"] == ERROR_RATES[-1]
    )

    _, replay = owlt(with_error_rates, "replay", str(run))

    assert replay["captures"] == {"sender.pcap": "", "receiver.pcap": ""}
