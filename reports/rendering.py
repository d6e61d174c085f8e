"""Templates become HTML: values are escaped, and a name without a value is an error. Looks belong to report.css.

Parts of a page that are too large for its first view are scripts beside the page, each of which adds one part: a page
that is opened from a folder may load scripts from there, and no other data. The script of the page, report.js, loads
each when it comes into view.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from jinja2 import Environment, FileSystemBytecodeCache, FileSystemLoader, StrictUndefined
from jinja2.bccache import Bucket
from markupsafe import Markup

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


LATER_LETTERS = 150_000
"""A part with more is not in the page itself."""
SCRIPT = ".js"


@dataclass
class Parts:
    """The parts of a page that were found too large; their scripts are written to `directory`."""

    directory: Path
    _scripts: dict[str, str] = field(default_factory=dict)

    def later(self, name: str, table: str, caller: Callable[[], Markup]) -> Markup:
        """A part of a template (`{% call later("measures", "statistics.csv") %}`), or its placeholder until it is
        loaded: a link to the file `table` with the same numbers."""
        part = caller()
        if len(part) <= LATER_LETTERS:
            return part
        self._scripts[name] = script("part", name, part)
        stand_in = Markup(
            '<p class="later" id="part-{0}" data-script="{1}/{0}.js">A script loads it when it is scrolled into view. '
            'The same numbers: <a href="{2}">{2}</a></p>'
        )
        return stand_in.format(name, self.directory.name, table)

    def later_rows(
        self, name: str, is_only: bool, run_ids: Sequence[str], columns: int, caller: Callable[[], Markup]
    ) -> Markup:
        """Rows of a table, one for each run, as its body; unless `is_only`, their placeholder."""
        rows = caller()
        if is_only:
            return Markup("<tbody>{}</tbody>").format(rows)
        self._scripts[name] = script("part", name, rows)
        stand_in = Markup(
            '<tbody class="later" id="part-{0}" data-script="{1}/{0}.js" data-runs="{2}">'
            '<tr><td colspan="{3}">{4} runs, from {5} to {6}</td></tr></tbody>'
        )
        return stand_in.format(
            name, self.directory.name, " ".join(run_ids), columns, len(run_ids), run_ids[0], run_ids[-1]
        )

    def write(self) -> None:
        """Write the scripts, if there are any. Raises OSError."""
        if self._scripts:
            self.directory.mkdir()
        for name, text in self._scripts.items():
            (self.directory / f"{name}{SCRIPT}").write_text(text)


def script(function: str, name: str, html: str) -> str:
    """A script that gives the page's function the name of a part and the part itself."""
    return f"owlt.{function}({_literal(name)}, {_literal(html)})\n"


def is_script(text: str) -> bool:
    """Whether a text has the form of a script from `script`: a call with two texts, which can do nothing else."""
    match = re.fullmatch(r"owlt\.(?:drawing|part)\((.*)\)\n", text)
    try:
        arguments = json.loads(f"[{match[1]}]") if match else ()
    except ValueError:
        return False
    return [type(each) for each in arguments] == [str, str]


def page_script() -> str:
    """The text of the page's script element, for a server that allows scripts by their digest."""
    element = new_environment().get_template("script.html").render().strip()
    return element.removeprefix("<script>").removesuffix("</script>")


def _literal(text: str) -> str:
    """The text as a value of JavaScript."""
    return json.dumps(text, ensure_ascii=False).replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
