"""Texts that are not YAML: the line, and what was written there, in plain words."""

import re
from pathlib import Path

import pytest

from owlt.inputs.reader import NotYaml, parse_yaml, read_yaml


def refusal(text: str) -> str:
    """Why a text is refused."""
    with pytest.raises(NotYaml) as refused:
        parse_yaml(text, "a.yaml")
    return str(refused.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: 1\n\tb: 2\n", "a.yaml:2: not valid YAML: has a tab; write spaces"),
        ("a: 1\nb: a file: over UDP\n", "a.yaml:2: not valid YAML: a colon with a space after it begins a value; "),
        ("a:\n  b: {x: 1\nc: 3\n", "a.yaml:2: not valid YAML: the { here is not closed: there is no } up to line 3"),
        ("a: [x, y\nb: 3\n", "a.yaml:1: not valid YAML: the [ here is not closed: there is no ] up to line 2"),
        ('a: [x, "y" z]\n', "a.yaml:1: not valid YAML: between [ and ] a comma is missing, or the ] itself"),
        ("a: 1\nb: [", "a.yaml:2: not valid YAML: a bracket is not closed before the end"),
        ("a: [1]]\n", "a.yaml:1: not valid YAML: closes a bracket that is not open"),
        ("a: }\n", "a.yaml:1: not valid YAML: has } where a value is expected; put quotes around"),
        ('a: "x\nb: 3\nc: 4\n', "a.yaml:1: not valid YAML: the quotes that open here are not closed"),
        (
            "a: {run_dir}/x\n",
            "a.yaml:1: not valid YAML: text follows a closing quote or brace; put quotes",
        ),
        ("a: {{ x }}\n", 'a.yaml:1: not valid YAML: braces need quotes; write "{name}"'),
        ("a:\n  b: 1\n c: 2\n", "a.yaml:3: not valid YAML: is further to the left or right"),
        ("a: 1\nhello\nb: 2\n", "a.yaml:2: not valid YAML: has no colon, expected KEY: VALUE"),
        ("a: %x\n", "a.yaml:1: not valid YAML: a string may not begin with %; put quotes around the whole text"),
        ("a: *x\n", "a.yaml:1: not valid YAML: a string that begins with * names an anchor; put quotes"),
        ("a: !x y\n", "a.yaml:1: not valid YAML: a string that begins with ! is a tag; put quotes"),
        ("a: - x\n", "a.yaml:1: not valid YAML: a string may not begin with a dash and a space; put quotes"),
        ("a: >x\n", "a.yaml:1: not valid YAML: after > or | a string begins on the next line"),
        ('a: "\\d"\n', "a.yaml:1: not valid YAML: in double quotes \\ begins an escape"),
        ("a: 1\n---\nb: 2\n", "a.yaml:2: not valid YAML: has a second document after ---; remove it"),
        ("a: 1\nb: \x07\n", "a.yaml:2: not valid YAML: has a character that is not text; remove it"),
        ("a: 1\nb: 2\na: {}\n", "a.yaml:3: a: appears twice, first on line 1; remove one"),
        ("x:\n  - a: 1\n    a: 1\n", "a.yaml:3: a: appears twice, first on line 2; remove one"),
        ("x: &loop [*loop]\na: 1\na: 2\n", "a.yaml:1: has an alias inside its own anchor"),
        ("x: 2001-99-99\n", "a.yaml: not valid YAML: a value in it cannot be read"),
    ],
)
def test_a_syntax_error_is_explained_with_its_line(text: str, said: str) -> None:
    assert refusal(text).startswith(said)


def test_bytes_that_are_not_text_are_reported_with_their_line(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_bytes(b"a: 1\nb: \xff\n")

    with pytest.raises(NotYaml, match=r"a\.yaml:2: not UTF-8 text: has the byte 0xff; save it as UTF-8"):
        read_yaml(path)


def test_lines_may_end_as_on_windows(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_bytes(b"a: |\r\n  x\r\n  y\r\nb: 1\r\n")

    assert read_yaml(path).value == {"a": "x\ny\n", "b": 1}


def levels(first: str, again: str) -> str:
    """Ten anchors, each of which repeats the one before nine times."""
    lines = [f"a0: &a0 {first}"]
    lines += [f"a{level}: &a{level} {again.replace('LAST', f'*a{level - 1}')}" for level in range(1, 11)]
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize(
    "text",
    [
        levels("[x, x]", f"[{', '.join(['LAST'] * 9)}]"),
        levels("{x: 1}", f"{{{', '.join(f'k{number}: LAST' for number in range(9))}}}"),
        levels("{x: 1}", f"{{<<: [{', '.join(['LAST'] * 9)}]}}"),
        f"a: &a {'x' * 100_000}\nb: [{', '.join(['*a'] * 1000)}]\n",
    ],
    ids=["sequences", "mappings", "merges", "text"],
)
def test_aliases_that_make_a_document_too_large_are_refused(text: str) -> None:
    expected = "expected aliases that repeat at most 100,000 values in total"
    assert re.match(rf"a\.yaml:\d+: has aliases that repeat too many values, {expected}", refusal(text))


def test_aliases_are_replaced_by_what_they_stand_for() -> None:
    text = "a: &a {x: 1}\nb: &b {<<: *a, y: 2}\nc: [*a, *b]\n"

    assert parse_yaml(text, "a.yaml").value["c"] == [{"x": 1}, {"x": 1, "y": 2}]


def test_a_text_that_is_read_again_has_its_own_values() -> None:
    first = parse_yaml("a: {b: [1]}", "a.yaml").value
    first["a"]["b"].append(2)

    assert parse_yaml("a: {b: [1]}", "a.yaml").value == {"a": {"b": [1]}}


def test_a_large_document_without_aliases_is_read() -> None:
    assert len(parse_yaml("[" + "0, " * 20_000 + "0]", "a.yaml").value) == 20_001
