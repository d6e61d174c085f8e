"""Is it fit for a sweep: the machine (doctor, what `owlt run` requires), an implementation (trial runs, their verdict).

Printing belongs to `orchestrator.commands`.
"""
