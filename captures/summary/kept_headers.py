"""Cutting the captures of a run once its summary is kept, and what became of each of its packets."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from owlt.captures.files.plain_files import move
from owlt.captures.session.session import Session
from owlt.captures.summary.cache import load_summary
from owlt.captures.summary.cutting import write_cut
from owlt.captures.summary.derived_files import CAPTURES, SUMMARY, DerivedFile, is_of, keep, load
from owlt.captures.summary.pairs import PAIRS, StoredPairs, load_or_match
from owlt.captures.summary.summary import CaptureSummary, read_both

_KEPT_COMPLETE = 8
"""Of the sender's packets, from the first on: a handshake is among them."""


def keep_only_headers(run_dir: Path, session: Session, also: Mapping[str, type[DerivedFile]]) -> None:
    """Cut the sender's packets in both captures of the run to their headers.

    `also` names what else than the summary is kept of these captures, and its kind. Wherever this is interrupted,
    each capture is complete or cut, and what is kept is valid for either. Raises RuntimeError if no summary of these
    very captures is kept, NotACapture, OSError.
    """
    summary = load_summary(run_dir)
    if summary is None or summary.source is None or not is_of(summary.source, run_dir):
        raise RuntimeError(
            f"{run_dir}: expected a summary of these captures before they are cut, because headers alone do not show "
            f"every damaged bit: call load_or_summarise first"
        )
    at_sender, at_receiver = read_both(*(run_dir / name for name in CAPTURES))
    forward, _ = load_or_match(run_dir, at_sender, at_receiver, session)
    left = np.sort(forward.near)[_KEPT_COMPLETE:]
    arrived = np.sort(np.union1d(forward.delivered, forward.far))[_KEPT_COMPLETE:]
    partial = {name: run_dir / f".{name}.partial" for name in CAPTURES}
    for name, capture, rows in zip(CAPTURES, (at_sender, at_receiver), (left, arrived), strict=True):
        write_cut(capture, rows, partial[name])
    kinds: dict[str, type[DerivedFile]] = {SUMMARY: CaptureSummary, PAIRS: StoredPairs, **also}
    for name, kind in kinds.items():
        stored = load(run_dir / name, kind)
        if stored and stored.source and is_of(stored.source, run_dir):
            keep(run_dir / name, stored.model_copy(update={"source": stored.source.with_forms(partial)}))
    for name, path in partial.items():
        move(path, run_dir / name)
