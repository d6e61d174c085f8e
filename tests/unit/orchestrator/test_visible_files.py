"""The paths that a profile names, which its programs see."""

from __future__ import annotations

import pytest

from owlt.orchestrator.hosts.binaries import is_below, named_paths, texts_in


@pytest.mark.parametrize(
    ("text", "paths"),
    [
        ("/home/a b/program", ["/home/a b/program"]),
        ("java -jar /data/x.jar", ["/data/x.jar"]),
        ("--config=/data/x.conf", ["/data/x.conf"]),
        ("/data/lib:/data/more", ["/data/lib", "/data/more"]),
        ('exec "/data/bin/send" >/tmp/log', ["/data/bin/send", "/tmp/log"]),
        ("https://host/path s/a/b/ a/b 5/7 ../x ./y {run_dir}/z", []),
        ("/data/x/", ["/data/x"]),
        ("/", []),
    ],
)
def test_absolute_paths_are_found_in_a_text(text: str, paths: list[str]) -> None:
    assert named_paths([text]) == paths


def test_texts_are_found_at_any_depth() -> None:
    assert list(texts_in({"a": ["x", {"b": "y"}], "c": 1, "d": None})) == ["x", "y"]


def test_a_directory_is_not_below_one_whose_name_it_begins_with() -> None:
    assert is_below("/usr/bin", ["/usr"])
    assert not is_below("/usrlocal", ["/usr"])
