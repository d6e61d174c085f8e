"""One run, phase by phase: staging, channel, certification, captures, launch, judging, record.

Many runs belong to `orchestrator.sweep`.
"""
