"""What is compared and how: metrics, box statistics, the grid of a sweep, and the panels of its figures.

Drawing belongs to `reports.figures`.
"""
