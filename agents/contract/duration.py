"""How an implementation sends for a given time instead of a file, and how its receiver reports what it received."""

import re
from typing import Annotated

from pydantic import AfterValidator, Field

from owlt.agents.contract.side import Command, Pattern, Value
from owlt.inputs.mistake import unexpected

OF_A_FILE = frozenset({"file", "file_name", "file_dir", "received_file", "received_dir", "file_size_bytes"})
"""The placeholders that have no value if no file is sent."""
OF_A_DURATION = frozenset({"duration_s"})
"""Those that have no value if a file is sent."""


def _check_one_group(pattern: str) -> str:
    if re.compile(pattern).groups != 1:
        raise unexpected("a regular expression with one group, the number of bytes, such as 'received_bytes=([0-9]+)'")
    return pattern


class Duration(Value):
    """The commands of both sides in a run that sends for a given time; everything else is as for a file."""

    sender: Annotated[Command, Field(description="the sender's command in such a run; {duration_s} is the time")]
    receiver: Annotated[Command, Field(description="the receiver's command in such a run; it stores no file")]
    received_bytes: Annotated[
        Pattern,
        AfterValidator(_check_one_group),
        Field(
            description="regular expression for the output of the receiver, with one group: the number of bytes of "
            "data that it received; the last match counts"
        ),
    ]

    def reported_bytes(self, output: str) -> int | None:
        """The number of bytes that a receiver with this output received; None if it does not report one."""
        numbers = [match[1] for match in re.finditer(self.received_bytes, output, re.MULTILINE)]
        return int(numbers[-1]) if numbers and numbers[-1].isdecimal() else None
