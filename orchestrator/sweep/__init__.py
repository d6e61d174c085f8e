"""Many runs: one start of a sweep, from its plan to its results, on this machine or on several; and the state of a
sweep, which any process reads from its results directory, whether the sweep runs or not.

`campaign` checks, performs and concludes; `supervisor` launches workers, `scheduling` decides what comes next,
`machine` on which machine, `monitoring` follows a worker, `publishing` moves its results into place. `cluster` uses
other machines through Dask, `merging` makes one results directory of the parts of one sweep, `combining` one of
several sweeps for a report.

`state` is the state as a value and in words, `state_reader` reads it, from the records and the `journal`; `announcing`
passes it on to Prometheus, and the end of a sweep to a command of the user.

A single run, and the worker that performs it, belong to `orchestrator.run`, measured values belong to `reports`.
"""
