"""Is it fit for a sweep: the machine (doctor, what `owlt run` requires), an implementation (trial runs, their verdict);
and installing the third-party implementations that a machine is missing.

Printing belongs to `orchestrator.commands`.
"""
