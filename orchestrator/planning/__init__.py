"""What a sweep is and what follows from it: its keys, the points of its grid, the plan of its runs, what they need.

Values and functions of them; only `stored_plan` writes, the plan of a results directory. The table of the axes belongs
to `inputs.axes`, finding files of users to `orchestrator.profiles`, performing a plan to `orchestrator.sweep`.
"""
