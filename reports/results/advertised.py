"""Rates and delays that a sweep advertised to an implementation instead of the channel's; figures name them."""

from __future__ import annotations

from collections.abc import Iterable

from owlt.reports.results.records import Record
from owlt.reports.style.units import delay_text, rate_text

OTHERWISE = "advertised differently"


def advertised_rates(records: Iterable[Record]) -> dict[tuple[str, str], None]:
    """The advertised rates that differ from the channel's, each with the channel's, in order of the records."""
    return dict.fromkeys(
        (rate_text(record.advertised["rate_bps"]), rate_text(record.rate_bps))
        for record in records
        if "rate_bps" in record.advertised and record.advertised["rate_bps"] != record.rate_bps
    )


def advertised_delays(records: Iterable[Record]) -> dict[tuple[str, str], None]:
    """The advertised one-way delays that differ from the channel's, each with the channel's, likewise."""
    return dict.fromkeys(
        (delay_text(advertised_ns), delay_text(record.delay_ns))
        for record in records
        if (advertised_s := record.advertised.get("one_way_delay_s")) is not None
        and (advertised_ns := round(advertised_s * 1e9)) != record.delay_ns
    )


def advertised_note(records: list[Record]) -> str:
    """The one advertised value, or that there are several; "" if only the channel's values were advertised."""
    advertised = [value for value, _ in (*advertised_rates(records), *advertised_delays(records))]
    if not advertised:
        return ""
    return f"advertised {advertised[0]}" if len(set(advertised)) == 1 else OTHERWISE
