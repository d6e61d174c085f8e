"""Batches in blocks that stay on one machine: complete repetitions, so that a slow machine is slow in every cell."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from owlt.orchestrator.planning.clock import Clock
from owlt.orchestrator.planning.plan import Batch, Run

Block = tuple[object, ...]


def blocks_of_repetitions(batches: Sequence[Batch], clock: Clock, first_index: int) -> list[list[Batch]]:
    """The batches in blocks: on the exact clock a repetition of each cell, on others a repetition of the sweep.

    On the exact clock a run does not depend on the machine, so blocks can be small, and all machines are busy to the
    end. A cell is a point of the grid with all its implementations. A batch with runs of two repetitions is split; the
    parts are numbered from `first_index`. Certifications are blocks of their own.
    """
    blocks: dict[Block, list[Batch]] = {}
    for batch, repetition in _split(batches, first_index):
        key: Block = (repetition,)
        if batch.certify:
            key = ("certify", *batch.certify)
        elif clock == "exact":
            cell = batch.runs[0].permutation.model_dump(exclude={"implementation"})
            key = (repetition, *cell.values())
        blocks.setdefault(key, []).append(batch)
    return list(blocks.values())


def _split(batches: Iterable[Batch], index: int) -> Iterator[tuple[Batch, int]]:
    """Each batch, or each of its parts, with the repetition of its runs. A baseline's is that of the run before it."""
    repetition = 1
    for batch in batches:
        if not batch.runs:
            yield batch, repetition
            continue
        repetitions = []
        for run in batch.runs:
            repetition = _repetition(run, repetition)
            repetitions.append(repetition)
        parts = [list(part) for _, part in groupby(zip(batch.runs, repetitions, strict=True), key=lambda pair: pair[1])]
        for number, part in enumerate(parts):
            runs = [run for run, _ in part]
            if number == 0:
                yield batch.model_copy(update={"runs": runs}), part[0][1]
            else:
                yield batch.model_copy(update={"runs": runs, "index": index}), part[0][1]
                index += 1


def _repetition(run: Run, before: int) -> int:
    return before if run.is_baseline else run.repetition
