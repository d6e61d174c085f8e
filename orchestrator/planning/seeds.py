"""The seed of everything random in a sweep, each derived from the sweep's seed or the run's, and from its purpose.

A seed depends on nothing else, so a run has the same seed in a longer sweep, in any order and on any machine.
"""

import hashlib


def run_seed(sweep_seed: int, run_id: str) -> int:
    """The seed of a run: its permutation and repetition decide it, its place in the order does not."""
    return _derived_seed(sweep_seed, "run", run_id)


def order_seed(sweep_seed: int, slug: str, repetition: int) -> int:
    """The number that decides the place of a run among those of the same repetition; `slug` is its permutation's."""
    return _derived_seed(sweep_seed, "order", slug, repetition)


def guest_seed(sweep_seed: int, batch: int | str) -> int:
    """The seed of the guest of a batch of runs, by its index, or of all runs that start alike, by their slug."""
    return _derived_seed(sweep_seed, "guest", batch)


def certification_seed(sweep_seed: int, channel_key: str) -> int:
    """The seed of the guest that certifies a channel."""
    return _derived_seed(sweep_seed, "certification", channel_key)


def link_seed(run_seed_or_key: int | str, direction: str) -> int:
    """The seed of a link's random effects: of a run from its seed, during certification from the channel's key."""
    return _derived_seed(run_seed_or_key, direction)


def retry_seed(run_seed: int, number: int) -> int:
    """Another seed for a run, for the retry with this number, from 1."""
    return _derived_seed(run_seed, "retry", number)


def file_seed(sweep_seed: int, size_bytes: int) -> int:
    """The seed of the test file of a size, the same for all runs of a sweep."""
    return _derived_seed(sweep_seed, "file", size_bytes)


def _derived_seed(*parts: object) -> int:
    """A 31-bit seed that depends on every part and on nothing else."""
    text = "\x1f".join(str(part) for part in parts)
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big") >> 1
