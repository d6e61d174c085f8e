"""What is compared and how: metrics, box statistics, the grid of a sweep, and the panels of its figures.

Theory is closed forms, and what they expect of a cell. Drawing belongs to `reports.drawing`.
"""
