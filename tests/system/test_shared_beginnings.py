"""Runs of a deterministic implementation that share their beginning: each is the same as when it is performed alone and
whole."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from owlt.orchestrator.profiles.catalogue import find_implementation, implementation_files
from tests.system.fault_trials import is_shared, owlt
from tests.system.sweeps import differences, perform, records, sweep_file
from tests.system.sweeps import owlt as owlt_run

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
CHANNELS = ("noisy", "near")
NEAR = "{forward: {rate: 1 Mbit/s}, reverse: {rate: 1 Mbit/s}}"
"""A channel without a delay: the emulator needs a netem only for packet errors."""


def with_error_rates(directory: Path, rates: list[float]) -> Path:
    """The results of one run with each packet error rate forward, over both channels, of all deterministic
    implementations, one after the other."""
    for name, text in zip(CHANNELS, (NOISY, NEAR), strict=True):
        (directory / f"{name}.yaml").write_text(text)
    sweep = sweep_file(
        directory,
        implementations=DETERMINISTIC,
        channel=[str(directory / f"{name}.yaml") for name in CHANNELS],
        forward_packet_error_rate=rates,
        file_size="10 kB",
        keep_captures="full",
    )
    done = owlt_run("run", sweep, "--results", directory / "results", "--no-report", "--guests", 1)
    assert done.returncode == 0, done.stderr
    return directory / "results"


@pytest.fixture(scope="module")
def of_all_rates(tmp_path_factory: pytest.TempPathFactory, guest_kernel: object) -> Path:
    """Runs with all packet error rates."""
    return with_error_rates(tmp_path_factory.mktemp("all-rates"), ERROR_RATES)


@pytest.fixture(scope="module")
def of_one_rate(tmp_path_factory: pytest.TempPathFactory, guest_kernel: object) -> Path:
    """The runs with the highest packet error rate alone."""
    return with_error_rates(tmp_path_factory.mktemp("one-rate"), ERROR_RATES[-1:])


def test_runs_with_other_packet_error_rates_share_their_beginning_after_the_first(of_all_rates: Path) -> None:
    whole = Counter(
        (each["implementation"], each["channel_name"])
        for name, each in records(of_all_rates).items()
        if not is_shared(of_all_rates / "runs" / name)
    )

    assert whole == {(implementation, channel): 1 for implementation in DETERMINISTIC for channel in CHANNELS}


def test_a_run_that_shares_its_beginning_has_the_packet_error_rate_of_its_own_channel(of_all_rates: Path) -> None:
    for each in records(of_all_rates).values():
        applied = each["channel"]["forward"].get("packet_error_rate", 0)

        assert applied == pytest.approx(each["packet_error_rate"], abs=2**-32)


def test_a_run_that_shares_its_beginning_has_the_record_and_the_packets_of_the_whole_run(
    of_all_rates: Path, of_one_rate: Path
) -> None:
    for name, each in records(of_one_rate).items():
        whole, shared = of_one_rate / "runs" / name, of_all_rates / "runs" / name
        unlike = differences(whole, shared)

        assert (is_shared(whole), is_shared(shared)) == (False, True)
        assert each["certificate"] == "ok"
        # the place in the plan; and norm is given a seed that makes no difference
        assert [line for line in unlike if line.partition(": ")[0] not in ("order", "sender", "receiver")] == [], name
