"""Implementations that are hostile: what each tries, and what its record has to say of it."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

IDLE = ["sleep", "1000"]


@dataclass(frozen=True)
class Hostile:
    """One kind: what its sender or its receiver runs, a line of shell each, and a pattern of its record's reason."""

    reason: str
    sender: str = "sleep 1"
    receiver: str = "sleep 1"
    outcome: str = "failed"
    more: dict[str, Any] = field(default_factory=dict)

    def write(self, name: str, directory: Path) -> Path:
        """Its profile, as JSON, which is YAML."""
        path = directory / f"{name}.yaml"
        sides = {role: {"command": ["sh", "-c", line]} for role, line in self.sides.items()}
        profile = {
            "name": name,
            "title": name,
            "protocol": "NONE",
            "description": "for tests of what a hostile implementation can do",
            **sides,
            "run_directory": {"file_sizes": 1, "extra_bytes": 4_000_000},
            "session": {"udp_ports": [5000]},
            "time_limit": {"rtts": 0, "file_times": 0, "extra_s": 30},
        }
        path.write_text(json.dumps(profile | self.more))
        return path

    @property
    def sides(self) -> dict[str, str]:
        """The line of each side. Braces that are no placeholders are written twice."""
        return {"sender": self.sender, "receiver": self.receiver}


def refused(what: str, line: str) -> Hostile:
    """A line that has to fail; its last word says what kept it."""
    return Hostile(f"the sender exited with status 1; its last line: '.*{what}.*'", sender=f"{line} || exit 1")


FIRST_HALF = {
    "fifo": Hostile("received.bin is a FIFO, not a regular file", receiver="mkfifo received.bin"),
    "fifo-awaited": Hostile(
        "received.bin is a FIFO, not a regular file",
        sender="sleep 1000",
        receiver="mkfifo received.bin; sleep 1000",
        outcome="timed_out",
        more={"done": "file_delivered"},
    ),
    "symlink-to-passwd": Hostile("received.bin is a symbolic link", receiver="ln -s /etc/passwd received.bin"),
    "symlink-to-zeros": Hostile("received.bin is a symbolic link", receiver="ln -s /dev/zero received.bin"),
    "symlink-to-the-senders-file": Hostile(
        "received.bin is a symbolic link", receiver="ln -s /run/owlt/sender/file-100000.bin received.bin"
    ),
    "symlink-loop": Hostile("received.bin is a symbolic link", receiver="ln -s received.bin received.bin"),
    "linked-directory": Hostile(
        "inbox/ostype is not in the run directory",
        receiver="rmdir inbox; ln -s /proc/sys/kernel inbox",
        more={"received_file": "{run_dir}/inbox/ostype"},
    ),
    "linked-directory-of-its-own": Hostile(
        "the receiver has none of 100,000 bytes",
        receiver="mkdir real; rmdir inbox; ln -s real inbox; head -c 100000 /dev/zero >real/file",
        more={"received_file": "{run_dir}/inbox/file"},
    ),
    "directory": Hostile("received.bin is a directory", receiver="mkdir received.bin"),
    "device": Hostile("mknod: .*Operation not permitted", receiver="mknod received.bin c 1 5 || exit 1"),
    "sparse-terabyte": Hostile(
        "is a sparse file of 1000000000000 bytes, of which 0 are stored",
        receiver="truncate -s 1000000000000 received.bin",
    ),
    "hard-link": Hostile("ln: .*Invalid cross-device link", receiver="ln /etc/hostname received.bin || exit 1"),
    "growing": Hostile(
        "the receiver's run directory is full",
        sender="sleep 1000",
        receiver="while :; do head -c 100000 /dev/zero; sleep 0.1; done >received.bin",
        outcome="timed_out",
    ),
    "unreadable": Hostile(
        "the received file|receiver's file|bytes",
        receiver="echo partial >received.bin; chmod 0 received.bin",
        outcome="corrupt",
    ),
    "empty": Hostile("the receiver has none of 100,000 bytes", receiver=": >received.bin"),
    "deletes-its-directory": Hostile("rm: cannot remove .*Read-only file system", receiver="cd /; rm -rf {run_dir}"),
    "replaces-its-directory": Hostile(
        "the receiver exited with status 1; its last line: .*mv: cannot move",
        receiver="cd /; mv {run_dir} {run_dir}.old || exit 1; ln -s /etc {run_dir}",
    ),
    "fills-tmp": Hostile("the receiver's run directory is full", receiver="cat /dev/zero >/tmp/x; sleep 1"),
    "fills-shm": Hostile("the receiver's run directory is full", receiver="cat /dev/zero >/dev/shm/x; sleep 1"),
    "fills-its-run-directory": Hostile("the sender's run directory is full", sender="cat /dev/zero >x; sleep 1"),
    "writes-beside-its-run-directory": refused("Read-only file system", "echo x >/run/owlt/sender/x"),
    "writes-to-the-other-host": refused(
        "Directory nonexistent|Read-only file system", "echo x >/run/owlt/receiver/runs/received.bin"
    ),
    "spoils-its-own-file": refused("Read-only file system", "echo x >>{file}"),
    "reads-the-rigs-key": refused("No such file", "cat /run/owlt/user_key /run/owlt/login/host_key"),
}
SECOND_HALF = {
    "burns-cpu": Hostile("computed for [0-9.]+ s of wall time.*1 x sh", sender="while :; do :; done"),
    "burns-cpu-in-many": Hostile(
        "computed for [0-9.]+ s of wall time", sender="for i in 1 2 3 4 5 6 7 8; do while :; do :; done & done; wait"
    ),
    "fork-bomb": Hostile(
        "computed for [0-9.]+ s of wall time|Cannot fork", sender="f() {{ f | f & }}; f; while :; do f; done"
    ),
    "starts-many-threads": Hostile(
        "the sender exited with status 1; its last line: .*can't start new thread",
        sender="exec {python} -c 'import threading, time, os, sys\n"
        "try:\n  for _ in range(3000): threading.Thread(target=time.sleep, args=[1000], daemon=True).start()\n"
        "except RuntimeError as error: print(error, file=sys.stderr, flush=True); os._exit(1)'",
    ),
    "memory-hog": Hostile(
        "the kernel killed python3?[0-9.]* because memory ran out",
        sender="exec {python} -c 'x = []\nwhile True: x.append(bytearray(b\"x\") * 10**7)'",
    ),
    "stops-itself": Hostile(
        "sender had not ended .*its time limit; stopped by a signal: sh;", sender="kill -STOP $$", outcome="timed_out"
    ),
    "stops-its-group": Hostile(
        "sender had not ended .*its time limit; stopped by a signal: .*unshare",
        sender="kill -STOP 0",
        outcome="timed_out",
    ),
    "stops-its-preparation": Hostile(
        "kill -STOP 0 did not finish within 600 s",
        more={"sender": {"command": IDLE, "prepare": [["sh", "-c", "kill -STOP 0"]]}},
    ),
    "floods-its-preparation": Hostile(
        "the sender's host: sh -c cat /dev/zero wrote more than 4 MB of output and was killed",
        more={"sender": {"command": IDLE, "prepare": [["sh", "-c", "cat /dev/zero"]]}},
    ),
    "kills-its-parent": Hostile("sender", sender="kill -KILL $PPID; kill -KILL 1; exit 3"),
    "kills-its-group": Hostile("the sender was killed by", sender="kill -KILL 0"),
    "kills-all-it-sees": Hostile("the sender exited with status 3", sender="sleep 1000 & kill -KILL -1; exit 3"),
    "sysctl": refused("Read-only file system", "echo 0 >/proc/sys/net/ipv4/tcp_sack"),
    "sets-the-clock": refused("Operation not permitted", "date -s 2030-01-01"),
    "reboots": refused(
        "Operation not permitted",
        "{python} -c 'import ctypes; c = ctypes.CDLL(None, use_errno=True); c.reboot(0x1234567);"
        ' raise OSError(ctypes.get_errno(), "Operation not permitted" if ctypes.get_errno() == 1 else "?")\'',
    ),
    "presses-sysrq": refused("Read-only file system", "echo o >/proc/sysrq-trigger"),
    "unmounts": refused("must be superuser|not permitted", "cd /; umount -l {run_dir}"),
    "mounts-over": refused(
        "permission denied|must be superuser|not permitted", "mount -t tmpfs tmpfs /tmp 2>&1 | head -1 >&2; false"
    ),
    "link-down": refused("Operation not permitted", "ip link set test0 down"),
    "address-removed": refused("Operation not permitted", "ip addr flush dev test0"),
    "qdisc-replaced": refused("Operation not permitted", "tc qdisc replace dev test0 root pfifo"),
    "route-added": refused("Operation not permitted", "ip route add 10.99.0.0/16 dev test0"),
    "mtu": refused("Operation not permitted", "ip link set test0 mtu 300"),
    "mtu-by-sysfs": refused("Read-only file system", "echo 300 >/sys/class/net/test0/mtu"),
    "management-address": refused(
        "Network is unreachable",
        "{python} -c 'import socket; socket.create_connection((\"10.78.0.2\", 22), 5)'",
    ),
    "emulators-address": refused(
        "Network is unreachable",
        "{python} -c 'import socket; socket.create_connection((\"10.78.0.3\", 8765), 5)'",
    ),
    "new-namespaces": refused("Operation not permitted", "unshare --net --mount true"),
    "moves-its-limits": refused("Operation not permitted", "prlimit --nofile=100000:100000 true"),
    "forges-events": refused("nonexistent|No such|Read-only", 'echo \'@owlt {{"event": "end"}}\' >/dev/console'),
    "terminal-escapes": Hostile(
        r"its last line: '\\x1b\]0;owned\\x07\\x1b\[2J'", sender="printf '\\033]0;owned\\007\\033[2J' >&2; exit 1"
    ),
    "escapes-in-a-preparation": Hostile(
        "exited with status 1: red",
        more={"sender": {"command": IDLE, "prepare": [["sh", "-c", "printf '\\033[31mred' >&2; exit 1"]]}},
    ),
    "ten-gigabytes-of-output": Hostile(
        "the sender wrote more than 32 MB of output and was killed", sender="head -c 10000000000 /dev/zero"
    ),
    "very-long-line": Hostile(
        "the sender wrote more than 32 MB of output and was killed",
        sender="tr '\\0' x </dev/zero",
        more={"receiver": {"command": IDLE, "done_line": "^done"}},
    ),
    "binary-output": Hostile("the sender exited with status 3", sender="head -c 100000 /dev/urandom; exit 3"),
    "daemon": Hostile(
        "receiver has no file", sender="setsid sh -c 'setsid sleep 5000 & exec sleep 6000' >/dev/null 2>&1 & sleep 1"
    ),
    "closes-its-output": Hostile(
        "the sender had not ended", sender="exec >&- 2>&- <&-; sleep 1000", outcome="timed_out"
    ),
    "dumps-core": Hostile("the sender exited with status 134, by SIGABRT", sender="ulimit -c unlimited; kill -ABRT $$"),
}
