"""A shard: the part of a sweep's runs that one machine performs, without a word to the others."""

from __future__ import annotations

import re
from dataclasses import dataclass

from owlt.inputs.mistake import Mistake
from owlt.orchestrator.errors import OwltError
from owlt.orchestrator.planning.plan import Plan, Run


@dataclass(frozen=True)
class Shard:
    """The `number`-th of `count` shards, counted from 1."""

    number: int
    count: int

    @property
    def text(self) -> str:
        """For a directory's name, such as 2of8."""
        return f"{self.number}of{self.count}"

    def runs(self, plan: Plan) -> list[Run]:
        """Its runs; each run of a plan is in one of the shards.

        On the exact clock a run does not depend on the machine, so runs are dealt out in their order, and all shards
        take the same time. On other clocks a shard has complete repetitions: a slow machine is then slow in every cell.
        Raises OwltError if a shard would have no run.
        """
        if plan.sweep.adaptive:
            fix = "perform the sweep without --shard, or write a number of repetitions"
            problem = "a shard does not know the results of the others, on which adaptive repetitions depend"
            raise OwltError(Mistake.of("--shard", problem, "a sweep with a fixed number of repetitions", fix))
        if plan.sweep.clock == "exact":
            runs = plan.runs[self.number - 1 :: self.count]
            most = len(plan.runs)
        else:
            runs = [run for run in plan.runs if (run.repetition - 1) % self.count == self.number - 1]
            most = plan.sweep.most_repetitions
        if not runs:
            what = "runs" if plan.sweep.clock == "exact" else f"repetitions on the clock {plan.sweep.clock}"
            raise OwltError(Mistake.of("--shard", f"got {self.count} shards", f"at most {most}, the number of {what}"))
        return runs


def parse_shard(text: str) -> Shard:
    """A shard in its written form, such as 2/8. Raises OwltError."""
    match = re.fullmatch(r"(\d+)/(\d+)", text)
    if match:
        shard = Shard(int(match[1]), int(match[2]))
        if 1 <= shard.number <= shard.count:
            return shard
    raise OwltError(Mistake.of("--shard", f"got '{text}'", "I/N with I from 1 to N, such as 2/8"))
