"""The description of a key of a link, as a row of data beside its field in `link`.

The columns of traces and of `runs.csv` (and so the names of a filter), the descriptions in the JSON schema, the table
in docs/channels.md, the words of `owlt channel` and of reports, whether theory covers the link, and whether a link and
its seed have an effect follow from the rows. `kernel.link_to_stages` and the module of the stage apply a value and read
it back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

Stage = Literal["gate", "bottleneck", "errors", "pipe"]
Quantity = Literal["time", "jitter", "rate", "size", "queue", "share", "switch", "rule"]

_TIMES = {"s": "s", "ms": "ms", "us": "us", "ns": "ns"}
_SIZES = {"B": "B", "kB": "kB"}
_TRACE_UNITS: dict[Quantity, Mapping[str, str]] = {
    "time": _TIMES,
    "jitter": _TIMES,
    "rate": {"bps": "bit/s", "kbps": "kbit/s", "Mbps": "Mbit/s", "Gbps": "Gbit/s"},
    "size": _SIZES,
    "queue": {"packets": "packets", "BDP": "BDP", **_SIZES, **_TIMES},
}
CellKind = Literal["text", "integer", "number", "truth"]
_CELLS: dict[Quantity, tuple[CellKind, str]] = {
    "time": ("integer", "ns"),
    "rate": ("number", "bit/s"),
    "size": ("integer", "bytes"),
    "share": ("number", "probability"),
    "switch": ("truth", ""),
}
"""The type and the unit of the cells in `runs.csv`; all others are text without a unit."""


@dataclass(frozen=True)
class RunColumn:
    """The column of a key in `runs.csv`, where it differs from what follows from the key.

    `meaning` is that of the row if it is empty, `name` that of the field. `with_default`: a link without the key has
    the default value in its cell; otherwise the cell is empty.
    """

    meaning: str = ""
    name: str = ""
    with_default: bool = True


@dataclass(frozen=True)
class Impairment:
    """One key of a link.

    `quantity` is the kind of its value: a `rule` has keys of its own or is a choice of words. `stage` is the stage of
    the kernel that carries it out. `meaning` and `example` are those of docs/channels.md. `drawn_by` is what makes
    random choices if the value is not the default: netem, or an eBPF program. `alone`: it has an effect without others.

    `label` is how the key is named where a value is shown; keys with one label are shown together. `words` is a written
    value after the label, made with a function that writes a share; without it the value is shown as it is written.
    `column` is that of `runs.csv`; None: it has none. `in_theory`: the theories of transfer times cover any value.
    `certified_by` is the module of `emulator.certification` that measures it; "": the measurements of every link do.
    """

    quantity: Quantity
    stage: Stage
    meaning: str
    example: str
    label: str
    drawn_by: Literal["netem", "program", ""] = ""
    alone: bool = True
    words: Callable[[Any, Callable[[float], str]], str] | None = None
    column: RunColumn | None = RunColumn()
    in_theory: bool = False
    certified_by: str = ""

    @property
    def trace_units(self) -> Mapping[str, str]:
        """The units in the names of a trace's columns, and the written form of each; empty if columns have none."""
        return _TRACE_UNITS.get(self.quantity, {})

    @property
    def cell_kind(self) -> CellKind:
        """The type of the cells in `runs.csv`."""
        return _CELLS.get(self.quantity, ("text", ""))[0]

    @property
    def cell_unit(self) -> str:
        """The unit of the cells in `runs.csv`; "" if they have none."""
        return _CELLS.get(self.quantity, ("text", ""))[1]

    def text(self, written: Any, share: Callable[[float], str] = "{:g}".format) -> str:
        """A written value, which is not the default, in words after the label; `share` writes a share."""
        if self.words is not None:
            return self.words(written, share)
        if isinstance(written, Mapping):
            return ", ".join(f"{key.replace('_', ' ')} {_plain(value, share)}" for key, value in written.items())
        return _plain(written, share)

    def __get_pydantic_json_schema__(self, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """Describe the key in the schema of profiles."""
        return handler(core) | {"description": f"{self.meaning[0].upper()}{self.meaning[1:]}."}


def _plain(value: Any, share: Callable[[float], str]) -> str:
    return share(value) if isinstance(value, float) else str(value)
