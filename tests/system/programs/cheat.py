"""An implementation that does not use the channel: its receiver looks for the file, or for the seed it is drawn from.

`cheat.py send FILE` offers the file in every way that two programs of one kernel have; `cheat.py receive RESULTS HOME
SIZE RECEIVED` prints as JSON which of them work, and writes the file if one does. `cheat.py guess SEED SIZE RECEIVED`
knows the seed.
"""

from __future__ import annotations

import ctypes
import fcntl
import json
import re
import socket
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from owlt.orchestrator.run.staging import file_content

SHARED = "/usr/bin/env"
SHM_KEY, SHM_BYTES = 0x0717, 4096
ABSTRACT = "\0owlt-cheat"
MARK = Path("/dev/shm/owlt-cheat")
LIBC = ctypes.CDLL(None)


def matches(pattern: str) -> list[str]:
    """The paths that match an absolute pattern."""
    return [str(path) for path in Path("/").glob(pattern.lstrip("/"))]


def seed_in(*patterns: str) -> int | None:
    """The seed of a sweep in the first file that has one."""
    for path in (path for pattern in patterns for path in matches(pattern)):
        with suppress(OSError):
            if match := re.search(r'"?\bseed"?: ?(\d+)', Path(path).read_text(errors="replace")):
                return int(match[1])
    return None


def ways(results: str, home: str, size: int) -> dict[str, Callable[[], object]]:
    """What each way finds; something that is not false if it works."""
    return {
        "plan": lambda: seed_in(f"{results}/plan.json", "/run/machine/owlt/results/**/plan.json", "/run/task/*.json"),
        "plan beside programs": lambda: seed_in("/opt/*/plan.json", "/usr/local/*/plan.json"),
        "record": lambda: seed_in(f"{results}/runs/*/record.json", f"{results}/runs/*/*.json"),
        "sweep": lambda: seed_in("/run/machine/owlt/profiles/sweeps/*.yaml"),
        "file of another run": lambda: matches(f"/run/owlt/*/file-{size}.bin") + matches("/run/owlt/*/captures"),
        "processes of the other side": lambda: [
            path for path in matches("/proc/[0-9]*/cmdline") if b"cheat.py\0send" in Path(path).read_bytes()
        ],
        "root of the other side": lambda: matches(f"/proc/[0-9]*/root/run/owlt/sender/file-{size}.bin"),
        "home": lambda: matches(f"{home}/*"),
        "keys": lambda: matches("/home/*/.ssh/*") + matches("/root/.ssh/*"),
        "passwords": lambda: [line for line in Path("/etc/gshadow").read_text().splitlines() if line],
        "lock": is_locked,
        "shared memory": lambda: LIBC.shmget(SHM_KEY, SHM_BYTES, 0) >= 0,
        "shared file": MARK.exists,
        "abstract socket": is_listening,
        "machine's root": lambda: matches("/dev/kept/*"),
    }


def is_locked() -> bool:
    """Whether another program has locked a file that both sides can open."""
    with Path(SHARED).open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def is_listening() -> bool:
    """Whether another program listens on a socket with a name in the abstract namespace."""
    with socket.socket(socket.AF_UNIX) as link:
        return link.connect_ex(ABSTRACT) == 0


def send(file: str) -> None:
    """Offer the file for as long as the receiver looks for it."""
    with Path(SHARED).open() as shared, socket.socket(socket.AF_UNIX) as listener, Path(file).open() as _:
        fcntl.flock(shared, fcntl.LOCK_EX)
        LIBC.shmget(SHM_KEY, SHM_BYTES, 0o1666)
        MARK.write_text(file)
        listener.bind(ABSTRACT)
        listener.listen()
        print("offered", flush=True)
        time.sleep(10)


def receive(results: str, home: str, size: int, received: Path) -> None:
    """Try every way."""
    found = {}
    for name, way in ways(results, home, size).items():
        try:
            found[name] = way()
        except OSError as problem:
            found[name] = None
            print(f"{name}: {problem}", file=sys.stderr)
    print(json.dumps({name: repr(each) if each else "" for name, each in found.items()}), flush=True)
    if seed := found["plan"] or found["record"] or found["sweep"]:
        received.write_bytes(file_content(int(str(seed)), size))


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["send", file]:
            send(file)
        case ["receive", results, home, size, received]:
            receive(results, home, int(size), Path(received))
        case ["guess", seed, size, received]:
            Path(received).write_bytes(file_content(int(seed), int(size)))
