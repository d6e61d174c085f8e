"""What is wrong with a text that is not YAML, in words of what was written: a line, and what to do next."""

import re
from collections.abc import Callable

from ruamel.yaml import YAML
from ruamel.yaml.constructor import DuplicateKeyError
from ruamel.yaml.error import MarkedYAMLError
from ruamel.yaml.nodes import MappingNode, Node, SequenceNode

_QUOTES = "put quotes around the whole text"
_OPENING = {"mapping": ("{", "}"), "sequence": ("[", "]")}


def syntax_mistake(text: str, error: MarkedYAMLError) -> tuple[int, str]:
    """The line of the mistake, from 1, and what it is."""
    line = error.problem_mark.line + 1 if error.problem_mark else 1
    if isinstance(error, DuplicateKeyError):
        return line, _twice(text, error)
    context, problem = error.context or "", error.problem or ""
    opened = error.context_mark.line + 1 if error.context_mark else line
    if (flow := re.fullmatch("while parsing a flow (mapping|sequence)", context)) and problem.startswith(
        "expected ','"
    ):
        opening, closing = _OPENING[flow[1]]
        if opened == line:
            return line, f"is not YAML: between {opening} and {closing} a comma is missing, or the {closing} itself"
        return opened, f"is not YAML: the {opening} here is not closed; looked for {closing} up to line {line}"
    if "quoted scalar" in context and problem == "found unexpected end of stream":
        return opened, "is not YAML: the quotes that open here are not closed"
    if "simple key" in context:
        return opened, "is not YAML: has no colon; wanted KEY: VALUE"
    words = next((words(found) for form, words in _WORDS if (found := re.search(form, problem))), None)
    return line, f"is not YAML: {words or problem}"


_WORDS: list[tuple[str, Callable[[re.Match[str]], str]]] = [
    (r"^found character '\\t'", lambda _: "has a tab; write spaces in its place"),
    (r"^found character '(.)'", lambda found: f"a text may not begin with {found[1]}; {_QUOTES}"),
    (
        "^mapping values are not allowed",
        lambda _: (
            f"a colon with a space after it begins a value; if it belongs to the text, {_QUOTES}; "
            "else give the line the indentation of its neighbours"
        ),
    ),
    ("^found undefined alias", lambda _: f"a text that begins with * names an anchor; {_QUOTES}"),
    ("^could not determine a constructor for the tag", lambda _: f"a text that begins with ! is a tag; {_QUOTES}"),
    ("^found unhashable key", lambda _: 'braces need quotes: write "{name}"'),
    ("^found unknown escape", lambda _: r"in double quotes \ begins an escape; use single quotes, or write \\"),
    ("^but found another document", lambda _: "has a second document after ---; wanted one"),
    (
        "^expected <block end>, but found '<scalar>'",
        lambda _: f'text goes on after a closing quote or brace; {_QUOTES}, as in "{{run_dir}}/x"',
    ),
    (
        "^expected <block end>, but found '[]}]'",
        lambda _: f"closes a bracket that is not open; take it away, or {_QUOTES}",
    ),
    (
        "^expected <block end>",
        lambda _: "stands further to the left or right than the keys that it belongs to; indent it as they are",
    ),
    ("^expected the node content, but found '<stream end>'", lambda _: "a bracket is not closed before the end"),
    (
        "^expected the node content, but found '(.*)'",
        lambda found: f"has {found[1]} where a value is wanted; {_QUOTES}",
    ),
    ("^expected chomping", lambda _: f"after > or | a text begins in the next line; if it belongs to it, {_QUOTES}"),
    ("^sequence entries are not allowed", lambda _: f"a text may not begin with a dash and a space; {_QUOTES}"),
]


def _twice(text: str, error: DuplicateKeyError) -> str:
    """Which key is there twice, and where it was before."""
    mark = error.problem_mark
    pending: list[Node] = [YAML(typ="safe", pure=True).compose(text)]
    seen = set()  # an anchor may be in itself
    while pending:
        node = pending.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, SequenceNode):
            pending += node.value
        if not isinstance(node, MappingNode):
            continue
        for key, value in node.value:
            if mark and key.start_mark.index == mark.index:
                first = next(other for other, _ in node.value if other.value == key.value)
                return f"{key.value}: is there twice, first in line {first.start_mark.line + 1}; leave one out"
            pending.append(value)
    return "a key is there twice; leave one out"
