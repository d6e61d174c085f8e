"""The dashboard: results directories shown in a browser while their sweeps run, by `owlt dashboard`.

Its pages read what runs leave and change nothing. `index` and `sweep_content` have the values that pages show and know
nothing of HTTP; `app` has the pages. Performing runs belongs to `orchestrator.sweep`, the finished report to
`reports`.
"""
