"""The channels that are measured, and channels that are measured against another one: there the checks must fail."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

PAPERS_RATE = {"rate": "10 Mbit/s"}
FAST = {"rate": "1 Gbit/s"}


@dataclass(frozen=True)
class Case:
    """A channel in its written form and options for certifying it.

    `unseen` are quantities, by how they begin, that cannot be measured on it, for a reason that lies in the channel.
    `truth` is what is applied in its place, and `caught` the quantities, by how they begin, that must then fail.
    """

    name: str
    channel: dict[str, Any]
    options: dict[str, Any] = field(default_factory=dict)
    unseen: tuple[str, ...] = ()
    truth: dict[str, Any] | None = None
    caught: tuple[str, ...] = ()


def both(**link: Any) -> dict[str, Any]:
    """A channel with the same link each way, seeded."""
    return {"both": link, "forward": {"seed": 11}, "reverse": {"seed": 12}}


SHARES, QUEUE, RATE = "shares of packets", "depth of the queue", "rate, bit/s"

CASES = [
    Case("unimpaired", {}),
    Case("1 ns", both(delay="1 ns")),
    Case("1 ms", both(delay="1 ms")),
    Case("terrestrial", both(delay="25 ms", **PAPERS_RATE)),
    Case("GEO", both(delay="250 ms", **PAPERS_RATE)),
    Case("cislunar", both(delay="1250 ms", **PAPERS_RATE)),
    Case(
        "deep space, 250:1",
        {"forward": {"delay": "600 s", "rate": "2 Mbit/s"}, "reverse": {"delay": "600 s", "rate": "8 kbit/s"}},
    ),
    Case("Mars at its farthest", both(delay="1342 s", rate="128 kbit/s")),
    Case("24 h", both(delay="24 h")),
    Case("another delay each way", {"forward": {"delay": "5 ms"}, "reverse": {"delay": "120 ms"}}),
    Case("1 kbit/s", both(rate="1 kbit/s", queue="20 packets")),
    Case("8 kbit/s", both(rate="8 kbit/s", queue="20 packets")),
    Case("1 Mbit/s", both(rate="1 Mbit/s", delay="10 ms")),
    Case("100 Mbit/s", both(rate="100 Mbit/s", delay="10 ms")),
    Case("1 Gbit/s", both(delay="10 ms", **FAST)),
    Case("10 Gbit/s", both(rate="10 Gbit/s", delay="10 ms"), unseen=(QUEUE,)),
    Case("overhead of Ethernet", both(overhead="24 B", **PAPERS_RATE)),
    Case("overhead larger than the frame", both(overhead="100 B", **PAPERS_RATE)),
    Case("queue of 1 packet", both(queue="1 packets", **PAPERS_RATE), unseen=(RATE,)),
    Case("queue of 10 packets", both(queue="10 packets", delay="25 ms", **PAPERS_RATE)),
    Case("queue of 64 kB", both(queue="64 kB", **PAPERS_RATE)),
    Case("queue of 50 ms", both(queue="50 ms", **PAPERS_RATE)),
    Case("queue of 1 BDP", both(queue="1 BDP", delay="25 ms", **PAPERS_RATE)),
    Case("MTU of 1500", both(mtu="1500 B")),
    Case("MTU of 576 and a queue of 20 kB", both(mtu="576 B", queue="20 kB", **PAPERS_RATE)),
    Case("PER 0.001", both(packet_error_rate=0.001, delay="25 ms")),
    Case("PER 0.01", both(packet_error_rate=0.01, delay="25 ms", **PAPERS_RATE)),
    Case("PER 0.1", both(packet_error_rate=0.1, delay="25 ms", **PAPERS_RATE)),
    Case("PER 1", both(packet_error_rate=1.0)),
    Case("PER 0.01, dropped", both(packet_error_rate=0.01, error_effect="drop", **FAST)),
    Case("PER 1, dropped", both(packet_error_rate=1.0, error_effect="drop"), unseen=("one-way delay", "share of")),
    Case("BER 1e-3", both(bit_error_rate=1e-3)),
    Case("BER 1e-5", both(bit_error_rate=1e-5, delay="25 ms", **PAPERS_RATE)),
    Case("BER 1e-6", both(bit_error_rate=1e-6, rate="10 Gbit/s"), unseen=(QUEUE,)),
    Case("BER 1e-8", {"forward": {"bit_error_rate": 1e-8, "seed": 3}}),
    Case("BER 1e-5, dropped", both(bit_error_rate=1e-5, error_effect="drop")),
    Case("bursts of 4, 1 % lost", both(loss={"model": "gilbert_elliott", "mean_rate": 0.01, "burst_packets": 4})),
    Case("bursts of 20, 10 % lost", both(loss={"model": "gilbert_elliott", "mean_rate": 0.1, "burst_packets": 20})),
    Case(
        "bursts and bit errors",
        both(bit_error_rate=1e-5, loss={"model": "gilbert_elliott", "mean_rate": 0.05, "burst_packets": 3}),
    ),
    Case(
        "four states", both(loss={"model": "four_state", "p13": 0.02, "p31": 0.2, "p32": 0.3, "p23": 0.6, "p14": 0.01})
    ),
    Case("listed packets dropped", both(pattern={"packets": [0, 3, 4, 5, 100, 999]}, error_effect="drop")),
    Case("listed packets damaged", both(pattern={"packets": [1, 2, 500]}, delay="5 ms", **PAPERS_RATE)),
    Case("listed bits flipped", both(pattern={"bits": [0, 7, 112, 5_000, 12_111, 12_112, 700_000]})),
    Case("listed bits drop their frames", both(pattern={"bits": [3, 4, 200_000]}, error_effect="drop")),
    Case("duplicates", both(duplication_rate=0.05, delay="25 ms", **PAPERS_RATE)),
    Case(
        "reordering", both(reordering={"rate": 0.05, "by": "5 ms"}, keeps_order=False, delay="20 ms", rate="100 Mbit/s")
    ),
    Case("uniform jitter in order", both(delay="20 ms", jitter={"amount": "2 ms", "distribution": "uniform"})),
    Case("normal jitter", both(delay="50 ms", jitter={"amount": "5 ms"}, keeps_order=False)),
    Case("normal jitter behind a rate", both(delay="50 ms", jitter={"amount": "50 us"}, rate="10 Mbit/s")),
    Case("pareto jitter", both(delay="20 ms", jitter={"amount": "2 ms", "distribution": "pareto"}, keeps_order=False)),
    Case(
        "paretonormal jitter",
        both(delay="20 ms", jitter={"amount": "2 ms", "distribution": "paretonormal"}, keeps_order=False),
    ),
    Case(
        "a jitter table",
        both(
            delay="20 ms",
            jitter={"amount": "1 ms", "distribution": "table", "table": [-1.0, 0.0, 0.0, 3.0]},
            keeps_order=False,
        ),
    ),
    Case("an outage", both(up=False, delay="25 ms")),
    Case("one way down", {"forward": {"up": False}, "reverse": {"delay": "3 ms"}}),
    Case(
        "all at once",
        both(
            delay="250 ms",
            rate="100 Mbit/s",
            overhead="24 B",
            bit_error_rate=1e-6,
            duplication_rate=0.01,
            queue="100 packets",
            mtu="1500 B",
            loss={"model": "gilbert_elliott", "mean_rate": 0.02, "burst_packets": 2},
        ),
    ),
]

GE = {"model": "gilbert_elliott", "mean_rate": 0.05, "burst_packets": 4}
AT_THE_DISTANCE = [
    Case(
        "PER larger by half",
        both(packet_error_rate=0.01),
        truth=both(packet_error_rate=0.015),
        caught=("share of 64-byte frames damaged",),
    ),
    Case(
        "two thirds of the BER",
        both(bit_error_rate=1e-5),
        truth=both(bit_error_rate=1e-5 / 1.5),
        caught=("share of bits flipped",),
    ),
    Case(
        "BER larger by half, dropped",
        both(bit_error_rate=1e-5, error_effect="drop"),
        truth=both(bit_error_rate=1.5e-5, error_effect="drop"),
        caught=("share of 9014-byte frames lost",),
    ),
    Case(
        "none lost of one in a hundred",
        both(packet_error_rate=0.01, error_effect="drop"),
        truth={},
        caught=("share of 64-byte frames lost",),
    ),
    Case(
        "bursts of 6 for bursts of 4",
        both(loss=GE),
        truth=both(loss=GE | {"burst_packets": 6}),
        caught=("mean length of a burst",),
    ),
    Case(
        "two thirds of the bursts",
        both(loss=GE),
        truth=both(loss=GE | {"mean_rate": 0.05 / 1.5}),
        caught=("share of 64-byte frames lost",),
    ),
    Case("0.1 % too fast", both(**PAPERS_RATE), truth=both(rate="10.01 Mbit/s"), caught=("rate, bit/s",)),
    Case("0.1 % too late", both(delay="1250 ms"), truth=both(delay="1251.25 ms"), caught=("one-way delay",)),
]
"""As wrong as a certificate is said to catch with a probability of 99 % (`make power` tries many seeds)."""

WRONG = [
    *AT_THE_DISTANCE,
    Case("2 us too late", both(delay="25 ms"), truth=both(delay="25002 us"), caught=("one-way delay",)),
    Case("too early", both(delay="25 ms"), truth=both(delay="24999 us"), caught=("one-way delay",)),
    Case("0.3 % too fast", both(rate="10 Mbit/s"), truth=both(rate="10.03 Mbit/s"), caught=("rate, bit/s",)),
    Case(
        "one place too few",
        both(queue="10 packets", **PAPERS_RATE),
        truth=both(queue="9 packets", **PAPERS_RATE),
        caught=(QUEUE,),
    ),
    Case(
        "a third of the queue",
        both(queue="64 kB", **PAPERS_RATE),
        truth=both(queue="20 kB", **PAPERS_RATE),
        caught=(QUEUE,),
    ),
    Case(
        "half the PER",
        both(packet_error_rate=0.02),
        truth=both(packet_error_rate=0.01),
        caught=("share of 64-byte frames damaged",),
    ),
    Case(
        "twice the BER",
        both(bit_error_rate=1e-5),
        truth=both(bit_error_rate=2e-5),
        caught=("share of bits flipped",),
    ),
    Case(
        "a PER for a BER",
        both(bit_error_rate=1e-5),
        truth=both(packet_error_rate=0.114),
        caught=("share of 64-byte frames damaged",),
    ),
    Case(
        "damaged, not dropped",
        both(bit_error_rate=1e-5, error_effect="drop"),
        truth=both(bit_error_rate=1e-5),
        caught=("share of 1514-byte frames lost", "share of 1514-byte frames damaged"),
    ),
    Case(
        "single losses for bursts",
        both(loss={"model": "gilbert_elliott", "mean_rate": 0.05, "burst_packets": 4}),
        truth=both(packet_error_rate=0.05, error_effect="drop"),
        caught=("mean length of a burst",),
    ),
    Case(
        "another packet",
        both(pattern={"packets": [5, 9]}, error_effect="drop"),
        truth=both(pattern={"packets": [5, 10]}, error_effect="drop"),
        caught=("packets dropped as listed",),
    ),
    Case(
        "another bit",
        both(pattern={"bits": [512, 9_000]}),
        truth=both(pattern={"bits": [513, 9_000]}),
        caught=("bits flipped as listed",),
    ),
    Case("no duplicates", both(duplication_rate=0.05), truth={}, caught=("share of packets duplicated",)),
    Case(
        "too little jitter",
        both(delay="50 ms", jitter={"amount": "5 ms"}, keeps_order=False),
        truth=both(delay="50 ms", jitter={"amount": "3 ms"}, keeps_order=False),
        caught=("one-way delay of 64-byte frames, p90",),
    ),
    Case(
        "out of order",
        both(delay="20 ms", jitter={"amount": "2 ms"}),
        truth=both(delay="20 ms", jitter={"amount": "2 ms"}, keeps_order=False),
        caught=("share of packets out of order",),
    ),
    Case("one byte too many", both(mtu="1500 B"), truth=both(mtu="1501 B"), caught=("longest frame that passes",)),
    Case("not down", both(up=False), truth={}, caught=("packets delivered while down",)),
]
