"""Figures drawn: those of a report over the sweep, one for a paper (`owlt figure`), and a channel.

`link_boxes` draws the first screen of a report, `sweep_figures` the figures below it: in panels of boxes, or, by
`line_figures`, with a line for each implementation; `boxes` has the shapes of one implementation.

Which boxes a figure has belongs to `reports.comparison`, the figures of one run to `reports.sessions`.
"""
