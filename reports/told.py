"""What a sweep told a build that is not the channel's. Its name says so in every figure: it explains its numbers."""

from __future__ import annotations

from collections.abc import Iterable

from reports.records import Record
from reports.units import delay_text, rate_text

OTHERWISE = "told otherwise"


def told_rates(records: Iterable[Record]) -> dict[tuple[str, str], None]:
    """The rates that it was told, each with the channel's, in their order; () where they are the same."""
    return dict.fromkeys(
        (rate_text(record.told["rate_bps"]), rate_text(record.rate_bps))
        for record in records
        if "rate_bps" in record.told and record.told["rate_bps"] != record.rate_bps
    )


def told_delays(records: Iterable[Record]) -> dict[tuple[str, str], None]:
    """The one-way delays that it was told, each with the channel's, in their order."""
    return dict.fromkeys(
        (delay_text(told_ns), delay_text(record.delay_ns))
        for record in records
        if (told_s := record.told.get("one_way_delay_s")) is not None
        and (told_ns := round(told_s * 1e9)) != record.delay_ns
    )


def told_apart(records: list[Record]) -> str:
    """The one value that it was told, or that there are several; "" where it was told what the channel is."""
    told = [value for value, _ in (*told_rates(records), *told_delays(records))]
    if not told:
        return ""
    return f"told {told[0]}" if len(set(told)) == 1 else OTHERWISE
