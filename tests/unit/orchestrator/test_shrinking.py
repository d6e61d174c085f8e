"""Delta debugging: what is left still has the effect, and nothing of it can be left out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether

from owlt.captures.matches.delivery import UNCHECKED_BITS
from owlt.emulator.channel.aimed_fault import compiled, passes
from owlt.emulator.channel.spec import ChannelSpec
from owlt.orchestrator.checks.counterfactuals import losses_among, packets_on_link
from owlt.orchestrator.checks.fault_cases import Direction, Hit, Hits, Place, aimed_at, case_name
from owlt.orchestrator.checks.shrinking import (
    Fewest,
    fewest,
    losses_of,
    place_by_content,
    places_by_class,
    result_of,
    shrink,
    shrink_by_message,
    without_random_effects,
)
from owlt.orchestrator.commands.captures import inspected_run
from owlt.orchestrator.errors import OwltError
from tests.unit.orchestrator.runs_with_losses import DAMAGED, DAMAGED_BIT, LOST, run_with_losses

LOSSES: Hits = tuple(Hit(Place("forward", number)) for number in range(1, 17))


def left_of(losses: Hits, has_effect: Callable[[Hits], bool]) -> tuple[Hits, list[Hits]]:
    """What is left, and all sets that were tried."""
    tried: list[Hits] = []

    def of_all(sets: Sequence[Hits]) -> list[bool]:
        tried.extend(sets)
        return [has_effect(each) for each in sets]

    return result_of(shrink(losses), of_all), tried


@given(st.sets(st.sampled_from(LOSSES), min_size=1, max_size=5))
def test_the_losses_that_are_needed_together_are_left_and_no_others(needed: set[Hit]) -> None:
    left, _ = left_of(LOSSES, needed.issubset)

    assert set(left) == needed


@given(st.sets(st.frozensets(st.sampled_from(LOSSES), min_size=1), min_size=1, max_size=20))
def test_none_of_what_is_left_can_be_left_out(effective: set[frozenset[Hit]]) -> None:
    def has_effect(losses: Hits) -> bool:
        return frozenset(losses) in effective or losses == LOSSES

    left, _ = left_of(LOSSES, has_effect)

    assert has_effect(left)
    if len(left) > 1:
        assert not any(has_effect(tuple(each for each in left if each != out)) for out in left)


def test_one_loss_of_many_is_found_with_few_sets() -> None:
    left, tried = left_of(LOSSES, lambda losses: LOSSES[11] in losses)

    assert left == (LOSSES[11],)
    assert len(tried) == 8


def test_each_loss_is_tried_alone_if_no_part_has_the_effect() -> None:
    _, tried = left_of(LOSSES, lambda _: False)

    assert {(loss,) for loss in LOSSES} <= set(tried)


def test_a_single_loss_is_left_as_it_is() -> None:
    assert left_of(LOSSES[:1], lambda _: True) == (LOSSES[:1], [])


def fewest_of(losses: Hits, has_effect: Callable[[Hits], bool], most: int) -> tuple[Fewest[Hit], int]:
    """What is found, and how many sets were tried."""
    tried: list[Hits] = []

    def of_all(sets: Sequence[Hits]) -> list[bool]:
        tried.extend(sets)
        return [has_effect(each) for each in sets]

    return fewest(losses, of_all, most), len(tried)


@given(st.sets(st.sampled_from(LOSSES), min_size=1))
def test_the_losses_that_are_needed_together_are_the_fewest_after_one_set_for_each_and_one_more(
    needed: set[Hit],
) -> None:
    found, tried = fewest_of(LOSSES, needed.issubset, 17)

    assert (set(found.left), found.is_least) == (needed, True)
    assert tried == found.tried <= 17


def test_of_losses_of_which_any_suffices_one_is_left() -> None:
    found, _ = fewest_of(LOSSES, lambda losses: bool({*LOSSES[3:6]} & {*losses}), 48)

    assert found.is_least
    assert len(found.left) == 1


@given(st.sets(st.sampled_from(LOSSES), min_size=1), st.integers(0, 40))
def test_no_more_sets_are_tried_than_allowed_and_what_is_left_has_the_effect(needed: set[Hit], most: int) -> None:
    found, tried = fewest_of(LOSSES, needed.issubset, most)

    assert tried == found.tried <= most
    assert needed.issubset(found.left)
    assert not found.is_least or needed == set(found.left)


@dataclass
class Transfer:
    """A protocol whose packets shift: the receiver requests each lost packet of data, and acknowledges the EOF behind
    that. The sender gives up if the first acknowledgement is lost, and whatever else is lost does no harm."""

    losses: Hits
    sent: dict[Place, Place] = field(default_factory=dict)
    """The place of each packet in its class, by its place among all of a direction."""

    def send(self, direction: Direction, packet: str) -> bool:
        """Whether a packet arrives."""
        alone = Place(direction, 1 + sum(place.direction == direction for place in self.sent))
        of_class = [each for each in self.sent.values() if (each.direction, each.packet) == (direction, packet)]
        self.sent[alone] = Place(direction, len(of_class) + 1, packet)
        return not {alone, self.sent[alone]} & {hit.place for hit in self.losses}

    def fails(self) -> bool:
        """Whether the file is not delivered; the packets of the transfer are then known."""
        missing = [number for number in range(8) if not self.send("forward", "p.data")]
        self.send("forward", "p.eof")
        for _ in missing:
            self.send("reverse", "p.nak")
        return not self.send("reverse", "p.ack")


def has_effects(sets: Sequence[Hits]) -> list[bool]:
    return [Transfer(losses).fails() for losses in sets]


FIVE = (*(Hit(Place("forward", number)) for number in (2, 3, 5, 7)), Hit(Place("reverse", 5)))
"""Four packets of data, and the acknowledgement behind four requests."""


def test_by_number_the_losses_that_shift_a_packet_are_left_too() -> None:
    assert result_of(shrink(FIVE), has_effects) == FIVE


def test_by_message_the_loss_that_matters_is_left_alone() -> None:
    transfer = Transfer(FIVE)
    transfer.fails()
    of_messages = tuple(Hit(transfer.sent[loss.place]) for loss in FIVE)

    assert result_of(shrink_by_message(of_messages), has_effects) == (Hit(Place("reverse", 1, "p.ack")),)


def test_by_message_losses_that_are_needed_together_are_left_together() -> None:
    needed = {LOSSES[3], LOSSES[9]}

    def both(sets: Sequence[Hits]) -> list[bool]:
        return [needed.issubset(each) for each in sets]

    assert set(result_of(shrink_by_message(LOSSES), both)) == needed


def cfdp(kind: str, body: str) -> bytes:
    """A PDU of CFDP, whose kind is 2 for a directive and 3 for data."""
    pdu = bytes.fromhex(f"{kind}0000311006500000066{body}")
    return bytes(Ether() / IP(src="10.0.0.1", dst="10.0.0.2") / UDP(sport=1, dport=4556) / pdu)


DATA, ACK_OF_EOF, ACK_OF_FINISHED = cfdp("3", "00000000ff"), cfdp("2", "064000"), cfdp("2", "065000")


def named(frames: Sequence[bytes], protocol: str) -> dict[int, str]:
    """The text of each packet's place in its class, by its number among all."""
    places = places_by_class("reverse", frames, [len(frame) for frame in frames], protocol)
    return {alone.number: of_class.text for alone, of_class in places.items()}


def test_a_packet_is_named_by_its_class_with_the_fewest_packets() -> None:
    assert named([ACK_OF_EOF, DATA, ACK_OF_FINISHED, ACK_OF_EOF], "CFDP") == {
        1: "reverse cfdp.ack-eof #1",
        2: "reverse cfdp.data #1",
        3: "reverse cfdp.ack-finished #1",
        4: "reverse cfdp.ack-eof #2",
    }


def test_a_protocol_without_classes_names_no_packets() -> None:
    assert named([ACK_OF_EOF, DATA], "UDPcast") == {}


def test_a_frame_whose_message_is_not_captured_has_no_class() -> None:
    assert places_by_class("reverse", [ACK_OF_EOF[:42]], [len(ACK_OF_EOF)], "CFDP") == {}


def data(offset: int, content: bytes = b"\xff") -> bytes:
    """A UDP datagram with a part of the file."""
    pdu = bytes.fromhex("30000511006500000066") + offset.to_bytes(4) + content
    return bytes(UDP(sport=1, dport=4556, len=8 + len(pdu)) / pdu)


SENT_AGAIN = [data(0), data(1000), data(2000), data(1000), data(2000)]


@pytest.mark.parametrize(("number", "of_content"), [(2, 1), (4, 2), (3, 1), (1, 1)])
def test_a_packet_of_the_file_is_counted_among_those_with_the_same_part_of_it(number: int, of_content: int) -> None:
    place = place_by_content(Place("forward", number), SENT_AGAIN, "data")

    assert place is not None and place.number == of_content


def test_the_content_of_a_packet_is_an_expression_that_no_other_packet_passes() -> None:
    place = place_by_content(Place("forward", 4), SENT_AGAIN, "data 1000-1000")
    assert place is not None
    frames = [bytes(Ether() / IP(proto=17, dst="10.0.0.2") / datagram) for datagram in SENT_AGAIN]
    passed = [passes(compiled(place.packet), frame, len(frame)) for frame in frames]

    assert passed == [False, True, False, True, False]
    assert place.text == "forward data 1000-1000 #2"


def test_a_packet_that_only_its_end_tells_from_another_has_no_place_by_content() -> None:
    alike = [data(0, bytes(1000)), data(0, bytes(999) + b"1")]

    assert place_by_content(Place("forward", 2), alike, "data") is None


def test_the_faults_of_packets_by_number_and_by_class_count_each_on_their_own() -> None:
    by_number, of_class = aimed_at((LOSSES[2], Hit(Place("forward", 1, "cfdp.eof")), LOSSES[4]))

    assert (by_number.text, of_class.text) == ("packet #3, #5", "cfdp.eof #1")


def test_the_case_of_many_losses_has_a_short_name_of_its_own() -> None:
    many = tuple(Hit(Place("forward", number, "cfdp.data")) for number in range(1, 65))

    assert len(case_name(many)) < 100
    assert case_name(many) != case_name(many[:-1])


@pytest.mark.parametrize(
    "errors",
    [
        {"packet_error_rate": 0.1, "seed": 3.0},
        {"bit_error_rate": 1e-5},
        {"loss": {"model": "gilbert_elliott", "mean_rate": 0.01, "burst_packets": 5}},
        {"jitter": {"amount": "1 ms"}},
        {"duplication_rate": 0.1},
    ],
)
def test_a_channel_without_random_effects_keeps_delay_rate_and_timeline(errors: dict[str, object]) -> None:
    link = {"delay": "250 ms", "rate": "1 Mbit/s"}
    step = {"at": "5 s", "forward": {"delay": "300 ms"}}
    faults = [{"direction": "forward", "action": "drop"}]
    noisy = ChannelSpec.from_wire({"both": link | errors, "timeline": {"steps": [step]}, "faults": faults})
    calm = ChannelSpec.from_wire({"both": link, "timeline": {"steps": [step]}})

    assert noisy != calm
    assert without_random_effects(noisy) == calm


@pytest.mark.parametrize("is_cut", [False, True], ids=["complete", "cut"])
def test_losses_are_packets_that_were_lost_or_damaged_also_behind_the_headers(tmp_path: Path, is_cut: bool) -> None:
    run = run_with_losses(tmp_path, is_cut)

    assert [hit.place for hit in losses_of(run)] == [Place("forward", number) for number in sorted((LOST, DAMAGED))]


def test_a_packet_that_was_damaged_where_no_host_looks_is_not_lost(tmp_path: Path) -> None:
    run = run_with_losses(tmp_path, is_cut=False, damaged_bit=UNCHECKED_BITS[0])

    assert [hit.place for hit in losses_of(run)] == [Place("forward", LOST)]


@pytest.mark.parametrize("damaged_bit", [DAMAGED_BIT, UNCHECKED_BITS[0]], ids=["checked", "unchecked"])
def test_losses_are_those_that_why_names(tmp_path: Path, damaged_bit: int) -> None:
    run = run_with_losses(tmp_path, is_cut=False, damaged_bit=damaged_bit)
    _, _, inspection = inspected_run(run)
    named = losses_among(packets_on_link(inspection.rungs), inspection.rungs)

    assert [hit.place for hit in losses_of(run)] == [loss.place for loss in named]


def test_without_its_pairs_a_cut_run_has_no_known_losses(tmp_path: Path) -> None:
    run = run_with_losses(tmp_path, is_cut=True)
    (run / "pairs.json").unlink()

    with pytest.raises(OwltError, match=r"pairs\.json is missing or damaged, and captures cut to headers do not show"):
        losses_of(run)
