"""Finds third-party programs on a host: by the names and paths of a profile, in its order."""

from __future__ import annotations

import subprocess
from pathlib import Path

from owlt.agents.contract.implementation import Implementation, Role
from owlt.agents.contract.placeholders import render
from owlt.agents.contract.requirements import Binary
from owlt.inputs.mistake import Mistake, MistakeError
from owlt.orchestrator.hosts.host import Host
from owlt.orchestrator.hosts.visible_files import SHOW

SEARCH_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""The search path for names, on every host."""

_FIND = 'for p; do f=$(command -v -- "$p") && [ -f "$f" ] && [ -x "$f" ] && { echo "$f"; exit; }; done; exit 1'


FIND_PROGRAM = f'{SHOW}for p; do case $p in /*) [ -e "$p" ] || show "$p" ;; esac; done; {_FIND}'
"""The shell script that finds a program on a host, where a path that a profile names may have to be made visible
first."""

LIBRARIES = """for program; do
  LD_LIBRARY_PATH="${program%/*}/../lib" ldd "$program" 2>/dev/null
done | sed -n 's/^.*=> \\(\\/[^ ]*\\) (.*$/\\1/p' | xargs -r realpath | grep -v -E '^/(usr/)?lib(32|64)?/' | sort -u"""
"""Prints the shared libraries that programs load, including those in the directory `lib` beside the program's
directory, except those in the system's own directories."""


class MissingProgram(MistakeError):
    """A program is missing on a host: role, program, where it was searched, and how to install it."""


def find_here(binary: Binary, third_party: str) -> str | None:
    """The path of the program on this machine; None if it is missing."""
    done = subprocess.run(_command(_FIND, binary, third_party), capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else None


def why_not_here(binary: Binary, third_party: str) -> str:
    """Where the program was searched, or the file that exists and is not executable."""
    places = render(binary.search, {"third_party": third_party})
    inert = next((place for place in places if Path(place).is_file()), None)
    return f"{inert} is not executable" if inert else f"searched: {', '.join(places)}"


def find_programs(implementation: Implementation, role: Role, host: Host, third_party: str) -> dict[str, str]:
    """The path of each of an implementation's programs on a host. Raises MissingProgram."""
    paths = {}
    for name, binary in implementation.binary.items():
        done = host.run(_command(FIND_PROGRAM, binary, third_party))
        if done.exit_status != 0:
            searched = ", ".join(render(binary.search, {"third_party": third_party}))
            problem = f"{name} is missing on the {role} (searched: {searched})"
            raise MissingProgram(Mistake(problem, fix=f"install it there: {binary.fix}"))
        paths[name] = done.stdout.decode().strip()
    return paths


def _command(script: str, binary: Binary, third_party: str) -> list[str]:
    places = render(binary.search, {"third_party": third_party})
    return ["env", f"PATH={SEARCH_PATH}", "sh", "-c", script, "sh", *places]
