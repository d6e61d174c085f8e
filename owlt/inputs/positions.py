"""The lines of the keys of a YAML file."""

from ruamel.yaml.nodes import MappingNode, Node, SequenceNode

from owlt.inputs.mistake import Key, Mistake, Place


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
