"""Lines of the keys of a YAML file."""

import pytest

from owlt.inputs.mistake import Key, Mistake, Place
from owlt.inputs.reader import parse_yaml

TEXT = """# a comment
name: a
sender:
  command:
    - run
    - "{file}"
  sysctls: &sysctls
    net.ipv4.tcp_rmem: x
    net.ipv4: y
receiver:
  command: [take,
            it]
  sysctls: *sysctls
known_limits:
  - why: it crashes
  - {why: twice,
     file_bytes_above: 5}
"""


@pytest.mark.parametrize(
    ("key", "line"),
    [
        (("name",), 2),
        (("sender",), 3),
        (("sender", "command"), 4),
        (("sender", "command", 1), 6),
        (("sender", "sysctls", "net.ipv4.tcp_rmem"), 8),
        (("sender", "sysctls", "net.ipv4"), 9),
        (("receiver", "command", 1), 12),
        (("receiver", "sysctls", "net.ipv4.tcp_rmem"), 8),
        (("known_limits", 0, "why"), 15),
        (("known_limits", 1, "file_bytes_above"), 17),
    ],
)
def test_a_key_is_found_in_its_line(key: Key, line: int) -> None:
    assert parse_yaml(TEXT, "a.yaml").positions.line(key) == line


@pytest.mark.parametrize(
    ("key", "line"),
    [(("title",), 2), (("sender", "ready"), 3), (("sender", "command", 9), 4), (("known_limits", 1, "mend"), 16)],
)
def test_a_missing_key_has_the_line_of_what_would_hold_it(key: Key, line: int) -> None:
    assert parse_yaml(TEXT, "a.yaml").positions.line(key) == line


def test_a_merged_key_has_the_line_where_it_is_written() -> None:
    text = "one: &one\n  x: 1\ntwo:\n  <<: *one\n  y: 2\n"

    assert [parse_yaml(text, "a.yaml").positions.line(("two", key)) for key in ("x", "y")] == [2, 5]


def test_an_empty_file_has_one_line() -> None:
    assert parse_yaml("", "a.yaml").positions.line(("name",)) == 1


def test_a_located_mistake_has_the_file_and_the_line_of_its_key() -> None:
    mistake = Mistake("got 'a'", "b", where=Place(key=("sender", "command", 1)))

    assert parse_yaml(TEXT, "a.yaml").positions.located(mistake).where == Place("a.yaml", 6, ("sender", "command", 1))
