"""The state of a sweep, read from its results directory by any process, whether the sweep runs or not.

`state` is the state as a value, `reading` reads it, `pace` computes the remaining time, `text` puts it into words,
`metrics` into a file for Prometheus; `announcing` passes the end of a sweep on to a command of the user. The files that
only the process of a sweep writes are `journal`, which `activity` follows, and `results_lock`. What a sweep does
belongs to `orchestrator.sweep`, its measured values belong to `reports`.
"""
