"""What a host of the namespace rigs sees of this machine: its files read-only, its own /dev, its own directory.

Made once, as the mount namespace of the host's sshd, so all that the host runs is in it. The other hosts' directories,
the keys of the rig and what listens below /run (systemd, containers) are not there. What an implementation may do
beyond that is bounded by `orchestrator.hosts.confinement`.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from orchestrator.hosts.confinement import ALONE, FIRST, KEPT, LAST, WITHOUT_A_RUN_BYTES

BASE = "/run/owlt"
"""Below it a host finds its own directory, by its role, wherever that lies on the machine."""
_SCRIPT = """set -e
umask 022
mount --make-rprivate /
mount -t tmpfs -o nosuid,mode=755,size=1m owlt-dev /dev
for node in null:3 zero:5 full:7 random:8 urandom:9; do mknod -m 666 /dev/${node%:*} c 1 ${node#*:}; done
mknod -m 666 /dev/tty c 5 0
mkdir /dev/pts /dev/shm /dev/net /dev/kept /dev/mounts
mknod -m 666 /dev/net/tun c 10 200
mount -t devpts -o newinstance,ptmxmode=666,mode=620,nosuid,noexec owlt-pts /dev/pts
ln -s pts/ptmx /dev/ptmx
ln -s /proc/self/fd /dev/fd
ln -s fd/0 /dev/stdin
ln -s fd/1 /dev/stdout
ln -s fd/2 /dev/stderr
keep() { mkdir "/dev/kept/$1"; mount --rbind "$2" "/dev/kept/$1"; }
show() { mkdir -p "$2"; mount --rbind "/dev/kept/$1" "$2"; }
"""

_MOUNTS = f"""for part in sys sysrq-trigger irq bus fs acpi scsi mtrr; do
  [ ! -e /proc/$part ] || echo "/proc/$part /proc/$part none bind,ro 0 0" >>{FIRST}
done
for place in /tmp /var/tmp /dev/shm; do
  echo "owlt-alone $place tmpfs size={WITHOUT_A_RUN_BYTES},mode=1777 0 0"
done | cat {FIRST} - {LAST} >{ALONE}
"""
_LOGS = """mount -t tmpfs -o size=1m owlt-log /var/log
touch /var/log/lastlog /var/log/wtmp
"""
_READ_ONLY = """mkdir -p /run/sshd
findmnt -nlo TARGET | while IFS= read -r place; do
  case $place in /proc|/proc/*|/dev/pts|/var/log|"$base"|"$base"/*) continue ;; esac
  # one that cannot be made read-only goes; one that can do neither is hidden below another
  mount -o remount,bind,ro "$place" || umount -l "$place" || :
done 2>/dev/null
"""


OF_PROGRAM = ("/tmp", "/var/tmp")
"""A confined program has its own."""
HIDDEN = ("/run", *OF_PROGRAM)


def base_of(role: str) -> str:
    """The host's own directory, as the host sees it: all that it may write to, apart from /tmp and /dev/shm."""
    return f"{BASE}/{role}"


def enclosure(directory: Path, role: str, login: Path, needed: Sequence[str], names: Mapping[str, str]) -> str:
    """Shell lines for a mount namespace that is new: they make it what the host of this role sees.

    `directory` holds the files of the rig. The host sees its own and `login`, the files of its sshd with the accounts;
    implementations do not see `login`. `needed` are the paths that must stay visible although a host's /run or an
    implementation's /tmp hides a directory above them: Python, this project, third-party implementations.
    `names` are the test addresses by role: the host's own name (uname(1)) has that of its role, so that a program can
    look up the host that it runs on.
    """
    hidden_needed = [path for path in needed if _is_below(path, HIDDEN)]
    places = [(str(directory / role), base_of(role)), (str(login), str(login))]
    places += [(path, path) for path in hidden_needed]
    lines = [f"keep {number} {shlex.quote(there)}" for number, (there, _) in enumerate(places)]
    for place in (str(directory), "/run"):
        lines.append(f"mount -t tmpfs -o mode=755,size=1m owlt-hidden {shlex.quote(place)}")
    lines += [f"show {number} {shlex.quote(here)}" for number, (_, here) in enumerate(places)]
    lines += _accounts(login)
    hosts = ["127.0.0.1 localhost", f"{names[role]} $(uname -n)", *(f"{names[each]} {each}" for each in names)]
    lines.append("printf '%s\\n' " + " ".join(f'"{line}"' for line in hosts) + " >/dev/hosts")
    lines.append("[ ! -e /etc/hosts ] || mount --bind /dev/hosts /etc/hosts")
    hidden = (_escaped(str(login)), "/var/log")
    first = [f"owlt-hidden {place} tmpfs ro,size=4k,mode=755 0 0" for place in hidden]
    hidden_again = {
        path: f"/dev/kept/{number}"
        for number, path in enumerate(hidden_needed, start=len(places) - len(hidden_needed))
        if _is_below(path, OF_PROGRAM)
    }
    last = [f"{kept} {_escaped(path)} none rbind,X-mount.mkdir 0 0" for path, kept in hidden_again.items()]
    for file, texts in ((FIRST, first), (LAST, last), (KEPT, list(hidden_again))):
        lines.append(f"printf '%s\\n' {shlex.join(texts)} >{file}" if texts else f": >{file}")
    lines.append(f"base={shlex.quote(base_of(role))}")
    return _SCRIPT + "\n".join(lines) + "\n" + _LOGS + _MOUNTS + _READ_ONLY


def _is_below(path: str, places: Sequence[str]) -> bool:
    return any(Path(path).is_relative_to(place) for place in places)


def accounts_alone(login: Path) -> str:
    """Shell lines for the emulator's host: it sees the whole machine, except accounts and logs of logins."""
    return "\n".join(["set -e", *_accounts(login)]) + "\n" + _LOGS


def _accounts(login: Path) -> list[str]:
    return [f"mount --bind {shlex.quote(str(login / name))} /etc/{name}" for name in ("passwd", "shadow")]


def _escaped(path: str) -> str:
    """A path as a field of fstab(5)."""
    return path.replace("\\", "\\134").replace(" ", "\\040").replace("\t", "\\011")
