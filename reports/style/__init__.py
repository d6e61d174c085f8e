"""Units as the field writes them, colours and type.

What a run is belongs to `reports.results`.
"""
