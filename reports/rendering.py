"""Templates become HTML: values are escaped, and a name without a value is an error. Looks belong to report.css."""

from __future__ import annotations

from pathlib import Path
from types import CodeType

from jinja2 import BytecodeCache, Environment, FileSystemLoader, StrictUndefined
from jinja2.bccache import Bucket

TEMPLATES = Path(__file__).parent / "templates"


class CompiledTemplates(BytecodeCache):
    """Templates that this process has compiled, for the environments of further pages."""

    def __init__(self) -> None:
        self._codes: dict[tuple[str, str], CodeType | None] = {}

    def load_bytecode(self, bucket: Bucket) -> None:
        """Fill the bucket, if its template has been compiled from the same text."""
        bucket.code = self._codes.get((bucket.key, bucket.checksum))

    def dump_bytecode(self, bucket: Bucket) -> None:
        """Keep what was compiled."""
        self._codes[bucket.key, bucket.checksum] = bucket.code


COMPILED = CompiledTemplates()
"""Those of all pages, and of the dashboard."""


def new_environment() -> Environment:
    """The templates, for one page; filters can be added to it."""
    return Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        bytecode_cache=COMPILED,
        trim_blocks=True,
        lstrip_blocks=True,
    )
