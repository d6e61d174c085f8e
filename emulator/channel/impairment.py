"""What a key of a link is, described once, as a row of data beside its field in `link`.

The columns of traces, the descriptions in the JSON schema, the table in docs/channels.md, and whether a link and
its seed have an effect follow from the rows. How a stage carries a value out, and how it is read back, is decided in
`kernel.link_to_stages`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from pydantic import GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

Stage = Literal["gate", "bottleneck", "errors", "pipe"]
Quantity = Literal["time", "jitter", "rate", "size", "queue", "share", "switch", "rule"]

_TIMES = {"s": "s", "ms": "ms", "us": "us", "ns": "ns"}
_SIZES = {"B": "B", "kB": "kB"}
_COLUMN_UNITS: dict[Quantity, Mapping[str, str]] = {
    "time": _TIMES,
    "jitter": _TIMES,
    "rate": {"bps": "bit/s", "kbps": "kbit/s", "Mbps": "Mbit/s", "Gbps": "Gbit/s"},
    "size": _SIZES,
    "queue": {"packets": "packets", "BDP": "BDP", **_SIZES, **_TIMES},
}


@dataclass(frozen=True)
class Impairment:
    """One key of a link.

    `quantity` is the kind of its value: a `rule` has keys of its own or is a choice of words. `stage` is the stage of
    the kernel that carries it out. `meaning` and `example` are those of docs/channels.md. `drawn_by` is what makes
    random choices if the value is not the default: netem, or an eBPF program. `alone`: it has an effect without others.
    """

    quantity: Quantity
    stage: Stage
    meaning: str
    example: str
    drawn_by: Literal["netem", "program", ""] = ""
    alone: bool = True

    @property
    def column_units(self) -> Mapping[str, str]:
        """The units in the names of a trace's columns, and the written form of each; empty if columns have none."""
        return _COLUMN_UNITS.get(self.quantity, {})

    def __get_pydantic_json_schema__(self, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """Describe the key in the schema of profiles."""
        return handler(core) | {"description": f"{self.meaning[0].upper()}{self.meaning[1:]}."}
