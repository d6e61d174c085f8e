"""Ports as profiles and command lines write them: 5000, "5000" or a range, "6000-6999".

`captures.frames.session` reads those of a record; `tests/unit/test_ports.py` keeps the two readers equal.
"""

import re

from owlt.inputs.mistake import unexpected

LOWEST, HIGHEST = 1, 65535


def parse_ports(written: object) -> range:
    """The ports of a number or a range. Raises Invalid if it is neither, or if a range ends before it begins."""
    match = re.fullmatch("([0-9]{1,5})(?:-([0-9]{1,5}))?", str(written)) if _may_be_ports(written) else None
    first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
    if not LOWEST <= first <= last <= HIGHEST:
        raise unexpected(f'a port from {LOWEST} to {HIGHEST}, or a range such as "6000-6999"')
    return range(first, last + 1)


def _may_be_ports(written: object) -> bool:
    return isinstance(written, (int, str)) and not isinstance(written, bool)
