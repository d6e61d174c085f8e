"""Files in YAML 1.2: the document and the lines of its keys, or one mistake that names the line.

Syntax errors are explained in terms of the text, with a fix. The number of values that aliases and merges repeat is
limited.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.composer import Composer
from ruamel.yaml.constructor import DuplicateKeyError, SafeConstructor
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, SequenceNode
from ruamel.yaml.reader import ReaderError

from owlt.inputs.mistake import Invalid, Key, Mistake, Place

MOST_REPEATED = 100_000
"""Values that aliases repeat in a document. A piece of text counts as one for each 16 characters."""


def new_yaml() -> YAML:
    """A reader in Python: the reader in C supports only YAML 1.1, where `no` is false.

    It raises Invalid for a document that aliases make too large (the "billion laughs"), before it creates values.
    """
    yaml = YAML(typ="safe", pure=True)
    yaml.Composer = _BoundedComposer
    return yaml


def load_with_nodes(text: str) -> tuple[Any, Node | None]:
    """The value of a document, and its node, which has the lines of its keys. The text is parsed once."""
    yaml = new_yaml()
    yaml.Constructor = _KeepingConstructor
    value = yaml.load(text)
    return value, yaml.constructor.root


class _KeepingConstructor(SafeConstructor):
    """Constructs the value of a document, and keeps the node from which it did."""

    root: Node | None = None

    def get_single_data(self) -> Any:
        self.root = self.composer.get_single_node()
        return None if self.root is None else self.construct_document(self.root)


class _BoundedComposer(Composer):
    """Composes the nodes of a document, and refuses too many repeated nodes."""

    def get_single_node(self) -> Node | None:
        node: Node | None = super().get_single_node()
        if node is not None:
            _require_few_repeated(node)
        return node


def _require_few_repeated(root: Node) -> None:
    """Raise Invalid for a document that is too large when its aliases are replaced by their values."""
    sizes: dict[int, int] = {}
    own, open_nodes, pending = 0, set[int](), [root]
    while pending:
        node = pending[-1]
        parts = _parts(node)
        if id(node) in sizes:
            pending.pop()
        elif id(node) not in open_nodes:
            open_nodes.add(id(node))
            own += _size(node)
            if any(id(part) in open_nodes and id(part) not in sizes for part in parts):
                raise _mistake(node, "has an alias inside its own anchor")
            pending += [part for part in parts if id(part) not in sizes]
        else:
            sizes[id(node)] = _size(node) + sum(sizes[id(part)] for part in parts)
            pending.pop()
            if sizes[id(node)] > own + MOST_REPEATED:
                raise _mistake(node, "has aliases that repeat too many values")


def _parts(node: Node) -> list[Node]:
    if isinstance(node, MappingNode):
        return [part for pair in node.value for part in pair]
    return node.value if isinstance(node, SequenceNode) else []


def _size(node: Node) -> int:
    return 1 + (len(node.value) // 16 if isinstance(node.value, str) else 0)


def _mistake(node: Node, problem: str) -> Invalid:
    expected = f"aliases that repeat at most {MOST_REPEATED:,} values in total"
    return Invalid(Mistake(problem, expected, "write the values out", Place(line=node.start_mark.line + 1)))


_QUOTES = "put quotes around the whole text"
_BRACKETS = {"mapping": ("{", "}"), "sequence": ("[", "]")}


def syntax_mistake(text: str, error: MarkedYAMLError) -> Mistake:
    """The mistake in a text that the YAML reader refused, with its line."""
    if isinstance(error, DuplicateKeyError):
        return _duplicate(text, error)
    context, problem = error.context or "", error.problem or ""
    line = error.problem_mark.line + 1 if error.problem_mark else 1
    opened = error.context_mark.line + 1 if error.context_mark else line
    if (flow := re.fullmatch("while parsing a flow (mapping|sequence)", context)) and problem.startswith(
        "expected ','"
    ):
        opening, closing = _BRACKETS[flow[1]]
        if opened == line:
            missing = f"between {opening} and {closing} a comma is missing, or the {closing} itself"
            return _invalid(line, missing)
        return _invalid(opened, f"the {opening} here is not closed: there is no {closing} up to line {line}")
    if "quoted scalar" in context and problem == "found unexpected end of stream":
        return _invalid(opened, "the quotes that open here are not closed")
    if "simple key" in context:
        return _invalid(opened, "has no colon", expected="KEY: VALUE")
    for form, cause, fix in _CAUSES:
        if match := re.search(form, problem):
            return _invalid(line, cause(match) if callable(cause) else cause, fix=fix)
    return _invalid(line, problem)


def _invalid(line: int, cause: str, *, expected: str = "", fix: str = "") -> Mistake:
    return Mistake(f"not valid YAML: {cause}", expected, fix, Place(line=line))


_CAUSES: list[tuple[str, str | Callable[[re.Match[str]], str], str]] = [
    (r"^found character '\\t'", "has a tab", "write spaces in its place"),
    (r"^found character '(.)'", lambda match: f"a string may not begin with {match[1]}", _QUOTES),
    (
        "^mapping values are not allowed",
        "a colon with a space after it begins a value",
        f"if it belongs to the text, {_QUOTES}; otherwise indent the line like its neighbours",
    ),
    ("^found undefined alias", "a string that begins with * names an anchor", _QUOTES),
    ("^could not determine a constructor for the tag", "a string that begins with ! is a tag", _QUOTES),
    ("^found unhashable key", "braces need quotes", 'write "{name}"'),
    ("^found unknown escape", r"in double quotes \ begins an escape", r"use single quotes, or write \\"),
    ("^but found another document", "has a second document after ---", "remove it"),
    (
        "^expected <block end>, but found '<scalar>'",
        "text follows a closing quote or brace",
        f'{_QUOTES}, as in "{{run_dir}}/x"',
    ),
    (
        "^expected <block end>, but found '[]}]'",
        "closes a bracket that is not open",
        f"remove it, or {_QUOTES}",
    ),
    (
        "^expected <block end>",
        "is further to the left or right than the keys that it belongs to",
        "indent it as those keys",
    ),
    ("^expected the node content, but found '<stream end>'", "a bracket is not closed before the end", ""),
    (
        "^expected the node content, but found '(.*)'",
        lambda match: f"has {match[1]} where a value is expected",
        _QUOTES,
    ),
    ("^expected chomping", "after > or | a string begins on the next line", f"if it belongs to it, {_QUOTES}"),
    ("^sequence entries are not allowed", "a string may not begin with a dash and a space", _QUOTES),
]
"""Patterns of ruamel's messages, each with the cause and how to fix it."""


def _duplicate(text: str, error: DuplicateKeyError) -> Mistake:
    """The key that appears twice, and where it was before."""
    mark = error.problem_mark
    pending: list[Node] = [new_yaml().compose(text)]
    visited = set()  # an anchor may be in itself
    while pending:
        node = pending.pop()
        if id(node) in visited:
            continue
        visited.add(id(node))
        if isinstance(node, SequenceNode):
            pending += node.value
        if not isinstance(node, MappingNode):
            continue
        for key, value in node.value:
            if mark and key.start_mark.index == mark.index:
                first = next(other for other, _ in node.value if other.value == key.value)
                problem = f"appears twice, first on line {first.start_mark.line + 1}"
                return Mistake(problem, fix="remove one", where=Place(line=mark.line + 1, key=(str(key.value),)))
            pending.append(value)
    return Mistake("a key appears twice", fix="remove one", where=Place(line=mark.line + 1 if mark else 1))


MOST_BYTES = 64 * 2**20
_READ_BYTES = 2**20
_MOST_KEPT_CHARACTERS = 2**14
"""The longest text whose document is cached: profiles are shorter, and one command reads the same profile several
times."""
VALUE_ERRORS = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""The exceptions of ruamel for a value that it cannot convert, such as `2001-99-99`."""


class NotYaml(Invalid):
    """No document could be read from a file."""


class Positions:
    """The lines of a document's keys. `root` is its node, None if it is empty."""

    def __init__(self, root: Node | None, file: str) -> None:
        self._root = root
        self._file = file

    def line(self, key: Key) -> int:
        """The line of a key; for a missing key, the line of the mapping that would contain it."""
        return self.deepest(key)[1]

    def deepest(self, key: Key) -> tuple[int, int]:
        """How many parts of a key are in the document, and the line of the last of them."""
        node, line = self._root, self._root.start_mark.line + 1 if self._root else 1
        for depth, part in enumerate(key):
            step = _step(node, part)
            if step is None:
                return depth, line
            line, node = step
        return len(key), line

    def place(self, key: Key) -> Place:
        """FILE:LINE: KEY."""
        return Place(self._file, self.line(key), key)

    def located(self, mistake: Mistake) -> Mistake:
        """A mistake with the file and the line of its key."""
        return mistake.at(self.place(mistake.where.key))


def _step(node: Node | None, part: str | int) -> tuple[int, Node] | None:
    """One step along a key: the line and the node it leads to."""
    if isinstance(node, MappingNode):
        return next(((key.start_mark.line + 1, value) for key, value in node.value if str(key.value) == part), None)
    if isinstance(node, SequenceNode) and isinstance(part, int) and part < len(node.value):
        return node.value[part].start_mark.line + 1, node.value[part]
    return None


@dataclass(frozen=True)
class Document:
    """The content of a YAML file, and the position of each key."""

    value: Any
    positions: Positions


def read_yaml(path: Path) -> Document:
    """The document in a file.

    Raises:
        NotYaml: no such file, not readable, not text, or not YAML.
    """
    return parse_yaml(read_text(path), str(path))


def read_text(path: Path) -> str:
    """The text of a UTF-8 file.

    Raises:
        NotYaml: no such file, not readable, or not text.
    """
    try:
        with path.open("rb") as file:
            octets = bytearray()
            while len(octets) <= MOST_BYTES and (more := file.read(_READ_BYTES)):  # read() allocates its bound
                octets += more
        if len(octets) > MOST_BYTES:
            raise NotYaml(Mistake("is too large", f"at most {MOST_BYTES // 2**20} MiB", where=Place(str(path))))
        return octets.decode("utf-8")
    except FileNotFoundError:
        raise NotYaml(Mistake("there is no such file", where=Place(str(path)))) from None
    except OSError as error:
        raise NotYaml(Mistake(f"cannot be read: {error.strerror}", where=Place(str(path)))) from error
    except UnicodeDecodeError as error:
        where = Place(str(path), octets.count(b"\n", 0, error.start) + 1)
        problem = f"not UTF-8 text: has the byte 0x{octets[error.start]:02x}"
        raise NotYaml(Mistake(problem, fix="save it as UTF-8", where=where)) from error


def parse_yaml(text: str, file: str) -> Document:
    """The document in `text`; `file` names it in mistakes.

    Raises:
        NotYaml: it is not YAML.
    """
    try:
        if len(text) > _MOST_KEPT_CHARACTERS:
            value, root = load_with_nodes(text)
            return Document(value, Positions(root, file))
        kept, root = _kept(text)
        return Document(deepcopy(kept), Positions(root, file))
    except Invalid as error:
        raise NotYaml(*(mistake.at(Place(file, mistake.where.line)) for mistake in error.mistakes)) from None
    except MarkedYAMLError as error:
        mistake = syntax_mistake(text, error)
        raise NotYaml(mistake.at(Place(file, mistake.where.line, mistake.where.key))) from error
    except ReaderError as error:
        where = Place(file, text.count("\n", 0, error.position) + 1)
        problem = "not valid YAML: has a character that is not text"
        raise NotYaml(Mistake(problem, fix="remove it", where=where)) from error
    except YAMLError as error:
        raise NotYaml(Mistake(f"not valid YAML: {error}", where=Place(file))) from error
    except VALUE_ERRORS as error:
        problem = f"not valid YAML: a value in it cannot be read: {str(error)[:200]}"
        raise NotYaml(Mistake(problem, where=Place(file))) from error


@lru_cache(maxsize=128)
def _kept(text: str) -> tuple[Any, Node | None]:
    return load_with_nodes(text)
