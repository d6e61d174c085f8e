"""Files in YAML 1.2: the document, or one line that says where it is none."""

from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError

VALUE_ERRORS = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""What ruamel raises for a value that its tag or its shape does not let it make, such as `2001-99-99`."""


class NotYaml(ValueError):
    """No document could be read. The text names the file, and the line where there is one."""


def read_yaml(path: Path) -> Any:
    """The document in a file.

    Raises:
        NotYaml: no such file, not readable, not text, or not YAML.
    """
    yaml = YAML(typ="safe", pure=True)  # the C reader knows YAML 1.1 only, where `no` is false
    try:
        return yaml.load(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise NotYaml(f"{path}: there is no such file") from None
    except OSError as error:
        raise NotYaml(f"{path}: cannot be read: {error.strerror}") from error
    except MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise NotYaml(f"{path}, line {line}: is not YAML: {error.problem}") from error
    except YAMLError as error:
        raise NotYaml(f"{path}: is not YAML: {error}") from error
    except VALUE_ERRORS as error:
        raise NotYaml(f"{path}: is not YAML: a value in it cannot be read: {str(error)[:200]}") from error
