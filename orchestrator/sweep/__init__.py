"""Many runs: one start of a sweep, from its plan to its results, on this machine or on several.

`campaign` checks, performs and concludes; `supervisor` launches workers, `scheduling` decides what comes next,
`allocation` on which machine, `monitoring` follows a worker, `publishing` moves its results into place. `cluster` uses
other machines through Dask, `merging` and `combining` make one results directory of several. The worker's own program
belongs to `orchestrator.workers`, a single run belongs to `orchestrator.run`.
"""
