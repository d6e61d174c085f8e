"""A rig in memory: three hosts, the network between two of them, and an emulator that carries no packets.

`MemoryRig().rig` goes wherever a rig does. Implementations are installed on `sender` and `receiver` as scripts.
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Sequence
from pathlib import PurePosixPath

from owlt.captures.files.tcpdump_command import WHOLE_FRAMES
from owlt.emulator.service.client import EmulatorClient
from owlt.orchestrator.hosts.binaries import FIND_PROGRAM, LIBRARIES
from owlt.orchestrator.hosts.confinement import MAKE_RUN_DIRECTORY, REMOVE_RUN_DIRECTORY
from owlt.orchestrator.hosts.host import Completed
from owlt.orchestrator.rigs import rig
from owlt.orchestrator.rigs.killed_programs import KilledPrograms
from owlt.orchestrator.rigs.rig import Rig
from tests.memory.commands import done, failed
from tests.memory.emulator import MemoryEmulator, MemoryTransport
from tests.memory.host import MemoryHost, Network
from tests.memory.process import Process, Script

PYTHON = "/usr/bin/python3"
WATCH = "/opt/owlt/watch.py"
THIRD_PARTY = "/opt/third-party"
_PCAP_HEADER = struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, WHOLE_FRAMES, 1)
"""Of a capture of Ethernet frames with times in nanoseconds (pcap-savefile(5))."""


class MemoryKilledPrograms(KilledPrograms):
    """What a test says was ended."""

    def __init__(self) -> None:
        self.sentences: list[str] = []

    def take(self) -> list[str]:
        """The sentences, and begin anew."""
        taken, self.sentences = self.sentences, []
        return taken


class MemoryRig:
    """All that a rig is made of, for a test to script; `rig` is the rig itself."""

    def __init__(self, emulator: MemoryEmulator | None = None) -> None:
        self.emulator = emulator or MemoryEmulator()
        self.transport = MemoryTransport(self.emulator)
        self.network = Network()
        self.killed_programs = MemoryKilledPrograms()
        self.sender, self.receiver, self.middle = (
            MemoryHost(role, network=self.network) for role in ("sender", "receiver", "emulator")
        )
        """The three hosts."""
        self.modules: dict[str, Script] = {
            WATCH: watch,
            "owlt.agents.probes.tcp_samples": sample,
        }
        """What Python on the hosts runs, by the name of a module or the path of a file."""
        for host in (self.sender, self.receiver):
            host.scripts |= {
                MAKE_RUN_DIRECTORY: _make_run_directory,
                REMOVE_RUN_DIRECTORY: _remove_run_directory,
                FIND_PROGRAM: _find_program,
                LIBRARIES: _list_nothing,
            }
            host.install(PYTHON, self._python)
            host.qdiscs[rig.TEST_INTERFACE] = "noqueue"
        for host in (self.sender, self.middle, self.receiver):
            host.install("/usr/bin/tcpdump", capture)
        self.rig = Rig(
            sender=rig.TestHost(self.sender, rig.SENDER_ADDRESS, rig.TEST_INTERFACE),
            receiver=rig.TestHost(self.receiver, rig.RECEIVER_ADDRESS, rig.TEST_INTERFACE),
            emulator=self.middle,
            channel=EmulatorClient("http://memory", transport=self.transport),
            sender_port=rig.SENDER_PORT,
            receiver_port=rig.RECEIVER_PORT,
            python=PYTHON,
            watch=WATCH,
            third_party=THIRD_PARTY,
            killed_programs=self.killed_programs,
        )

    def _python(self, process: Process) -> int | None:
        """Python: of its options, the module or the file counts."""
        words = [word for word in process.arguments if word not in ("-I", "-S", "-m", "-u")]
        module = words[0] if words else ""
        if module not in self.modules:
            process.complain(f"{PYTHON}: No module named {module}")
            return 1
        process.arguments = words[1:]
        return self.modules[module](process)


def watch(process: Process) -> int | None:
    """What `agents/probes/watch.py` prints."""
    directory, name, *awaited = process.arguments
    path, files = str(PurePosixPath(directory, name)), process.host.files

    def tell_change() -> None:
        changed_at_ns = files.entry(path).changed_at_ns if files.is_file(path) else None
        process.print("no change" if changed_at_ns is None else f"last change {changed_at_ns}")
        process.exit(0)

    def is_complete() -> bool:
        content = files.read(path) if files.is_file(path) else b""
        return [hashlib.sha256(content).hexdigest(), str(len(content))] == awaited

    process.on("TERM", tell_change)
    process.print("watching")
    if awaited:
        process.wait_for(is_complete)
        process.print("delivered")
    process.wait_for_signal()


def sample(process: Process) -> int | None:
    """What `agents.probes.tcp_samples` prints of a host without sockets."""
    period_ns = int(float(process.arguments[-1]) * 1e9)

    def tell() -> None:
        counted = {"sockets": [], "counters": {}, "others_retransmitted": 0, "dsack": True, "period_ns": period_ns}
        process.print(json.dumps(counted))
        process.exit(0)

    process.on("TERM", tell)
    process.complain("sampling")
    process.wait_for_signal()


def capture(process: Process) -> int | None:
    """What tcpdump writes of a port that no frame crosses, and how it lists the port's time stamps."""
    port, path = process.arguments[process.arguments.index("-i") + 1], process.arguments[-1]
    if path == "-J":
        process.complain(f"Time stamp types for {port} (use option -j to set):\n  host (Host)")
        process.exit(0)

    def count() -> None:
        for text in ("captured", "received by filter", "dropped by kernel"):
            process.complain(f"0 packets {text}")

    def end() -> None:
        count()
        process.exit(0)

    process.on("USR1", count)
    process.on("INT", end)
    process.write_file(path, _PCAP_HEADER)
    process.complain(f"tcpdump: listening on {port}, link-type EN10MB (Ethernet), snapshot length {WHOLE_FRAMES} bytes")
    process.wait_for_signal()


def _make_run_directory(host: MemoryHost, arguments: Sequence[str]) -> Completed:
    _, path, size_bytes = arguments
    try:
        host.files.mount(path, int(size_bytes))
        host.files.write(f"{path}.mounts", b"")
    except OSError as problem:
        return failed(f"mount: {path}: {problem.strerror}", 32)
    return done()


def _remove_run_directory(host: MemoryHost, arguments: Sequence[str]) -> Completed:
    path = arguments[1]
    host.files.unmount(path)
    host.files.remove(path)
    host.files.remove(f"{path}.mounts")
    return done()


def _list_nothing(host: MemoryHost, arguments: Sequence[str]) -> Completed:
    """Programs in memory load no libraries."""
    return Completed(0, b"", b"")


def _find_program(host: MemoryHost, arguments: Sequence[str]) -> Completed:
    found = [path for path in map(host.path_of, arguments[1:]) if path is not None]
    return done(f"{found[0]}\n") if found else failed("")
