"""How a sweep's file is written: quantities with units, axes, ranges, and rules that add or remove points of the grid.

The sweep itself, and the points that it has, belong to `orchestrator.planning`.
"""
