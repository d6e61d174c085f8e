"""What results reveal about the user and the machine that made them: paths of directories, names, private keys.

Paths are replaced by words such as `<home>`, which another machine can replace by its own paths. Names of the user and
the host are replaced as whole words, which cannot be reversed.
"""

from __future__ import annotations

import os
import pwd
import re
import socket
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from owlt import PACKAGE
from owlt.installation import cache_directory

HOST, USER, PRIVATE_KEY = "<host>", "<user>", "<private key>"
OF_MANY_MACHINES = ("localhost", "localhost.localdomain", "nobody", "root", "user")
"""Names of hosts and users that identify nobody."""
_KEY = re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL)
_IN_A_NAME = r"[A-Za-z0-9_+=-]"


@dataclass(frozen=True)
class PrivateNames:
    """The private names of a user on a machine, each with what replaces it."""

    paths: Mapping[str, str] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)

    def without(self, text: str) -> PrivateNames:
        """The private names without those of user and host that a text contains as words: there they may mean something
        else."""
        return PrivateNames(self.paths, {name: word for name, word in self.names.items() if not _has(text, name)})

    def replaced(self, value: Any) -> Any:
        """A text, or values of JSON, without private names. Keys of JSON may contain paths, and no names."""
        if isinstance(value, str):
            return self._replaced_names(_KEY.sub(PRIVATE_KEY, self.replaced_paths(value)))
        if isinstance(value, list):
            return [self.replaced(each) for each in value]
        if isinstance(value, dict):
            return {self.replaced_paths(key): self.replaced(each) for key, each in value.items()}
        return value

    def replaced_paths(self, text: str) -> str:
        """A text whose paths of the user begin with a word such as `<home>`."""
        for path in sorted(self.paths, key=len, reverse=True):
            if path in text:
                text = re.sub(rf"(?<![A-Za-z0-9_.]){re.escape(path)}(?![A-Za-z0-9_.-])", self.paths[path], text)
        return text

    def restored(self, value: Any) -> Any:
        """A text, or values of JSON, with the paths of this user in the place of the words."""
        if isinstance(value, str):
            for path, word in self.paths.items():
                value = value.replace(word, path)
            return value
        if isinstance(value, list):
            return [self.restored(each) for each in value]
        if isinstance(value, dict):
            return {key: self.restored(each) for key, each in value.items()}
        return value

    def _replaced_names(self, text: str) -> str:
        for name, word in self.names.items():
            if name in text:
                text = _word(name).sub(word, text)
        return text


def _word(name: str) -> re.Pattern[str]:
    return re.compile(rf"(?<!{_IN_A_NAME}){re.escape(name)}(?!{_IN_A_NAME})")


def _has(text: str, name: str) -> bool:
    return name in text and _word(name).search(text) is not None


def private_names(results: Path | None = None) -> PrivateNames:
    """The private names of this user on this machine; `results` is a directory of results."""
    places: dict[str, list[Path | None]] = {
        "<results>": [results],
        "<environment>": [Path(sys.prefix)],
        "<owlt>": [PACKAGE.parent],
        "<cache>": [cache_directory().parent],
        "<home>": [Path.home()],
    }
    users = {os.environ.get("USER", ""), os.environ.get("LOGNAME", "")}
    with suppress(KeyError):
        account = pwd.getpwuid(os.getuid())
        places["<home>"].append(Path(account.pw_dir))
        users.add(account.pw_name)
    paths = {
        str(each): word
        for word, given in places.items()
        for place in given
        if place
        for each in (place.resolve(), place.absolute())
        if len(each.parts) > 1
    }
    hosts = {name for each in (socket.gethostname(), os.uname().nodename) for name in (each, each.partition(".")[0])}
    names = dict.fromkeys(sorted(hosts), HOST) | dict.fromkeys(sorted(users), USER)
    return PrivateNames(paths, {name: word for name, word in names.items() if name and name not in OF_MANY_MACHINES})
