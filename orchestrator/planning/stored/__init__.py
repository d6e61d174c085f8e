"""The plan in a results directory: compared with a new one, and replaced by it if all recorded runs stay as they are.

Making a plan belongs to `orchestrator.planning`, reading records to `orchestrator.results`.
"""
