"""The tidy table of a sweep: a row for each planned run, every column documented; files that other programs read.

Statistics over its rows belong to `reports.comparison`.
"""
