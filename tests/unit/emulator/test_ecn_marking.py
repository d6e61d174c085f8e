"""ECN marking as values: what may be written, what the gate is asked for and tells, and how marks are certified."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from owlt.emulator.certification import ecn_marking as certification
from owlt.emulator.certification.certificate import VIRTUAL_TOLERANCE_NS, Check
from owlt.emulator.certification.certify import PLANNED_CHECKS, Campaign
from owlt.emulator.certification.expectations import Expectations
from owlt.emulator.certification.judging import Judges
from owlt.emulator.certification.probing import ProbeResult, Probes
from owlt.emulator.certification.sample_sizes import Means
from owlt.emulator.channel.link import LinkSpec, QueueLevel, impairments
from owlt.emulator.channel.spec import ChannelSpec
from owlt.emulator.kernel.gate import Admission, Marking
from owlt.emulator.kernel.link_to_stages import MOST_PACKETS, Stages, link_of, stages_of
from owlt.inputs.mistake import Invalid
from owlt.orchestrator.commands.channel_text import channel_line, link_rows, step_rows
from owlt.reports.comparison.theory import NOT_IN_THEORY
from owlt.reports.results.channels import link_words
from owlt.reports.results.columns import COLUMNS
from tests.import_graph import PROJECT

RATE = {"rate": "10 Mbit/s"}


def link(**written: Any) -> LinkSpec:
    return ChannelSpec.from_wire({"forward": written}).forward


def mistake_of(**written: Any) -> str:
    with pytest.raises(Invalid) as refused:
        link(**written)
    return str(refused.value)


@pytest.mark.parametrize(
    ("written", "level"),
    [
        ("20 packets", QueueLevel(20, "packets")),
        ("30 kB", QueueLevel(30_000, "bytes")),
        ("5 ms", QueueLevel(5_000_000, "ns")),
    ],
)
def test_a_threshold_is_in_packets_bytes_or_time_and_is_written_as_it_is_read(written: str, level: QueueLevel) -> None:
    asked = {**RATE, "queue": "1000 packets", "ecn_marking": {"queue_threshold": written}}
    marking = link(**asked).ecn_marking

    assert marking is not None and marking.queue_threshold == level
    assert link(**asked).to_wire() == {**RATE, "ecn_marking": {"queue_threshold": written}}


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ({"ecn_marking": {}}, "a probability above 0, or a queue_threshold"),
        ({"ecn_marking": {"probability": 0}}, "a probability above 0, or a queue_threshold"),
        ({"ecn_marking": {"probability": 1.5}}, "at most 1"),
        ({"ecn_marking": {"probability": "10 %"}}, "a number"),
        ({"ecn_marking": {"queue_treshold": "20 packets"}}, "did you mean queue_threshold?"),
        ({"coding": {"frame_byte": 32, "frame_error_rate": 0.1}}, "did you mean frame_bytes?"),
        ({"ecn_marking": {"queue_threshold": "20 packets"}}, "a rate, or no queue_threshold of ecn_marking"),
        ({**RATE, "ecn_marking": {"queue_threshold": 20}}, "got 20"),
        ({**RATE, "ecn_marking": {"queue_threshold": "0 packets"}}, "at least 1 packet, 1 B or 1 ns"),
        ({**RATE, "ecn_marking": {"queue_threshold": "2 BDP"}}, "20 packets, 30 kB or 5 ms"),
        ({**RATE, "ecn_marking": {"queue_threshold": "1000 packets"}}, "below the capacity of the queue"),
        ({**RATE, "queue": "9 kB", "ecn_marking": {"queue_threshold": "9 kB"}}, "below the capacity of the queue"),
        ({**RATE, "queue": "9 ms", "ecn_marking": {"queue_threshold": "9 ms"}}, "below the capacity of the queue"),
        ({**RATE, "queue": "20000 packets", "ecn_marking": {"queue_threshold": "1 ms"}}, "at most 16384 packets"),
        ({**RATE, "queue": "9 s", "ecn_marking": {"queue_threshold": "20000 packets"}}, "at most 16384 packets"),
    ],
)
def test_a_mistake_in_a_rule_is_refused_with_what_was_expected(written: dict[str, Any], expected: str) -> None:
    assert expected in mistake_of(**written)


def test_a_step_takes_the_rule_away() -> None:
    steps = [{"at": "1 s", "forward": {"ecn_marking": "none"}}]
    channel = ChannelSpec.from_wire({"forward": {"ecn_marking": {"probability": 0.1}}, "timeline": {"steps": steps}})

    assert channel.timeline is not None
    assert channel.timeline.steps[0].forward.ecn_marking is None


def test_a_probability_alone_needs_no_queue_and_no_bottleneck() -> None:
    stages = stages_of(link(ecn_marking={"probability": 0.1}, seed=5))

    assert stages == Stages(gate=Admission(None, None, 0, marking=Marking(probability=0.1, seed=5)))


def test_with_a_threshold_the_gate_holds_a_queue_in_packets_and_netem_none() -> None:
    stages = stages_of(link(**RATE, queue="50 packets", ecn_marking={"queue_threshold": "20 packets"}, seed=5))

    assert stages.gate == Admission(None, None, 1_250_000, 0, 50, Marking(threshold_packets=20))
    assert stages.bottleneck is not None and stages.bottleneck.limit_packets == MOST_PACKETS


def test_a_threshold_in_bytes_is_their_time_at_the_rate() -> None:
    gate = stages_of(link(**RATE, queue="64 kB", ecn_marking={"queue_threshold": "30 kB"})).gate

    assert gate == Admission(None, 51_200_000, 1_250_000, 0, None, Marking(threshold_ns=24_000_000))


@pytest.mark.parametrize(
    "written",
    [
        {"ecn_marking": {"probability": 0.1}},
        {"ecn_marking": {"probability": 1.0e-9}},
        {**RATE, "ecn_marking": {"queue_threshold": "20 packets"}},
        {**RATE, "queue": "64 kB", "ecn_marking": {"queue_threshold": "33 kB", "probability": 0.3}},
        {**RATE, "queue": "2 s", "mtu": "1500 B", "ecn_marking": {"queue_threshold": "7 ms"}},
    ],
)
def test_a_link_is_read_back_as_it_was_specified(written: dict[str, Any]) -> None:
    specified = link(**written)

    assert link_of(stages_of(specified), specified) == specified


def test_another_rule_in_the_kernel_is_read_back_as_that() -> None:
    specified = link(**RATE, ecn_marking={"queue_threshold": "20 packets"})
    stages = stages_of(link(**RATE, queue="60 packets", ecn_marking={"queue_threshold": "5 ms", "probability": 0.5}))

    actual = link_of(stages, specified)

    assert actual.to_wire()["ecn_marking"] == {"probability": 0.5, "queue_threshold": "5 ms"}
    assert actual.queue_packets == 60


def test_a_rule_that_is_missing_in_the_kernel_is_missing() -> None:
    specified = link(ecn_marking={"probability": 0.1})

    assert link_of(Stages(), specified).ecn_marking is None


@pytest.mark.parametrize("change", [{"probability": 1.5}, {"threshold_packets": 0}, {"threshold_ns": 0}])
def test_a_rule_that_is_none_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="marking: "):
        Marking(**change)


def test_the_gate_counts_no_longer_queue_than_its_program() -> None:
    with pytest.raises(ValueError, match="admission: packets: expected 1 to 16384"):
        Admission(None, None, 1, queue_packets=16_385)
    assert "#define MOST_COUNTED 16384 " in (PROJECT / "emulator/kernel/bpf/programs/gate.bpf.c").read_text()


def test_a_seed_has_an_effect_only_with_a_probability() -> None:
    assert link(ecn_marking={"probability": 0.1}).draws
    assert not link(**RATE, ecn_marking={"queue_threshold": "20 packets"}).draws


def test_a_link_that_marks_is_impaired() -> None:
    assert not link(ecn_marking={"probability": 0.1}).unimpaired


# What follows from the row


def test_five_files_have_what_there_is_to_say_about_it() -> None:
    """Beside tests, the change log, and the schema, which `owlt schema` writes."""
    files = {
        "docs/channels.md",
        "emulator/certification/ecn_marking.py",
        "emulator/channel/link.py",
        "emulator/kernel/bpf/programs/gate.bpf.c",
        "emulator/kernel/gate.py",
    }
    product = [PROJECT / name for name in ("agents", "captures", "docs", "emulator", "orchestrator", "reports", "owlt")]
    found = {
        str(path.relative_to(PROJECT))
        for folder in product
        for suffix in ("py", "c", "md")
        for path in folder.rglob(f"*.{suffix}")
        if not path.is_symlink()
        if re.search(r"ecn_marking|mark_probability", path.read_text(errors="replace"))
    }

    assert found == files


def test_the_rule_is_shown_with_its_label() -> None:
    written = {**RATE, "ecn_marking": {"probability": 0.1, "queue_threshold": "20 packets"}}
    channel = ChannelSpec.from_wire({"forward": written})

    assert ("ECN marking", "probability 0.1, queue threshold 20 packets", "none") in link_rows(channel)
    assert "ECN marking probability 0.1, queue threshold 20 packets" in channel_line(channel)
    assert "ECN marking probability 0.1, queue threshold 20 packets" in link_words(written)


def test_a_step_shows_the_rule() -> None:
    steps = {"steps": [{"at": "1 s", "forward": {"ecn_marking": {"probability": 0.2}}}]}

    ((_, forward, _), _) = step_rows(ChannelSpec.from_wire({"timeline": steps}))

    assert forward == "ECN marking probability 0.2"


def test_the_table_of_runs_has_a_column_in_each_direction_and_no_theory_covers_it() -> None:
    columns = {column.name: column.kind for column in COLUMNS}

    for name in ("forward_ecn_marking", "reverse_ecn_marking"):
        assert columns[name] == "text"
        assert name in NOT_IN_THEORY


@pytest.mark.parametrize("module", sorted({row.certified_by for row in impairments().values()} - {""}))
def test_what_a_row_is_certified_by_is_there(module: str) -> None:
    assert callable(__import__(f"owlt.emulator.certification.{module}", fromlist=["judges"]).judges)


# Certificates, of a link that is computed


class MarkingProber:
    """A link that marks with a probability, and from a number of packets in its queue on; its rate is infinite."""

    def __init__(self, probability: float, threshold: int | None = None, marks_plain: bool = False) -> None:
        self._probability, self._threshold, self._marks_plain = probability, threshold, marks_plain
        self._random = np.random.default_rng(5)

    def send(self, probes: Probes) -> ProbeResult:
        """Return what became of probes, all of which arrive, in bursts of those that are due at the same time."""
        count = len(probes.due_ns)
        number = np.arange(count)
        marked = self._random.random(count) < self._probability
        if self._threshold is not None:
            marked |= number - np.searchsorted(probes.due_ns, probes.due_ns) >= self._threshold
        codepoint = probes.header[15] & 3
        if codepoint != certification.ECT_0 and not self._marks_plain:
            marked[:] = False
        bits = np.flatnonzero(np.unpackbits(_bytes(probes.header) ^ _bytes(_with_ce(probes.header))))
        copies = np.flatnonzero(marked)
        return ProbeResult(
            probes.lengths_bytes,
            probes.due_ns,
            number,
            probes.lengths_bytes,
            probes.due_ns,
            marked * len(bits),
            np.repeat(copies, len(bits)),
            np.tile(bits, len(copies)),
        )


def _bytes(header: bytes) -> Any:
    return np.frombuffer(header, np.uint8)


def _with_ce(header: bytes) -> bytes:
    """A header with CE, its checksum by the rule of RFC 1624 for a word that grows by a number."""
    grown = 3 - (header[15] & 3)
    checksum = int.from_bytes(header[24:26], "big") - grown
    checksum = checksum + 0xFFFF if checksum < 0 else checksum
    return header[:15] + bytes((header[15] | 3,)) + header[16:24] + checksum.to_bytes(2, "big") + header[26:]


def certified(written: dict[str, Any], prober: MarkingProber) -> dict[str, Check]:
    channel = ChannelSpec.from_wire({"forward": written})
    judged = Judges("forward", Expectations.of(channel, "forward"), VIRTUAL_TOLERANCE_NS)
    campaign = Campaign(prober, judged, Means(1514, 600.0, None, 0.001 / PLANNED_CHECKS))  # type: ignore[arg-type]
    checks = [judge(1e-6) for judge in certification.judges(campaign)]
    return {check.quantity: check for check in checks}


SHARE, PLAIN = "share of ECN-capable packets marked CE", "packets marked CE that are not ECN-capable"
FROM = "queue from which on packets are marked CE, packets"


def test_a_link_that_marks_as_specified_passes() -> None:
    checks = certified({"ecn_marking": {"probability": 0.1}}, MarkingProber(0.1))

    assert {name: check.verdict for name, check in checks.items()} == {SHARE: "ok", PLAIN: "ok"}
    assert checks[SHARE].count > 3_000


@pytest.mark.parametrize("probability", [0.0, 0.1 / 1.5, 0.15, 1.0])
def test_a_link_that_marks_another_share_fails(probability: float) -> None:
    checks = certified({"ecn_marking": {"probability": 0.1}}, MarkingProber(probability))

    assert (checks[SHARE].verdict, checks[PLAIN].verdict) == ("failed", "ok")


def test_a_link_that_marks_packets_that_are_not_ecn_capable_fails() -> None:
    checks = certified({"ecn_marking": {"probability": 0.1}}, MarkingProber(0.1, marks_plain=True))

    assert (checks[SHARE].verdict, checks[PLAIN].verdict) == ("ok", "failed")


@pytest.mark.parametrize(("threshold", "verdict"), [(19, "failed"), (20, "ok"), (21, "failed")])
@pytest.mark.parametrize("probability", [0.0, 0.2])
def test_the_threshold_is_that_above_the_fullest_queue_that_an_unmarked_packet_found(
    threshold: int, verdict: str, probability: float
) -> None:
    rule = {"queue_threshold": "20 packets"} | ({"probability": probability} if probability else {})

    checks = certified({**RATE, "ecn_marking": rule}, MarkingProber(probability, threshold))

    assert {name: check.verdict for name, check in checks.items()} == {SHARE: "ok", PLAIN: "ok", FROM: verdict}
    assert checks[FROM].measured == threshold


@pytest.mark.parametrize(
    ("rule", "reason"),
    [
        ({"queue_threshold": "20 packets", "probability": 1.0}, "all packets are marked or lost"),
        ({"queue_threshold": "3 ms"}, "it needs bursts of 60 packets, and the queue holds 59"),
    ],
)
def test_a_threshold_that_cannot_be_seen_is_not_measured(rule: dict[str, Any], reason: str) -> None:
    queue = "50 packets" if "probability" in rule else "3040 us"

    checks = certified({**RATE, "queue": queue, "ecn_marking": rule}, MarkingProber(rule.get("probability", 0.0), 20))

    *_, check = checks.values()
    assert check.verdict == "not measured"
    assert reason in check.reason
