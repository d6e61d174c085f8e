"""netem as netlink attributes: `Netem` to the options of a request, a dump back to `Netem` and its counters.

pyroute2's own netem has no 64-bit delay (its 32-bit one ends at 274 s), no seed, loss model or delay table, and its
rate does not work; this module takes its place among pyroute2's plugins, for the whole process. Layouts:
include/uapi/linux/pkt_sched.h.
"""

import struct
from dataclasses import asdict
from types import SimpleNamespace
from typing import Any

from owlt.emulator.kernel.netem import FourStateThresholds, GilbertElliottThresholds, LossThresholds, Netem
from owlt.emulator.kernel.rtnetlink import nla, tcmsg

_U32_MAX = 2**32 - 1
_TICK_NS = 64  # PSCHED_SHIFT 6
_NETEM_COUNTERS = {"corrupted_packets": "corrupted", "lost_packets": "dropped", "duplicated_packets": "duplicated"}


class _Options(nla):  # type: ignore[misc]
    fields = (
        ("latency_ticks", "I"),
        ("limit", "I"),
        ("loss", "I"),
        ("gap", "I"),
        ("duplicate", "I"),
        ("jitter_ticks", "I"),
    )
    nla_map = (
        ("TCA_NETEM_UNSPEC", "none"),
        ("TCA_NETEM_CORR", "correlations"),
        ("TCA_NETEM_DELAY_DIST", "cdata"),
        ("TCA_NETEM_REORDER", "chance"),
        ("TCA_NETEM_CORRUPT", "chance"),
        ("TCA_NETEM_LOSS", "loss_model"),
        ("TCA_NETEM_RATE", "rate"),
        ("TCA_NETEM_ECN", "uint32"),
        ("TCA_NETEM_RATE64", "uint64"),
        ("TCA_NETEM_PAD", "hex"),
        ("TCA_NETEM_LATENCY64", "int64"),
        ("TCA_NETEM_JITTER64", "int64"),
        ("TCA_NETEM_SLOT", "slot"),
        ("TCA_NETEM_SLOT_DIST", "hex"),
        ("TCA_NETEM_PRNG_SEED", "uint64"),
    )

    class loss_model(nla):  # type: ignore[misc]
        nla_map = (("NETEM_LOSS_UNSPEC", "none"), ("NETEM_LOSS_GI", "four_state"), ("NETEM_LOSS_GE", "gilbert_elliott"))

        class four_state(nla):  # type: ignore[misc]
            fields = (("p13", "I"), ("p31", "I"), ("p32", "I"), ("p14", "I"), ("p23", "I"))

        class gilbert_elliott(nla):  # type: ignore[misc]
            fields = (("p", "I"), ("r", "I"), ("h", "I"), ("k1", "I"))

    class correlations(nla):  # type: ignore[misc]
        fields = (("delay", "I"), ("loss", "I"), ("duplicate", "I"))

    class chance(nla):  # type: ignore[misc]
        fields = (("threshold", "I"), ("correlation", "I"))

    class rate(nla):  # type: ignore[misc]
        fields = (("bytes_per_s", "I"), ("packet_overhead", "i"), ("cell_size", "I"), ("cell_overhead", "i"))

    class slot(nla):  # type: ignore[misc]
        fields = (
            ("min_delay_ns", "q"),
            ("max_delay_ns", "q"),
            ("max_packets", "i"),
            ("max_bytes", "i"),
            ("dist_delay_ns", "q"),
            ("dist_jitter_ns", "q"),
        )


class _Counters(nla):  # type: ignore[misc]
    nla_map = (
        ("TCA_STATS_UNSPEC", "none"),
        ("TCA_STATS_BASIC", "basic"),
        ("TCA_STATS_RATE_EST", "hex"),
        ("TCA_STATS_QUEUE", "queue"),
        ("TCA_STATS_APP", "netem"),
        ("TCA_STATS_RATE_EST64", "hex"),
        ("TCA_STATS_PAD", "hex"),
        ("TCA_STATS_BASIC_HW", "hex"),
        ("TCA_STATS_PKT64", "uint64"),
    )

    class basic(nla):  # type: ignore[misc]
        fields = (("bytes", "Q"), ("packets", "I"))

    class queue(nla):  # type: ignore[misc]
        fields = (("qlen", "I"), ("backlog", "I"), ("drops", "I"), ("requeues", "I"), ("overlimits", "I"))

    class netem(nla):  # type: ignore[misc]
        fields = (
            ("delayed", "Q"),
            ("dropped", "Q"),
            ("corrupted", "Q"),
            ("duplicated", "Q"),
            ("reordered", "Q"),
        )


tcmsg.plugins["netem"] = SimpleNamespace(options=_Options, stats2=_Counters)


def options(netem: Netem) -> dict[str, Any]:
    """Return the options of a request.

    It has every setting except the seed: netem keeps attributes that are missing.
    """
    return {
        "latency_ticks": 0,  # the 64-bit attribute counts instead
        "limit": netem.limit_packets,
        "loss": netem.loss_threshold,
        "gap": 0,
        "duplicate": netem.duplicate_threshold,
        "jitter_ticks": 0,
        "attrs": [
            ("TCA_NETEM_CORR", {"delay": 0, "loss": 0, "duplicate": 0}),
            ("TCA_NETEM_REORDER", {"threshold": 0, "correlation": 0}),
            ("TCA_NETEM_CORRUPT", {"threshold": netem.corrupt_threshold, "correlation": 0}),
            ("TCA_NETEM_RATE", _rate(netem)),
            ("TCA_NETEM_ECN", 0),
            ("TCA_NETEM_RATE64", netem.rate_bytes_per_s),
            ("TCA_NETEM_LATENCY64", netem.delay_ns),
            ("TCA_NETEM_JITTER64", netem.jitter_ns),
            ("TCA_NETEM_SLOT", {name: 0 for name, _ in _Options.slot.fields}),
            *([("TCA_NETEM_LOSS", _loss(netem.loss_model))] if netem.loss_model is not None else []),
            *([("TCA_NETEM_DELAY_DIST", _table(netem.delay_table))] if netem.delay_table else []),
            *([("TCA_NETEM_PRNG_SEED", netem.seed)] if netem.seed is not None else []),
        ],
    }


def netem_of(message: Any) -> Netem:
    """Return the netem that a qdisc message of a dump describes."""
    found = message.get_attr("TCA_OPTIONS")
    rate = found.get_attr("TCA_NETEM_RATE")
    delay_ns, jitter_ns = found.get_attr("TCA_NETEM_LATENCY64"), found.get_attr("TCA_NETEM_JITTER64")
    return Netem(
        limit_packets=found["limit"],
        delay_ns=found["latency_ticks"] * _TICK_NS if delay_ns is None else delay_ns,
        jitter_ns=found["jitter_ticks"] * _TICK_NS if jitter_ns is None else jitter_ns,
        rate_bytes_per_s=found.get_attr("TCA_NETEM_RATE64") or rate["bytes_per_s"],
        overhead_bytes=rate["packet_overhead"],
        corrupt_threshold=found.get_attr("TCA_NETEM_CORRUPT")["threshold"],
        loss_threshold=found["loss"],
        loss_model=_loss_of(found.get_attr("TCA_NETEM_LOSS")),
        duplicate_threshold=found["duplicate"],
        seed=found.get_attr("TCA_NETEM_PRNG_SEED"),
        extras=_extras(found),
    )


def counters_of(message: Any) -> dict[str, int]:
    """Return what a qdisc message of a dump counted: packets and bytes that left, that were dropped, that
    wait.

    `corrupted_packets`, `lost_packets`, `duplicated_packets` are there only if the kernel counts them (a netem
    of 2026 does, most do not); the lost ones are among the dropped ones.
    """
    found = message.get_attr("TCA_STATS2")
    basic, queue, netem = (found.get_attr(f"TCA_STATS_{part}") for part in ("BASIC", "QUEUE", "APP"))
    counted = {
        "packets": found.get_attr("TCA_STATS_PKT64") or basic["packets"],
        "bytes": basic["bytes"],
        "dropped_packets": queue["drops"],
        "waiting_packets": queue["qlen"],
        "waiting_bytes": queue["backlog"],
    }
    return counted | ({name: netem[field] for name, field in _NETEM_COUNTERS.items()} if netem is not None else {})


def _rate(netem: Netem) -> dict[str, int]:
    return {
        "bytes_per_s": min(netem.rate_bytes_per_s, _U32_MAX),
        "packet_overhead": netem.overhead_bytes,
        "cell_size": 0,
        "cell_overhead": 0,
    }


def _loss(model: LossThresholds) -> dict[str, Any]:
    if isinstance(model, GilbertElliottThresholds):
        attribute = ("NETEM_LOSS_GE", {"p": model.to_bad, "r": model.to_good, "h": 0, "k1": 0})
    else:
        attribute = ("NETEM_LOSS_GI", asdict(model))
    return {"attrs": [attribute]}


def _loss_of(found: Any) -> LossThresholds | None:
    """The loss model in a dump. Ours lose every packet in the bad state and none in the good one."""
    if found is None:
        return None
    states, two = found.get_attr("NETEM_LOSS_GI"), found.get_attr("NETEM_LOSS_GE")
    if states is not None:
        return FourStateThresholds(*(states[name] for name in ("p13", "p31", "p32", "p14", "p23")))
    return GilbertElliottThresholds(two["p"], two["r"]) if not two["h"] and not two["k1"] else None


def _table(values: tuple[int, ...]) -> bytes:
    return struct.pack(f"={len(values)}h", *values)


def _extras(found: Any) -> tuple[str, ...]:
    """Name every impairment that is on in the dump and that `Netem` has no field for."""
    model = found.get_attr("TCA_NETEM_LOSS")
    present = {
        "loss": model is not None and _loss_of(model) is None,
        "gap": found["gap"],
        "reorder": _some(found, "TCA_NETEM_REORDER", "threshold"),
        "ecn": found.get_attr("TCA_NETEM_ECN"),
        "slot": _some(found, "TCA_NETEM_SLOT", "min_delay_ns", "max_delay_ns", "dist_jitter_ns"),
        "cells": _some(found, "TCA_NETEM_RATE", "cell_size"),
        "correlation": _some(found, "TCA_NETEM_CORR", "delay", "loss", "duplicate"),
    }
    return tuple(name for name, value in present.items() if value)


def _some(found: Any, attribute: str, *names: str) -> bool:
    fields = found.get_attr(attribute)
    return fields is not None and any(fields[name] for name in names)
