"""One run, phase by phase: staging, channel, captures, launch, judging, record; and the worker that performs a batch of
runs on a rig raised for it.

`perform` performs a run with the modules of its phases. Of the worker, here are its `task`, the `events` that it
reports, its program (`worker`), and how it is launched, in a guest or on this machine (`launching`). What is made of a
recorded run beside its record: its summary (`analysis`), digests of attempts that failed alike (`same_failures`).

Which batch comes next, and publishing what a worker leaves, belong to `orchestrator.sweep`; the records and the layout
of a results directory belong to `owlt.results`.
"""
