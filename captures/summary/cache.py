"""The summary of a run, kept beside its captures as summary.json.

When the code has changed it is made again from the captures, also where these were cut since: what became of each
packet is kept beside them (pairs.py). Where the captures are gone, the kept summary is all there is.
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

from owlt.captures.accounting.suspect_captures import NOTHING_EXPECTED, Expected
from owlt.captures.session.conversations import suspect_groups
from owlt.captures.session.session import Session
from owlt.captures.summary.derived_files import CAPTURES, SUMMARY, load, load_or_make
from owlt.captures.summary.pairs import load_or_match
from owlt.captures.summary.summary import (
    NO_LINKS,
    SCHEMA_VERSION,
    CaptureSummary,
    Links,
    account_both,
    conclude,
    read_both,
)


def load_or_summarise(
    run_dir: Path,
    session: Session,
    file_size_bytes: int | None,
    file_delivered_at_ns: int | None,
    expected: Expected = NOTHING_EXPECTED,
    rate_bps: float | None = None,
    links: Links = NO_LINKS,
    duration_s: float | None = None,
) -> CaptureSummary:
    """The summary of the run in `run_dir`: the kept one while captures, arguments and code are those that it was made
    from, else a new one, which is then kept. Arguments and errors as for `captures.summary.summary.summarise`."""
    of_links = [link and asdict(link) for link in links]
    arguments = [file_size_bytes, file_delivered_at_ns, asdict(expected), rate_bps, of_links, duration_s]

    def make() -> CaptureSummary:
        both = read_both(*(run_dir / name for name in CAPTURES))
        deliveries = load_or_match(run_dir, *both, session)
        accounts = account_both(*both, deliveries, expected)
        summary = conclude(
            *both,
            deliveries,
            accounts,
            file_size_bytes,
            file_delivered_at_ns,
            expected,
            rate_bps,
            links,
            duration_s,
        )
        return summary.model_copy(update={"suspect": [*summary.suspect, *suspect_groups(session, both)]})

    return load_or_make(run_dir / SUMMARY, CaptureSummary, [session.model_dump(mode="json"), *arguments], make)


def load_summary(run_dir: Path) -> CaptureSummary | None:
    """The kept summary as it is; None if there is none, or a damaged one, or one of another schema."""
    summary = load(run_dir / SUMMARY, CaptureSummary)
    return summary if summary and summary.schema_version == SCHEMA_VERSION else None
