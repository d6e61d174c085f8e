"""Files in YAML 1.2: the document, or one mistake that names the line."""

from copy import deepcopy
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import Node
from ruamel.yaml.reader import ReaderError

from owlt.inputs.bounded_yaml import load_with_nodes
from owlt.inputs.mistake import Invalid, Mistake, Place
from owlt.inputs.positions import Positions
from owlt.inputs.syntax_errors import syntax_mistake

MOST_BYTES = 64 * 2**20
_READ_BYTES = 2**20
_MOST_KEPT_CHARACTERS = 2**14
"""Of a text whose document is kept: profiles are shorter, and one command reads the same profile several times."""
VALUE_ERRORS = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""What ruamel raises for a value that its tag or its shape does not let it make, such as `2001-99-99`."""


class NotYaml(Invalid):
    """No document could be read from a file."""


@dataclass(frozen=True)
class Document:
    """What a YAML file holds, and where in the file each key is."""

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
