"""Which runs of a batch the next guest performs."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from orchestrator.plan import Run


def next_runs(
    runs: Sequence[Run], done: Collection[str], passed_over: Collection[str], is_exact: bool, is_split: bool
) -> list[Run]:
    """The runs of a batch for its next guest; none when all are done.

    On the exact clock they begin with the batch's first and end with the last that is not done: what a run sends
    depends on all that happened in its guest before. Runs that are `passed_over` cost the guest each time, so the
    guest begins behind the last of them that is in the way. A batch that is split has a guest for each run.
    """
    missing = [place for place, run in enumerate(runs) if run.run_id not in done]
    if not missing:
        return []
    if not is_exact:
        return [runs[place] for place in missing]
    if is_split:
        return [runs[missing[0]]]
    in_the_way = [place for place in range(missing[0]) if runs[place].run_id in passed_over]
    first = in_the_way[-1] + 1 if in_the_way else 0
    return [run for run in runs[first : missing[-1] + 1] if run.run_id not in passed_over]
