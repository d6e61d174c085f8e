"""Measures ECN marking: the share of ECN-capable packets that arrive with CE, and the queue level from which all of
them do.

The probes are IPv4 packets with ECT(0), and beside them packets that are not ECN-capable, none of which may be marked.
The address block is TEST-NET-1 (RFC 5737), the protocol 253 (RFC 3692): no host answers. A copy counts as marked if it
differs from what was sent in exactly the bits that a mark changes, with the header checksum right; copies that the
link damaged do not count.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from math import ceil, log
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from owlt.emulator.certification import probe_statistics
from owlt.emulator.certification.intervals import wrong_share
from owlt.emulator.certification.judging import Judge, NotMeasured
from owlt.emulator.certification.probe_statistics import Count
from owlt.emulator.certification.probing import DESTINATION, SHORTEST_FRAME_BYTES, SOURCE, ProbeResult
from owlt.emulator.channel.link import QueueLevel
from owlt.emulator.kernel.bpf_stages import ETHERNET_HEADER_BYTES

if TYPE_CHECKING:
    from owlt.emulator.certification.certify import Campaign

NOT_ECT, ECT_0, CE = 0, 2, 3
"""The codepoints of RFC 3168, section 5."""
_PLAIN_PACKETS = 1_000
_BEYOND_PACKETS = 10
"""The number of packets sent into the queue beyond its threshold."""
_MOST_BURST_PACKETS = 20_000
_UNSEEN = 1e-6
"""The probability that losses and random marks hide the threshold."""


def judges(campaign: Campaign) -> Iterator[Judge]:
    """Yield the judges of a link with ECN marking. Raises NotMeasured."""
    marking = campaign.link.ecn_marking
    assert marking is not None
    length = SHORTEST_FRAME_BYTES
    count = campaign.sizes.for_share(marking.probability, campaign.sizes.gap_ns(length))
    aim = wrong_share(marking.probability)
    counted = _marks(campaign.apart(length, count, 0, _header(length, ECT_0)), _mark_of(length))
    yield campaign.judged.share("share of ECN-capable packets marked CE", marking.probability, counted, aim)
    plain = campaign.apart(length, min(count, _PLAIN_PACKETS), 0, _header(length, NOT_ECT))
    counted = _marks(plain, _mark_of(length, NOT_ECT))
    yield campaign.judged.none("packets marked CE that are not ECN-capable", counted.hits, max(counted.trials, 1))
    if marking.queue_threshold is not None:
        quantity = f"queue from which on packets are marked CE, {marking.queue_threshold.unit}"
        try:
            yield _threshold(campaign, quantity, marking.queue_threshold)
        except NotMeasured as reason:
            yield campaign.judged.not_measured(quantity, str(reason))


def _threshold(campaign: Campaign, quantity: str, level: QueueLevel) -> Judge:
    """Measure the threshold with bursts that fill the queue beyond it: it is just above the largest level that an
    unmarked packet found."""
    expected, length = campaign.expected, campaign.queue_length()
    one_ns, frame_bytes = expected.serialization_ns(length), length + campaign.link.overhead_bytes
    each = {"packets": 1, "bytes": frame_bytes, "ns": one_ns}[level.unit]
    reached = ceil(level.amount / each)
    burst = int(min(reached + _BEYOND_PACKETS, expected.queue_packets(length)))
    assert campaign.link.ecn_marking is not None
    hidden = 1 - (1 - campaign.link.ecn_marking.probability) * (1 - expected.loss_probability(length))
    if hidden >= 1:
        raise NotMeasured("all packets are marked or lost, also those that find no queue")
    if one_ns <= 2 * campaign.judged.tolerance_ns:
        raise NotMeasured(f"the clock's resolution hides the {one_ns} ns that one packet takes to send")
    if not reached < burst <= _MOST_BURST_PACKETS:
        raise NotMeasured(f"it needs bursts of {reached + 1} packets, and the queue holds {burst}")
    bursts = ceil(log(_UNSEEN) / log(hidden)) if hidden else 1
    result = campaign.bursts(length, burst, bursts, _header(length, ECT_0))
    backlogs_ns = _backlogs_ns(result.sent_ns, one_ns)
    if backlogs_ns.max() <= (reached - 1) * one_ns:
        raise NotMeasured("the probes were sent too slowly to fill the queue up to the threshold")
    most = _most_unmarked(result, backlogs_ns, _mark_of(length))
    if most is None:
        raise NotMeasured("no probe arrived unmarked")
    if level.unit == "packets":
        return campaign.judged.exactly(quantity, level.amount, ceil(most / one_ns) + 1, bursts)
    return campaign.judged.roughly(quantity, level.amount, (most / one_ns + 0.5) * each, each, bursts)


def _backlogs_ns(sent_ns: NDArray[np.int64], one_ns: int) -> NDArray[np.int64]:
    """The backlog that each probe finds, computed from arrival times as the gate does."""
    backlogs, busy_until_ns = [], 0
    for time_ns in sent_ns.tolist():
        backlogs.append(max(busy_until_ns - time_ns, 0))
        busy_until_ns = max(busy_until_ns, time_ns) + one_ns
    return np.array(backlogs, np.int64)


def _most_unmarked(result: ProbeResult, backlogs_ns: NDArray[np.int64], mark: NDArray[np.int64]) -> int | None:
    """The largest backlog found by a packet that arrived unchanged; None if none did."""
    unmarked = result.copy_number[~_is_marked(result, mark) & (result.flipped_bits == 0)]
    return int(backlogs_ns[unmarked].max()) if len(unmarked) else None


def _marks(result: ProbeResult, mark: NDArray[np.int64]) -> Count:
    """The number of marked probes among those that arrived unchanged or marked."""
    first = probe_statistics.first_copies(result)
    is_marked = _is_marked(result, mark)[first]
    return Count(int(is_marked.sum()), int((is_marked | (result.flipped_bits[first] == 0)).sum()))


def _is_marked(result: ProbeResult, mark: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which copies differ from what was sent in exactly the bits of a mark."""
    of_mark = result.flip_copy[np.isin(result.flip_position, mark)]
    hits = np.bincount(of_mark, minlength=len(result.copy_number))
    is_marked: NDArray[np.bool_] = (hits == len(mark)) & (result.flipped_bits == len(mark))
    return is_marked


def _mark_of(length: int, codepoint: int = ECT_0) -> NDArray[np.int64]:
    """The bits that a mark changes in a probe, counted from its first."""
    before, after = (np.frombuffer(_header(length, each), np.uint8) for each in (codepoint, CE))
    return np.flatnonzero(np.unpackbits(before ^ after))


def _header(length: int, codepoint: int) -> bytes:
    """The Ethernet and IPv4 headers of a probe with a length of its frame and an ECN codepoint."""
    fields = (0x45, codepoint, length - ETHERNET_HEADER_BYTES, 0, 0, 64, 253)
    addresses = bytes((192, 0, 2, 1, 192, 0, 2, 2))
    words = struct.unpack("!10H", struct.pack("!2B3H2BH", *fields, 0) + addresses)
    total = sum(words)
    total = (total & 0xFFFF) + (total >> 16)
    checksum = ~((total & 0xFFFF) + (total >> 16)) & 0xFFFF
    return DESTINATION + SOURCE + b"\x08\x00" + struct.pack("!2B3H2BH", *fields, checksum) + addresses
