"""YAML that is none: the line, and what was written there, in plain words."""

from pathlib import Path

import pytest

from agents.yaml_file import NotYaml, parse_yaml, read_yaml


def refusal(text: str) -> str:
    """Why a text is refused."""
    with pytest.raises(NotYaml) as refused:
        parse_yaml(text, "a.yaml")
    return str(refused.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: 1\n\tb: 2\n", "a.yaml:2: is not YAML: has a tab; write spaces"),
        ("a: 1\nb: a file: over UDP\n", "a.yaml:2: is not YAML: a colon with a space after it begins a value; "),
        ("a:\n  b: {x: 1\nc: 3\n", "a.yaml:2: is not YAML: the { here is not closed; looked for } up to line 3"),
        ("a: [x, y\nb: 3\n", "a.yaml:1: is not YAML: the [ here is not closed; looked for ] up to line 2"),
        ('a: [x, "y" z]\n', "a.yaml:1: is not YAML: between [ and ] a comma is missing, or the ] itself"),
        ("a: 1\nb: [", "a.yaml:2: is not YAML: a bracket is not closed before the end"),
        ("a: [1]]\n", "a.yaml:1: is not YAML: closes a bracket that is not open"),
        ("a: }\n", "a.yaml:1: is not YAML: has } where a value is wanted; put quotes around"),
        ('a: "x\nb: 3\nc: 4\n', "a.yaml:1: is not YAML: the quotes that open here are not closed"),
        ("a: {run_dir}/x\n", "a.yaml:1: is not YAML: text goes on after a closing quote or brace; put quotes around"),
        ("a: {{ x }}\n", 'a.yaml:1: is not YAML: braces need quotes: write "{name}"'),
        ("a:\n  b: 1\n c: 2\n", "a.yaml:3: is not YAML: stands further to the left or right"),
        ("a: 1\nhello\nb: 2\n", "a.yaml:2: is not YAML: has no colon; wanted KEY: VALUE"),
        ("a: %x\n", "a.yaml:1: is not YAML: a text may not begin with %; put quotes around the whole text"),
        ("a: *x\n", "a.yaml:1: is not YAML: a text that begins with * names an anchor; put quotes"),
        ("a: !x y\n", "a.yaml:1: is not YAML: a text that begins with ! is a tag; put quotes"),
        ("a: - x\n", "a.yaml:1: is not YAML: a text may not begin with a dash and a space; put quotes"),
        ("a: >x\n", "a.yaml:1: is not YAML: after > or | a text begins in the next line"),
        ('a: "\\d"\n', "a.yaml:1: is not YAML: in double quotes \\ begins an escape"),
        ("a: 1\n---\nb: 2\n", "a.yaml:2: is not YAML: has a second document after ---; wanted one"),
        ("a: 1\nb: \x07\n", "a.yaml:2: is not YAML: has a character that is none of text; take it away"),
        ("a: 1\nb: 2\na: {}\n", "a.yaml:3: a: is there twice, first in line 1; leave one out"),
        ("x:\n  - a: 1\n    a: 1\n", "a.yaml:3: a: is there twice, first in line 2; leave one out"),
        ("x: &loop [*loop]\na: 1\na: 2\n", "a.yaml:3: a: is there twice, first in line 2; leave one out"),
        ("x: 2001-99-99\n", "a.yaml: is not YAML: a value in it cannot be read"),
    ],
)
def test_what_is_wrong_is_said_in_plain_words_with_its_line(text: str, said: str) -> None:
    assert refusal(text).startswith(said)


def test_bytes_that_are_no_text_are_told_with_their_line(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_bytes(b"a: 1\nb: \xff\n")

    with pytest.raises(NotYaml, match=r"a\.yaml:2: is not UTF-8 text: has the byte 0xff; save it as UTF-8"):
        read_yaml(path)


def test_lines_may_end_as_on_windows(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_bytes(b"a: |\r\n  x\r\n  y\r\nb: 1\r\n")

    assert read_yaml(path) == {"a": "x\ny\n", "b": 1}
