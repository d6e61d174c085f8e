"""The dashboard: results directories shown in a browser while their sweeps run, by `owlt dashboard`.

Its pages read what runs leave and change nothing. Performing runs belongs to `orchestrator.sweep`, the finished
report to `reports`.
"""
