"""Templates become HTML: values are escaped, and a name without a value is an error. Looks belong to report.css."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from jinja2 import Environment, FileSystemBytecodeCache, FileSystemLoader, StrictUndefined
from jinja2.bccache import Bucket

from owlt.installation import cache_directory

TEMPLATES = Path(__file__).parent / "templates"


class CompiledTemplates(FileSystemBytecodeCache):
    """Compiled templates in the user's cache: compiling takes longer than rendering a page. Without a cache that can be
    written, they are compiled again."""

    def __init__(self) -> None:
        super().__init__(str(cache_directory() / "templates"))

    def load_bytecode(self, bucket: Bucket) -> None:
        """Fill the bucket, if its template has been compiled from the same text."""
        with suppress(OSError):
            super().load_bytecode(bucket)

    def dump_bytecode(self, bucket: Bucket) -> None:
        """Keep what was compiled."""
        with suppress(OSError):
            Path(self.directory).mkdir(parents=True, exist_ok=True)
            super().dump_bytecode(bucket)


def new_environment() -> Environment:
    """The templates, for one page; filters can be added to it."""
    return Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        bytecode_cache=CompiledTemplates(),
        trim_blocks=True,
        lstrip_blocks=True,
    )
