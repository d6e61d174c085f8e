"""The files of this machine that a host of the namespace rigs sees: its own root, with the system's programs read-only.

The root is made once, as a mount namespace in which all programs of the host run. It contains
only `SYSTEM`, the files that owlt needs, and the host's own directory. It does not contain home directories, results,
the other hosts' directories, the keys of the rig and the sockets below /run (systemd, containers). Other paths that a
profile names are added before a run (`orchestrator.hosts.visible_files`). `orchestrator.hosts.confinement` limits what
an implementation may do.

Directories are overlays if the kernel supports them: two hosts then share neither the inodes nor the locks of a file.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from owlt.orchestrator.hosts.confinement import ALONE, FIRST, KEPT, LAST, WITHOUT_A_RUN_BYTES
from owlt.orchestrator.hosts.visible_files import SYSTEM, VIEW, is_below

BASE = "/run/owlt"
"""The directory on a host that contains its own directory, named by its role, independent of its place on the
machine."""
_SCRIPT = f"""set -e
umask 022
mount --make-rprivate /
mounted=$(findmnt -nlo TARGET)
mount -t tmpfs -o mode=755,size=1m owlt-root /dev
cd /dev
mknod -m 666 null c 1 3
mkdir -p dev proc sys run/sshd run/lock tmp var/tmp var/log var/lib var/cache var/empty/sshd root home
ln -s /run var/run
ln -s /run/lock var/lock
mount --rbind /proc proc
mount --rbind /sys sys
mount -t tmpfs -o nosuid,mode=755,size=1m owlt-dev dev
for node in null:3 zero:5 full:7 random:8 urandom:9; do mknod -m 666 dev/${{node%:*}} c 1 ${{node#*:}}; done
mknod -m 666 dev/tty c 5 0
mkdir dev/pts dev/shm dev/net dev/kept dev/kept/empty dev/kept/machine dev/kept/root dev/mounts
mknod -m 666 dev/net/tun c 10 200
mount -t devpts -o newinstance,ptmxmode=666,mode=620,nosuid,noexec owlt-pts dev/pts
ln -s pts/ptmx dev/ptmx
ln -s /proc/self/fd dev/fd
ln -s fd/0 dev/stdin
ln -s fd/1 dev/stdout
ln -s fd/2 dev/stderr
: >dev/kept/nothing
empty=/dev/dev/kept/empty
{VIEW}
see() {{
  place=$1
  [ -e "$place" ] && [ ! -e "/dev$place" ] || return 0
  view "$place" "/dev$place"
  printf '%s\\n' "$mounted" | while IFS= read -r inner; do
    case $inner in "$place"/*) [ ! -e "/dev$inner" ] || view "$inner" "/dev$inner" ;; esac
  done
}}
keep() {{ mkdir "dev/kept/$1"; mount --rbind "$2" "dev/kept/$1"; }}
show() {{ mkdir -p "/dev$2"; mount --rbind "$1" "/dev$2"; }}
for place in {" ".join(SYSTEM)}; do
  if [ -L $place ]; then ln -s "$(readlink $place)" "/dev$place"; elif [ -d $place ]; then see $place; fi
done
for place in opt usr/local; do hide_results $place; done  # where owlt may be, too
# what a user of the machine may not read: passwords, keys
hide_secrets() {{
  find /etc ! -type l ! -perm -4 -prune -printf '%y%p\\n' 2>dev/null | sed 's/\\\\/\\\\134/g
  s/ /\\\\040/g
  s/\\t/\\\\011/g
  s|$| none bind,ro 0 0|
  s|^d|/dev/dev/kept/empty /dev|
  s|^[a-z]|/dev/dev/kept/nothing /dev|' >dev/secrets
  mount --all --fstab dev/secrets
}}
hide_secrets || hide_secrets  # a file may have gone meanwhile
"""

_MOUNTS = f"""for part in sys sysrq-trigger irq bus fs acpi scsi mtrr; do
  [ ! -e /proc/$part ] || echo "/proc/$part /proc/$part none bind,ro 0 0" >>{FIRST}
done
for place in /tmp /var/tmp /dev/shm; do
  echo "owlt-alone $place tmpfs size={WITHOUT_A_RUN_BYTES},mode=1777 0 0"
done | cat {FIRST} - {LAST} >{ALONE}
"""
_ENTER = """pivot_root . dev/kept/machine
cd /
rm null
mount --bind / /dev/kept/root
"""
_LOGS = """mount -t tmpfs -o size=1m owlt-log /var/log
touch /var/log/lastlog /var/log/wtmp
"""
_READ_ONLY = """findmnt -nlo TARGET -O rw | while IFS= read -r place; do
  case $place in /proc|/proc/*|/dev/kept/*|/dev/pts|/etc/*|/var/log|"$base"|"$base"/*) continue ;; esac
  # one that cannot be made read-only goes; one that can do neither is hidden below another
  mount -o remount,bind,ro "$place" || umount -l "$place" || :
done 2>/dev/null
"""
OF_PROGRAM = ("/tmp", "/var/tmp")
"""A confined program has its own."""


def base_of(role: str) -> str:
    """The host's own directory, as the host sees it: all that it may write to, apart from /tmp and /dev/shm."""
    return f"{BASE}/{role}"


def enclosure(directory: Path, role: str, login: Path, needed: Sequence[str], names: Mapping[str, str]) -> str:
    """Shell lines for a mount namespace that is new: they make it what the host of this role sees.

    `directory` holds the files of the rig. The host sees its own and `login`, with the accounts;
    implementations do not see `login`. `needed` are the paths that must be visible: Python, this project, third-party
    implementations. `names` are the test addresses by role: the host's own name (uname(1)) has that of its role, so
    that a program can look up the host that it runs on.
    """
    of_program = [path for path in needed if is_below(path, OF_PROGRAM)]
    lines = [f"see {shlex.quote(path)}" for path in needed]
    lines += [f"keep {number} {shlex.quote(f'/dev{path}')}" for number, path in enumerate(of_program)]
    for there, here in ((str(directory / role), base_of(role)), (str(login), str(login))):
        lines.append(f"show {shlex.quote(there)} {shlex.quote(here)}")
    lines += [_ENTER, *_accounts(login)]
    hosts = ["127.0.0.1 localhost", f"{names[role]} $(uname -n)", *(f"{names[each]} {each}" for each in names)]
    lines.append("printf '%s\\n' " + " ".join(f'"{line}"' for line in hosts) + " >/dev/hosts")
    lines.append("[ ! -e /etc/hosts ] || mount --bind -o ro /dev/hosts /etc/hosts")
    hidden = (_escaped(str(login)), "/var/log")
    first = [f"owlt-hidden {place} tmpfs ro,size=4k,mode=755 0 0" for place in hidden]
    last = [f"/dev/kept/{n} {_escaped(path)} none rbind,X-mount.mkdir 0 0" for n, path in enumerate(of_program)]
    last.append("owlt-hidden /dev/kept tmpfs ro,size=4k,mode=755 0 0")
    for file, texts in ((FIRST, first), (LAST, last), (KEPT, of_program)):
        lines.append(f"printf '%s\\n' {shlex.join(texts)} >{file}" if texts else f": >{file}")
    lines.append(f"base={shlex.quote(base_of(role))}")
    return _SCRIPT + "\n".join(lines) + "\n" + _LOGS + _MOUNTS + _READ_ONLY


def accounts_alone(login: Path) -> str:
    """Shell lines for the emulator's host: it sees the whole machine, except accounts and logs of logins."""
    return "\n".join(["set -e", *_accounts(login)]) + "\n" + _LOGS


def _accounts(login: Path) -> list[str]:
    return [f"mount --bind -o ro {shlex.quote(str(login / name))} /etc/{name}" for name in ("passwd", "shadow")]


def _escaped(path: str) -> str:
    """A path as a field of fstab(5)."""
    return path.replace("\\", "\\134").replace(" ", "\\040").replace("\t", "\\011")
