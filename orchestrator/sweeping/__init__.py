"""Many runs: one start of a sweep, from its file to its results.

`campaign` checks and concludes, `supervisor` launches workers, `scheduling` decides what comes next, `monitoring`
follows a worker, `publishing` moves its results into place. Workers belong to `orchestrator.workers`, a single run
belongs to `orchestrator.run`.
"""
