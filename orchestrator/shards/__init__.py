"""One sweep on several machines: the runs of a shard, and the results of all shards merged into one directory.

Performing a shard belongs to `orchestrator.sweeping`, which gets its runs as a selection.
"""
