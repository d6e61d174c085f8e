"""Third-party programs on a host: where they are, by the names and paths of a profile, in its order; and the files of a
machine that they see on a namespace rig: the system's directories and the paths of their profile.

`orchestrator.rigs.enclosure` makes the root of a host, without home directories and results. The paths that a profile
names are added to it before they are needed.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from owlt.agents.contract.implementation import Implementation, Role
from owlt.agents.contract.placeholders import render
from owlt.agents.contract.requirements import Binary
from owlt.inputs.mistake import Mistake, MistakeError
from owlt.orchestrator.hosts.host import Host

SYSTEM = (
    *("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc", "/opt", "/nix", "/gnu"),
    *("/var/lib/dpkg", "/var/lib/rpm", "/var/lib/pacman"),
)
"""Directories of the machine that every implementation sees, read-only."""
MAY_HOLD_RESULTS = ("/opt", "/usr/local")
"""Directories in `SYSTEM` in which a user may have results. Results directories below them are hidden, because their
plans contain the seeds of the files."""
_NOT_OF_THE_MACHINE = ("/proc", "/sys", "/dev", "/run/owlt", "/tmp", "/var/tmp")
"""Directories of which a host has its own."""
_PATH = re.compile(r"(?<![\w.}/-])/[\w.+@%~-]+(?:/[\w.+@%~-]+)*")
MACHINE = "/dev/kept/machine"
"""The mount point of the machine's root on a host; programs do not see it."""

_PLANS = ("-maxdepth", "6", "-name", "plan.json")
"""Arguments of find(1) for the plans of results directories."""
VIEW = f"""view() {{  # $1 at $2, read-only; not with the inodes of $1 if it can be part of an overlay
  [ -e "$2" ] || if [ -d "$1" ]; then mkdir -p "$2"; else mkdir -p "${{2%/*}}"; : >"$2"; fi
  is_layer "$1" && mount -t overlay -o "ro,lowerdir=$1:$empty" owlt-view "$2" 2>/dev/null ||
    mount --bind -o ro "$1" "$2"
}}
is_layer() {{ case $1 in *[,:\\\\\\"]*) return 1 ;; esac; [ -d "$1" ]; }}  # a name that overlays read as it is
hide() {{ [ ! -d "$1" ] || mount -t tmpfs -o ro,size=4k owlt-hidden "$1"; }}
hide_results() {{  # below $1
  find "$1" {" ".join(_PLANS)} 2>/dev/null | while IFS= read -r plan; do hide "${{plan%/*}}"; done
}}"""
SHOW = f"""empty=/dev/kept/empty machine={MACHINE} root=/dev/kept/root
{VIEW}
is_broad() {{  # a home directory, or one at the top of the machine: more is in it than a program
  case $1 in */*/*) ;; *) return 0 ;; esac
  case $1 in /home/*/*) ;; /home/*|*/.local) return 0 ;; esac
  [ -e "$machine$1/.ssh" ] || [ -e "$machine$1/.profile" ] || [ -e "$machine$1/.bashrc" ] ||
    cut -d: -f6 $machine/etc/passwd | grep -qxF -- "$1"
}}
within() {{
  mkdir -p "$root${{1%/*}}"
  if [ -d "$machine$1" ]; then mkdir -p "$root$1"; else : >"$root$1"; fi
  view "$machine$1" "$1"
  hide_results "$1"
}}
real() {{ chroot "$machine" readlink -e -- "$1"; }}
reveal() {{
  [ ! -e "$1" ] || return 0
  place=$1
  [ -d "$machine$1" ] || place=${{1%/*}}
  case ${{place##*/}} in bin|sbin|libexec) is_broad "${{place%/*}}" || place=${{place%/*}} ;; esac
  if ! is_broad "$place"; then within "$place"
  elif [ "$place" != "$1" ]; then within "$1"
  fi
  case $place in */bin|*/sbin)
    for beside in lib lib64 libexec; do
      [ ! -d "$machine${{place%/*}}/$beside" ] || within "${{place%/*}}/$beside"
    done ;;
  esac
}}
show() {{
  file=$(real "$1") || return 0
  reveal "$file"
  if [ -L "$machine$1" ]; then
    links=${{1%/*}}
    [ -d "$links" ] || is_broad "$links" || within "$links"
    for link in "$machine$links"/*; do
      [ ! -L "$link" ] || ! target=$(real "$links/${{link##*/}}") || reveal "$target"
    done
  fi
  [ -e "$1" ] || [ ! -e "$file" ] || {{ mkdir -p "$root${{1%/*}}" && ln -s "$file" "$root$1"; }}
}}
"""
"""Shell functions for a host. `show PATH` makes a path of the machine visible to its programs, if it exists and is not
visible yet: a directory, or a file with its directory and, if that is `bin`, the directories beside it. For a link, it
shows the targets of the link and of the links beside it. In a home directory, or in a top-level directory of the
machine, it shows only the file. Results directories below stay hidden."""
_SHOW_ALL = SHOW + 'for path; do [ -e "$path" ] || show "$path"; done; exit 0'


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


def show_files(host: Host, texts: Iterable[str], visible: Iterable[str]) -> None:
    """Make the paths of the machine that these texts contain visible to the programs of a host.

    `visible` are the other directories that the programs see, in addition to `SYSTEM`. Raises HostError.
    """
    paths = [path for path in named_paths(texts) if not is_below(path, (*SYSTEM, *_NOT_OF_THE_MACHINE, *visible))]
    if paths:
        host.check(["sh", "-c", _SHOW_ALL, "sh", *paths])


def results_directories() -> list[str]:
    """The results directories of this machine below `MAY_HOLD_RESULTS`, sorted; bytes that are not UTF-8 are surrogates
    in them (os.fsdecode)."""
    find = ["find", *MAY_HOLD_RESULTS, *_PLANS, "-printf", "%h\\0"]
    done = subprocess.run(find, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False)
    return sorted(map(os.fsdecode, filter(None, done.stdout.split(b"\0"))))


def named_paths(texts: Iterable[str]) -> list[str]:
    """The absolute paths in some texts, each once: whole texts, lists separated by colons, and paths within a text."""
    found = [path for text in texts for path in (text.split(":") if text.startswith("/") else _PATH.findall(text))]
    return list(dict.fromkeys(path.rstrip("/") for path in found if path.rstrip("/")))


def texts_in(value: Any) -> Iterator[str]:
    """All texts in a value of lists and mappings."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for each in value.values():
            yield from texts_in(each)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from texts_in(each)


def is_below(path: str, places: Iterable[str]) -> bool:
    """Whether a path is one of these places or below one."""
    return any(path == place or path.startswith(f"{place}/") for place in places)
