"""The virtual rig for experiments by hand: a guest on the real clock, whose three hosts and emulator are reached from
this machine over its second console.

Each connection to a port of this machine is one to a host's sshd, or to the emulator's service, in the guest. The
console carries frames: the number of a connection, a length, and so many bytes; the first frame of a connection names
what it goes to, an empty one ends it. Run as a program, `RIG_DIRECTORY`, this is the end in the guest.
"""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import socket
import struct
import subprocess
import sys
import threading
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from owlt.inputs.mistake import Mistake
from owlt.orchestrator.errors import Missing
from owlt.orchestrator.hosts.host import HostError
from owlt.orchestrator.own_directories import third_party_directory
from owlt.orchestrator.rigs import guest, namespaces, rig
from owlt.orchestrator.rigs.network import ROLES

HEAD = struct.Struct("!IH")
PIECE_BYTES = 32_768
EMULATOR = "service"
TARGETS = (*ROLES, EMULATOR)
"""What a connection can go to: the sshd of a host, by its role, and the emulator's service."""
CONSOLE = "/dev/tty1"
READY_MARK = "owlt: the rig is ready"
READY_S = 120.0
MODULE = "owlt.orchestrator.rigs.by_hand"
SSH_CONFIG = """\
Host {role}
  HostName 127.0.0.1
  Port {port}
  User root
  IdentityFile {directory}/user_key
  UserKnownHostsFile {directory}/known_hosts
  HostKeyAlias {role}
  IdentitiesOnly yes
  LogLevel ERROR
"""


class Line:
    """One end of the console, shared by all connections; `dial` makes the connection that a first frame asks for."""

    def __init__(self, descriptor: int, dial: Callable[[str], socket.socket] | None = None) -> None:
        self._descriptor = os.dup(descriptor)  # its number is not reused while a thread may use it
        self._dial = dial
        self._sending = threading.Lock()
        self._connections: dict[int, socket.socket] = {}

    def serve(self) -> None:
        """Hand what comes over the line to its connections, until the line ends."""
        with suppress(OSError), os.fdopen(self._descriptor, "rb", closefd=False) as line:
            while len(head := line.read(HEAD.size)) == HEAD.size:
                number, length = HEAD.unpack(head)
                self._take(number, line.read(length))
        with self._sending:
            os.close(self._descriptor)
            self._descriptor = -1

    def begin(self, connection: socket.socket, target: str) -> None:
        """Connect to a target at the other end."""
        number = secrets.randbits(32)
        self._connections[number] = connection  # the answer may be that there is nobody
        self._send(number, target.encode())
        self._join(number, connection)

    def _take(self, number: int, data: bytes) -> None:
        connection = self._connections.get(number)
        if connection is None:
            target = data.decode(errors="replace")
            if self._dial is not None and target in TARGETS:
                try:
                    self._join(number, self._dial(target))
                except OSError:
                    self._send(number, b"")
        elif data:
            with suppress(OSError):  # its other end has gone, which its own thread notices
                connection.sendall(data)
        else:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def _join(self, number: int, connection: socket.socket) -> None:
        self._connections[number] = connection
        threading.Thread(target=self._forward, args=(number, connection), daemon=True).start()

    def _forward(self, number: int, connection: socket.socket) -> None:
        with connection, suppress(OSError):
            while data := connection.recv(PIECE_BYTES):
                self._send(number, data)
        self._connections.pop(number, None)
        self._send(number, b"")

    def _send(self, number: int, data: bytes) -> None:
        frame = HEAD.pack(number, len(data)) + data
        with self._sending, suppress(OSError):
            while frame:
                frame = frame[os.write(self._descriptor, frame) :]


@dataclass(frozen=True)
class HandRig:
    """A raised rig as this machine reaches it."""

    ports: dict[str, int]
    """The port of 127.0.0.1 for each target."""
    directory: Path
    """Has `ssh_config`, for `ssh -F`, and the emulator's token."""

    @property
    def url(self) -> str:
        """The emulator's service."""
        return f"http://127.0.0.1:{self.ports[EMULATOR]}/"

    @property
    def token_file(self) -> Path:
        """The file with the emulator's token."""
        return self.directory / namespaces.TOKEN_NAME


@contextmanager
def raised_in_guest(boot: guest.Boot, directory: Path) -> Iterator[HandRig]:
    """Boot a guest, raise the rig in it, and end it afterwards. Its console is `console.log` in `directory`.

    Raises HostError if the rig does not become ready, with the end of its console.
    """
    ours, theirs = socket.socketpair()
    program = guest.python_command(MODULE, guest.RIG_DIRECTORY)
    with ours, (directory / "console.log").open("w") as log:
        with theirs:
            machine = guest.launch(boot, directory, program, console=theirs.fileno())
        try:
            _wait_until_ready(machine, directory)
            assert machine.stdout is not None
            threading.Thread(target=shutil.copyfileobj, args=(machine.stdout, log), daemon=True).start()
            line = Line(ours.fileno())
            threading.Thread(target=line.serve, daemon=True).start()
            with _listening(line) as ports:
                config = "".join(SSH_CONFIG.format(role=role, port=ports[role], directory=directory) for role in ROLES)
                (directory / "ssh_config").write_text(config)
                yield HandRig(ports, directory)
        finally:
            os.killpg(machine.pid, signal.SIGKILL)
            machine.wait()


def _wait_until_ready(machine: subprocess.Popen[str], directory: Path) -> None:
    assert machine.stdout is not None
    watchdog = threading.Timer(READY_S, machine.kill)
    watchdog.start()
    lines = []
    try:
        for text in machine.stdout:
            if READY_MARK in text:
                return
            lines.append(text.strip())
    finally:
        watchdog.cancel()
    raise HostError(f"the guest did not set up the rig: {' / '.join(lines[-5:]) or 'it printed nothing'}")


@contextmanager
def _listening(line: Line) -> Iterator[dict[str, int]]:
    """A port of 127.0.0.1 for each target, each connection to which goes over the line."""
    servers = {target: socket.create_server(("127.0.0.1", 0)) for target in TARGETS}

    def accept(target: str, server: socket.socket) -> None:
        with suppress(OSError):  # closed
            while True:
                line.begin(server.accept()[0], target)

    for target, server in servers.items():
        threading.Thread(target=accept, args=(target, server), daemon=True).start()
    try:
        yield {target: server.getsockname()[1] for target, server in servers.items()}
    finally:
        for server in servers.values():
            server.close()


def serve_in_guest(directory: Path) -> None:
    """Inside the guest: raise the rig, and serve its console until that ends."""
    here = Path.cwd()
    try:
        with namespaces.raised(directory, here, third_party_directory()):
            namespaces.make_login(directory)
            for name in ("user_key", "known_hosts", namespaces.TOKEN_NAME):
                shutil.copy(directory / name, here)
                (here / name).chmod(0o600)

            def dial(target: str) -> socket.socket:
                if target == EMULATOR:
                    return socket.create_connection((rig.EMULATOR_ADDRESS, rig.EMULATOR_PORT))
                near, far = socket.socketpair()
                with far:
                    namespaces.start_login(directory, here, target, far)
                return near

            console = os.open(CONSOLE, os.O_RDWR | os.O_NOCTTY)
            tty.setraw(console)
            print(READY_MARK, flush=True)
            Line(console, dial).serve()
    except (HostError, Missing, OSError) as problem:
        print(Mistake(str(problem)), flush=True)


if __name__ == "__main__":
    serve_in_guest(Path(sys.argv[1]))
