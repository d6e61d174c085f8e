"""Workers: each performs one batch of runs on a rig raised for it. Here are its task, the events that it reports, its
program, and how to launch it: in a guest or on this machine.

Which batch comes next, and publishing what a worker leaves, belong to `orchestrator.sweep`; a single run belongs to
`orchestrator.run`.
"""
