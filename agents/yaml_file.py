"""Files in YAML 1.2: the document, or one line that says where it is none."""

from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.reader import ReaderError

from agents.yaml_syntax import syntax_mistake

VALUE_ERRORS = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""What ruamel raises for a value that its tag or its shape does not let it make, such as `2001-99-99`."""


class NotYaml(ValueError):
    """No document could be read. The text names the file, and the line where there is one."""


def read_yaml(path: Path) -> Any:
    """The document in a file.

    Raises:
        NotYaml: no such file, not readable, not text, or not YAML.
    """
    return parse_yaml(read_text(path), str(path))


def read_text(path: Path) -> str:
    """What is in a file of UTF-8 text.

    Raises:
        NotYaml: no such file, not readable, or not text.
    """
    try:
        octets = path.read_bytes()
        return octets.decode("utf-8")
    except FileNotFoundError:
        raise NotYaml(f"{path}: there is no such file") from None
    except OSError as error:
        raise NotYaml(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        line = octets.count(b"\n", 0, error.start) + 1
        raise NotYaml(
            f"{path}:{line}: is not UTF-8 text: has the byte 0x{octets[error.start]:02x}; save it as UTF-8"
        ) from error


def parse_yaml(text: str, file: str) -> Any:
    """The document that `text` is; `file` names it in what is raised.

    Raises:
        NotYaml: it is not YAML.
    """
    yaml = YAML(typ="safe", pure=True)  # the C reader knows YAML 1.1 only, where `no` is false
    try:
        return yaml.load(text)
    except MarkedYAMLError as error:
        line, mistake = syntax_mistake(text, error)
        raise NotYaml(f"{file}:{line}: {mistake}") from error
    except ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise NotYaml(f"{file}:{line}: is not YAML: has a character that is none of text; take it away") from error
    except YAMLError as error:
        raise NotYaml(f"{file}: is not YAML: {error}") from error
    except VALUE_ERRORS as error:
        raise NotYaml(f"{file}: is not YAML: a value in it cannot be read: {str(error)[:200]}") from error
