"""The commands for the runs of a results directory: `owlt answer`, `owlt figure`, `owlt replay`.

Commands that perform or report whole sweeps belong to the folder above.
"""
