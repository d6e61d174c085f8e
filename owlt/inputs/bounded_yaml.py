"""YAML 1.2, read as plain values. The number of values that aliases and merges repeat is limited."""

from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.composer import Composer
from ruamel.yaml.constructor import SafeConstructor
from ruamel.yaml.nodes import MappingNode, Node, SequenceNode

from owlt.inputs.mistake import Invalid, Mistake, Place

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
