"""Segment requests, which a NAK lists: pairs of offsets, start and end. (0, 0) asks for the metadata."""

from collections.abc import Callable, Sequence

Request = tuple[int, int]


def is_answerable(requests: Sequence[Request], file_bytes: int) -> bool:
    """Whether a file has what is asked for, and no more is asked for than all of it: an engine would make it all."""
    within = all(0 <= start <= end <= file_bytes for start, end in requests)
    return within and sum(end - start for start, end in requests) <= file_bytes


def in_segments(requests: Sequence[Request], segment_bytes: int) -> list[Request]:
    """The same bytes, in requests none of which is longer than a segment."""
    split: list[Request] = []
    for begin, end in requests:
        starts = range(begin, end, segment_bytes)
        split += [(start, min(start + segment_bytes, end)) for start in starts] or [(begin, end)]
    return split


def without_waiting(requests: Sequence[Request], segment_bytes: int, waits: Callable[[int], bool]) -> list[Request]:
    """The requests, each without the segments at its ends that wait to be sent, by their offset; no request is split,
    and none is left where all of it waits."""
    left: list[Request] = []
    for begin, end in requests:
        wanted = [start for start in range(begin, end, segment_bytes) if not waits(start)]
        if wanted:
            left.append((wanted[0], min(wanted[-1] + segment_bytes, end)))
        elif begin == end:
            left.append((begin, end))
    return left
