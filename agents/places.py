"""Where the keys of a YAML file stand: for each its line, so that a mistake is told as FILE:LINE: KEY: ..."""

from ruamel.yaml import YAML
from ruamel.yaml.nodes import MappingNode, Node, SequenceNode


class Places:
    """The lines of a document's keys. `text` has to be YAML that could be read."""

    def __init__(self, text: str) -> None:
        self._root = YAML(typ="safe", pure=True).compose(text)

    def line(self, key: str) -> int:
        """The line of a key such as sender.command[2]; of one that is not there, that of what it would be in."""
        node, rest = self._root, key
        line = node.start_mark.line + 1 if node else 1
        while node and rest:
            found = _below(node, rest)
            if found is None:
                break
            mark, node, rest = found
            line = mark + 1
        return line


def place(file: str, places: Places, mistake: str) -> str:
    """A mistake of the form "KEY: got ..." with the file and the line of its key in front."""
    return f"{file}:{places.line(mistake.partition(': ')[0])}: {mistake}"


def _below(node: Node, rest: str) -> tuple[int, Node, str] | None:
    """One step along a key: the line where it leads, what is there, and what is left of the key.

    Keys of a file may hold dots, as net.ipv4.tcp_rmem does: the longest that fits is taken.
    """
    if isinstance(node, MappingNode):
        fitting = [(key, value) for key, value in node.value if _begins(rest, str(key.value))]
        if not fitting:
            return None
        key, value = max(fitting, key=lambda pair: len(str(pair[0].value)))
        return key.start_mark.line, value, rest[len(str(key.value)) :].removeprefix(".")
    if isinstance(node, SequenceNode) and rest.startswith("["):
        number, _, after = rest[1:].partition("]")
        if number.isdecimal() and int(number) < len(node.value):
            value = node.value[int(number)]
            return value.start_mark.line, value, after.removeprefix(".")
    return None


def _begins(rest: str, key: str) -> bool:
    return rest == key or rest.startswith((f"{key}.", f"{key}["))
