"""The few commands that owlt gives to hosts, for a host in memory: what they print and with which status they end.

Each takes only the options that owlt uses; others are refused with HostError, so that no test relies on them.
"""

from __future__ import annotations

import hashlib
import re
import stat
from collections.abc import Callable, Sequence
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from owlt.orchestrator.hosts.host import Completed, HostError
from owlt.orchestrator.hosts.printable import SHELL_BASE
from tests.memory.files import BLOCK_BYTES, PAGE_BYTES

if TYPE_CHECKING:
    from tests.memory.host import MemoryHost

Command = Callable[["MemoryHost", Sequence[str]], Completed]
"""What a command does, given its arguments."""
_NO_SUCH_FILE = "No such file or directory"


def done(text: str | bytes = "") -> Completed:
    """A command that succeeded."""
    return Completed(0, text if isinstance(text, bytes) else text.encode(), b"")


def failed(text: str, status: int = 1, stdout: str = "") -> Completed:
    """A command that did not."""
    return Completed(status, stdout.encode(), f"{text}\n".encode())


def refuse(name: str, arguments: Sequence[str]) -> HostError:
    """What is raised for options that are not known here."""
    return HostError(f"a host in memory does not know {[name, *arguments]}; give it in `commands`")


def env(host: MemoryHost, arguments: Sequence[str]) -> Completed:
    """env(1) without options."""
    rest = list(arguments)
    while rest and re.match(r"\w+=", rest[0]):
        rest.pop(0)
    return host.run(rest)


def sh(host: MemoryHost, arguments: Sequence[str]) -> Completed:
    """sh(1) with one of the host's scripts; these have the arguments, the first of which is the script's name."""
    if len(arguments) < 2 or arguments[0] != "-c" or arguments[1] not in host.scripts:
        raise refuse("sh", arguments)
    return host.scripts[arguments[1]](host, arguments[2:])


def mkdir(host: MemoryHost, arguments: Sequence[str]) -> Completed:
    """mkdir -p."""
    if not arguments or arguments[0] != "-p":
        raise refuse("mkdir", arguments)
    for path in arguments[1:]:
        try:
            host.files.make_directory(path)
        except OSError as problem:
            return failed(f"mkdir: cannot create directory '{path}': {problem.strerror}")
    return done()


def rm(host: MemoryHost, arguments: Sequence[str]) -> Completed:
    """rm -rf."""
    if not arguments or arguments[0] != "-rf":
        raise refuse("rm", arguments)
    for path in arguments[1:]:
        host.files.remove(path)
    return done()


def test(host: MemoryHost, arguments: Sequence[str]) -> Completed:
    """test -e and test -f."""
    checks = {"-e": host.files.exists, "-f": host.files.is_file}
    if len(arguments) != 2 or arguments[0] not in checks:
        raise refuse("test", arguments)
    return Completed(0 if checks[arguments[0]](arguments[1]) else 1, b"", b"")


def cat(host: MemoryHost, arguments: Sequence[str]) -> Completed:
    """cat of files, and of the tables of sockets."""
    output, problems = b"", ""
    for path in arguments:
        try:
            output += host.socket_table(path) if path.startswith("/proc/net/") else host.files.read(path)
        except OSError as problem:
            problems += f"cat: {path}: {problem.strerror}\n"
    return Completed(1 if problems else 0, output, problems.encode())


def sha256sum(host: MemoryHost, arguments: Sequence[str]) -> Completed:
    """sha256sum of files."""
    lines, problems = [], ""
    for path in arguments:
        try:
            lines.append(f"{hashlib.sha256(host.files.read(path)).hexdigest()}  {path}\n")
        except OSError as problem:
            problems += f"sha256sum: {path}: {problem.strerror}\n"
    return Completed(1 if problems else 0, "".join(lines).encode(), problems.encode())


def stat_(host: MemoryHost, arguments: Sequence[str]) -> Completed:
    """stat --printf=FORMAT with %f, %d, %s, %b and %B, and stat --file-system --format=%a."""
    options = [each for each in arguments if each.startswith("--") and each != "--"]
    paths = [each for each in arguments if not each.startswith("--")]
    if options == ["--file-system", "--format=%a"]:
        return _free_blocks(host, paths)
    if len(options) != 1 or not options[0].startswith("--printf="):
        raise refuse("stat", arguments)
    form = options[0].removeprefix("--printf=").replace("\\n", "\n")
    output, problems = "", ""
    for path in paths:
        try:
            values = _stat_values(host, path)
        except FileNotFoundError:
            problems += f"stat: cannot statx '{path}': {_NO_SUCH_FILE}\n"
            continue
        output += re.sub("%(.)", lambda match, values=values: values[match[1]], form)  # type: ignore[misc]
    return Completed(1 if problems else 0, output.encode(), problems.encode())


def _stat_values(host: MemoryHost, path: str) -> dict[str, str]:
    entry = host.files.entry(path)
    device = host.files.file_system(host.files.resolved(str(PurePosixPath(path).parent))).device
    if stat.S_ISDIR(entry.mode):
        device = host.files.file_system(host.files.resolved(path)).device
    return {
        "f": f"{entry.mode:x}",
        "d": str(device),
        "s": str(entry.size_bytes),
        "b": str(-(-entry.stored_bytes // PAGE_BYTES) * (PAGE_BYTES // BLOCK_BYTES)),
        "B": str(BLOCK_BYTES),
    }


def _free_blocks(host: MemoryHost, paths: Sequence[str]) -> Completed:
    (path,) = paths
    if not host.files.exists(path):
        return failed(f"stat: cannot read file system information for '{path}': {_NO_SUCH_FILE}")
    return done(f"{host.files.free_bytes(host.files.resolved(path)) // PAGE_BYTES}\n")


def find(host: MemoryHost, arguments: Sequence[str]) -> Completed:
    """find DIRECTORY... -type f -printf FORMAT, or ! -type d, with %P, %p, %s and %C@."""
    split = next((at for at, word in enumerate(arguments) if word in ("-type", "!")), 0)
    directories, tests, form = arguments[:split], list(arguments[split:-2]), arguments[-1]
    if not directories or tests not in (["-type", "f"], ["!", "-type", "d"]) or arguments[-2] != "-printf":
        raise refuse("find", arguments)
    output, problems = "", ""
    for directory in directories:
        if not host.files.exists(directory):
            problems += f"find: '{directory}': {_NO_SUCH_FILE}\n"
            continue
        for path in host.files.below(directory):
            entry = host.files.entry(path)
            values = {"P": str(PurePosixPath(path).relative_to(directory)), "p": path, "s": str(entry.size_bytes)}
            values["C@"] = f"{(entry.changed_at_ns or 0) / 1e9:.9f}"
            text = form.replace("\\n", "\n").replace("\\0", "\0")
            output += re.sub("%(C@|.)", lambda match, values=values: values[match[1]], text)  # type: ignore[misc]
    return Completed(1 if problems else 0, output.encode(), problems.encode())


def tail(host: MemoryHost, arguments: Sequence[str]) -> Completed:
    """tail --bytes NUMBER -- FILE."""
    if len(arguments) != 4 or arguments[0] != "--bytes" or arguments[2] != "--":
        raise refuse("tail", arguments)
    try:
        content = host.files.read(arguments[3])
    except OSError as problem:
        return failed(f"tail: cannot open '{arguments[3]}' for reading: {problem.strerror}")
    return done(content[max(len(content) - int(arguments[1]), 0) :])


def realpath(host: MemoryHost, arguments: Sequence[str]) -> Completed:
    """realpath --canonicalize-existing -- PATH..."""
    if list(arguments[:2]) != ["--canonicalize-existing", "--"]:
        raise refuse("realpath", arguments)
    found = [host.files.resolved(path) for path in arguments[2:] if host.files.exists(path)]
    problems = "".join(f"realpath: {path}: {_NO_SUCH_FILE}\n" for path in arguments[2:] if not host.files.exists(path))
    return Completed(1 if problems else 0, "".join(f"{path}\n" for path in found).encode(), problems.encode())


def sysctl(host: MemoryHost, arguments: Sequence[str]) -> Completed:
    """sysctl -n NAME... and sysctl -q -w NAME=VALUE..., of the settings that the host has."""
    is_read = list(arguments[:1]) == ["-n"]
    if not is_read and list(arguments[:2]) != ["-q", "-w"]:
        raise refuse("sysctl", arguments)
    settings = [each.partition("=")[::2] for each in arguments[1 if is_read else 2 :]]
    missing = [name for name, _ in settings if name not in host.sysctls]
    problems = "".join(f"sysctl: cannot stat /proc/sys/{name.replace('.', '/')}: {_NO_SUCH_FILE}\n" for name in missing)
    present = [(name, value) for name, value in settings if name not in missing]
    if not is_read:
        host.sysctls.update(present)
    shown = "".join(f"{host.sysctls[name]}\n" for name, _ in present) if is_read else ""
    return Completed(1 if missing else 0, shown.encode(), problems.encode())


def ip(host: MemoryHost, arguments: Sequence[str]) -> Completed:
    """ip route add ROUTE, ip route del ROUTE and ip link set dev INTERFACE mtu BYTES."""
    if list(arguments[:3]) == ["link", "set", "dev"] and arguments[4] == "mtu":
        host.mtus[arguments[3]] = int(arguments[5])
        return done()
    if list(arguments[:1]) != ["route"] or arguments[1] not in ("add", "del"):
        raise refuse("ip", arguments)
    route = " ".join(arguments[2:])
    if arguments[1] == "add":
        if any(each.split()[0] == arguments[2] for each in host.routes):
            return failed("RTNETLINK answers: File exists", 2)
        host.routes.append(route)
        return done()
    present = [each for each in host.routes if each.startswith(route)]
    if not present:
        return failed("RTNETLINK answers: No such process", 2)
    host.routes.remove(present[0])
    return done()


def tc(host: MemoryHost, arguments: Sequence[str]) -> Completed:
    """tc qdisc replace dev INTERFACE root QDISC."""
    if list(arguments[:3]) != ["qdisc", "replace", "dev"] or arguments[4] != "root":
        raise refuse("tc", arguments)
    host.qdiscs[arguments[3]] = " ".join(arguments[5:])
    return done()


def kill(host: MemoryHost, arguments: Sequence[str]) -> Completed:
    """kill -SIGNAL -- -GROUP."""
    if len(arguments) != 3 or arguments[1] != "--" or not arguments[2].startswith("-"):
        raise refuse("kill", arguments)
    process = host.processes.get(int(arguments[2][1:]))
    if process is None or process.is_over:
        return failed(f"kill: ({arguments[2]}): No such process")
    process.deliver(arguments[0].removeprefix("-"))
    return done()


def true(host: MemoryHost, arguments: Sequence[str]) -> Completed:
    """true(1)."""
    return done()


def false(host: MemoryHost, arguments: Sequence[str]) -> Completed:
    """false(1)."""
    return Completed(1, b"", b"")


COMMANDS: dict[str, Command] = {
    **{each.__name__: each for each in (env, sh, mkdir, rm, test, cat, sha256sum, find, tail, realpath, sysctl)},
    **{each.__name__: each for each in (ip, tc, kill, true, false)},
    "stat": stat_,
}
NOT_FOUND = SHELL_BASE - 1
"""A shell's exit status for a command that it does not find."""
