"""`owlt channel`: the channels that come with owlt, channels computed from orbits, and the channel of an emulator.

`command` has the subcommands, `computing` those that compute a channel; `computed_files` writes its files. `values` and
`arguments` read what is given on the command line, `text` describes a channel, its counters and its certificate as rows
of tables, `curves` computes what a figure of a channel shows. Emulating a channel belongs to `emulator`.
"""
