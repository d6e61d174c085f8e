"""Lines of the keys of a YAML file."""

import pytest

from agents.places import Places, place

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
        ("name", 2),
        ("sender", 3),
        ("sender.command", 4),
        ("sender.command[1]", 6),
        ("sender.sysctls.net.ipv4.tcp_rmem", 8),
        ("sender.sysctls.net.ipv4", 9),
        ("receiver.command[1]", 12),
        ("receiver.sysctls.net.ipv4.tcp_rmem", 8),
        ("known_limits[0].why", 15),
        ("known_limits[1].file_bytes_above", 17),
    ],
)
def test_a_key_is_found_in_its_line(key: str, line: int) -> None:
    assert Places(TEXT).line(key) == line


@pytest.mark.parametrize(
    ("key", "line"), [("title", 2), ("sender.ready", 3), ("sender.command[9]", 4), ("known_limits[1].mend", 16)]
)
def test_a_key_that_is_not_there_has_the_line_of_what_it_would_be_in(key: str, line: int) -> None:
    assert Places(TEXT).line(key) == line


def test_an_empty_file_has_one_line() -> None:
    assert Places("").line("name") == 1


def test_a_mistake_has_file_and_line_in_front() -> None:
    assert place("a.yaml", Places(TEXT), "name: got 'a', wanted: b") == "a.yaml:2: name: got 'a', wanted: b"
