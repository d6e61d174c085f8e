"""The files of this machine that a host of the namespace rigs sees: its own root, with the system's programs read-only.

The root is made once, as a mount namespace in which all programs of the host run. It contains
only `SYSTEM`, the files that owlt needs, and the host's own directory. It does not contain home directories, results,
the other hosts' directories, the keys of the rig and the sockets below /run (systemd, containers). Other paths that a
profile names are added before a run (`orchestrator.hosts.binaries`). `orchestrator.hosts.confinement` limits what
an implementation may do.

Directories are overlays if the kernel supports them: two hosts then share neither the inodes nor the locks of a file.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from owlt.orchestrator.hosts.binaries import MAY_HOLD_RESULTS, SYSTEM, VIEW, is_below
from owlt.orchestrator.hosts.confinement import ALONE, FIRST, KEPT, LAST, WITHOUT_A_RUN_BYTES
from owlt.orchestrator.hosts.mount_namespace import fstab_field

BASE = "/run/owlt"
"""The directory on a host that contains its own directory, named by its role, independent of its place on the
machine."""
_VIEWS, _SEEN, _TABLE, _SECRETS = (f"dev/mounts/{name}" for name in ("views", "seen", "table", "secrets"))
"""Files relative to the root of the host: like fstab(5), its overlays, other mounts, and those that hide secrets; and
the directories of the overlays, a line each. One mount(8) mounts what such a file contains, instead of a process for
each."""
_DEVICES = {
    "null": "1 3",
    "zero": "1 5",
    "full": "1 7",
    "random": "1 8",
    "urandom": "1 9",
    "tty": "5 0",
    "net/tun": "10 200",
}
_OPEN_FILES = {"fd": "/proc/self/fd", "stdin": "fd/0", "stdout": "fd/1", "stderr": "fd/2"}
_IN_DEV = {name: f"mknod {name} c {numbers}" for name, numbers in _DEVICES.items()} | {
    name: f"ln -s {target} {name}" for name, target in _OPEN_FILES.items()
}
"""What a host has in /dev: copied from the machine by one cp(1), or made by this command if the machine has none."""
_MADE = "\n".join(f"[ -e {name} ] || {command}" for name, command in _IN_DEV.items())
_ROOT = f"""set -e
umask 022
mount --make-rprivate /
mounted=$(findmnt -nlo TARGET)
cd /dev  # the machine's, also below the next mount
mount -t tmpfs -o mode=755,size=1m owlt-root /dev
mount -t tmpfs -o nosuid,mode=755,size=1m,X-mount.mkdir owlt-dev /dev/dev
nodes=
for node in {" ".join(_IN_DEV)}; do
  if [ -e $node ]; then nodes="$nodes $node"; fi
done
cp -dR --parents $nodes /dev/dev
cd /dev/dev
mkdir -p pts shm net kept/empty kept/machine kept/root mounts /dev/proc /dev/sys /dev/run/sshd /dev/run/lock \
  /dev/tmp /dev/root /dev/home /dev/var/tmp /dev/var/log /dev/var/lib /dev/var/cache /dev/var/empty/sshd
{_MADE}
chmod 666 {" ".join(_DEVICES)}
ln -s /run /run/lock /dev/var
ln -s dev/null /dev/null
ln -s pts/ptmx ptmx
: >kept/nothing
cd /dev
empty=/dev/dev/kept/empty
{VIEW}
add_mount() {{ printf '%s 0 0\\n' "$1" >>{_TABLE}; }}
see() {{  # make $1 visible; $2 is $1 as a field of fstab(5)
  if [ ! -e "$1" ] || [ -e "/dev$1" ]; then return 0; fi
  printf '%s\\n' "$1" >>{_SEEN}
  if is_layer "$1"; then
    printf '%s\\n' "owlt-view /dev$2 overlay ro,lowerdir=$2:$empty,X-mount.mkdir 0 0" >>{_VIEWS}
  else view "$1" "/dev$1"
  fi
}}
see_mounts_below() {{  # of the machine
  while IFS= read -r mount; do
    case $mount in "$1"/*) [ ! -e "/dev$mount" ] || view "$mount" "/dev$mount" ;; esac
  done <<END
$mounted
END
}}
mount_all() {{  # what the files contain; a directory of which no overlay can be made is mounted itself
  : >>{_VIEWS} >>{_SEEN} >>{_TABLE}
  mount --all --fstab {_VIEWS} 2>/dev/null || while IFS= read -r place; do
    mountpoint -q "/dev$place" || view "$place" "/dev$place"
  done <{_SEEN}
  while IFS= read -r place; do see_mounts_below "$place"; done <{_SEEN}
  mount --all --fstab {_TABLE}
  : >{_VIEWS} >{_SEEN} >{_TABLE}
}}
add_mount '/proc /dev/proc none rbind'
add_mount '/sys /dev/sys none rbind'
add_mount 'owlt-pts /dev/dev/pts devpts newinstance,ptmxmode=666,mode=620,nosuid,noexec'
links=
for place in {" ".join(SYSTEM)}; do
  if [ -L $place ]; then links="$links $place"; else see $place $place; fi
done
[ -z "$links" ] || cp -P --parents $links /dev
mount_all
"""
_HIDE_SECRETS = f"""# what a user of the machine may not read: passwords, keys
hide_secrets() {{
  find /etc ! -type l ! -perm -4 -prune -printf '%y%p\\n' 2>dev/null | sed 's/\\\\/\\\\134/g
  s/ /\\\\040/g
  s/\\t/\\\\011/g
  s|$| none bind,ro 0 0|
  s|^d|/dev/dev/kept/empty /dev|
  s|^[a-z]|/dev/dev/kept/nothing /dev|' >{_SECRETS}
  mount --all --fstab {_SECRETS}
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
add_mount '/ /dev/kept/root none bind'
"""
_LOG_OPTIONS = "size=1m"
_LOGS = f"owlt-log /var/log tmpfs {_LOG_OPTIONS}"
_LOG_FILES = """: >/var/log/lastlog
: >/var/log/wtmp
"""
_READ_ONLY = """findmnt -nlo TARGET -O rw | while IFS= read -r place; do
  case $place in /proc|/proc/*|/dev/kept/*|/dev/pts|/etc/*|/var/log|"$base"|"$base"/*) continue ;; esac
  # one that cannot be made read-only goes; one that can do neither is hidden below another
  mount -o remount,bind,ro "$place" || umount -l "$place" || :
done 2>/dev/null
"""
OF_PROGRAM = ("/tmp", "/var/tmp")
"""A confined program has its own."""
_ACCOUNTS = ("passwd", "shadow")
"""Files of /etc that a host has of its own."""


def base_of(role: str) -> str:
    """The host's own directory, as the host sees it: all that it may write to, apart from /tmp and /dev/shm."""
    return f"{BASE}/{role}"


def enclosure(
    directory: Path,
    role: str,
    login: Path,
    needed: Sequence[str],
    names: Mapping[str, str],
    results: Path | None = None,
) -> str:
    """Shell lines for a mount namespace that is new: they make it what the host of this role sees.

    `directory` holds the files of the rig. The host sees its own and `login`, with the accounts;
    implementations do not see `login`. `needed` are the paths that must be visible: Python, this project, third-party
    implementations. `names` are the test addresses by role: the host's own name (uname(1)) has that of its role, so
    that a program can look up the host that it runs on. `results` is a file with the results directories
    below `MAY_HOLD_RESULTS`, a line each; None: the shell lines look for them.
    """
    of_program = [path for path in needed if is_below(path, OF_PROGRAM)]
    lines = [_ROOT, _hide_results(results), _HIDE_SECRETS]
    lines += [f"see {shlex.quote(path)} {shlex.quote(fstab_field(path))}" for path in needed]
    shown = {f"/dev/dev/kept/{number}": f"/dev{path}" for number, path in enumerate(of_program)}
    shown |= {f"/dev{base_of(role)}": str(directory / role), f"/dev{login}": str(login)}
    lines += [_add_bind(source, target, "rbind,X-mount.mkdir") for target, source in shown.items()]
    lines += ["mount_all", _ENTER]
    lines += [_add_bind(str(login / name), f"/etc/{name}", "bind,ro") for name in _ACCOUNTS]
    hosts = ["127.0.0.1 localhost", f"{names[role]} $name", *(f"{names[each]} {each}" for each in names)]
    lines.append("read -r name </proc/sys/kernel/hostname")
    lines.append("printf '%s\\n' " + " ".join(f'"{line}"' for line in hosts) + " >/dev/hosts")
    lines.append(f"[ ! -e /etc/hosts ] || {_add_bind('/dev/hosts', '/etc/hosts', 'bind,ro')}")
    lines += [
        f"add_mount '{_LOGS}'",
        f"mount --all --fstab {_TABLE}",
        _LOG_FILES,
        f"rm null {_VIEWS} {_SEEN} {_TABLE} {_SECRETS}",
    ]
    hidden = (fstab_field(str(login)), "/var/log")
    first = [f"owlt-hidden {place} tmpfs ro,size=4k,mode=755 0 0" for place in hidden]
    last = [f"/dev/kept/{n} {fstab_field(path)} none rbind,X-mount.mkdir 0 0" for n, path in enumerate(of_program)]
    last.append("owlt-hidden /dev/kept tmpfs ro,size=4k,mode=755 0 0")
    for file, texts in ((FIRST, first), (LAST, last), (KEPT, of_program)):
        lines.append(f"printf '%s\\n' {shlex.join(texts)} >{file}" if texts else f": >{file}")
    lines.append(f"base={shlex.quote(base_of(role))}")
    return "\n".join(lines) + "\n" + _MOUNTS + _READ_ONLY


def _add_bind(source: str, target: str, options: str) -> str:
    return f"add_mount {shlex.quote(f'{fstab_field(source)} {fstab_field(target)} none {options}')}"


def _hide_results(results: Path | None) -> str:
    if results is None:
        return f"for place in {' '.join(MAY_HOLD_RESULTS)}; do hide_results /dev$place; done"
    return f'while IFS= read -r place; do hide "/dev$place"; done <{shlex.quote(str(results))}'


def accounts_alone(login: Path) -> str:
    """Shell lines for the emulator's host: it sees the whole machine, except accounts and logs of logins."""
    mounts = [f"mount --bind -o ro {shlex.quote(str(login / name))} /etc/{name}" for name in _ACCOUNTS]
    return "\n".join(["set -e", *mounts, f"mount -t tmpfs -o {_LOG_OPTIONS} owlt-log /var/log", _LOG_FILES])
