"""Compiled eBPF programs: where they are, and in the kernel, by way of the system's libbpf.

An object is beside its source or in the user's cache, with a digest of its source and of the compiler's command. A
stale one is refused. Warnings of libbpf are kept for each thread, and are the reason if it fails.
"""

from __future__ import annotations

import ctypes
import errno
import hashlib
import os
import platform
import sys
import threading
from functools import cache
from pathlib import Path
from typing import Any, Self

from owlt.installation import cache_directory, setup_command

PROGRAMS = Path(__file__).with_name("programs")
COMPILER = "clang"
OPTIONS = [
    *["-O2", "-g", "-target", "bpf", "-mcpu=v3", "-Wall", "-Wextra", "-Werror"],
    *["-idirafter", f"/usr/include/{platform.machine()}-linux-gnu"],
    "-fdebug-compilation-dir=.",
]
"""Options of the compiler, which runs in the source's directory, so that objects do not depend on its path."""


def object_cache() -> Path:
    """Where objects are, in a directory for each digest, if the directory of their source is read-only."""
    return cache_directory() / "bpf"


def object_places(source: Path) -> list[Path]:
    """The paths that the object of a source may have, the preferred one first."""
    name = source.with_suffix(".o").name
    cached = [object_cache() / source_digest(source)[:16] / name] if source.exists() else []
    return [source.with_name(name), *cached]


def compiled_object(source: Path) -> Path | None:
    """Return the object of the present source; None if it was not compiled since its last change."""
    places = object_places(source)
    return next((path for path in places if path.exists() and not is_stale(path, source)), None)


def is_stale(compiled: Path, source: Path) -> bool:
    """Return whether the source of an object has changed since; False if the source is not there."""
    noted = compiled.with_suffix(".sha256")
    if not source.exists():
        return False
    return not noted.exists() or noted.read_text() != source_digest(source)


def source_digest(source: Path) -> str:
    """Return the digest of a source and of the command that compiles it."""
    return hashlib.sha256(source.read_bytes() + "\0".join([COMPILER, *OPTIONS]).encode()).hexdigest()


def sources(directory: Path = PROGRAMS) -> list[Path]:
    """Return the sources of all programs."""
    return sorted(directory.glob("*.bpf.c"))


LIBRARY = "libbpf.so.1"
_F_LOCK = 4
_ANY = 0
_FIRST = ctypes.c_uint32(0)
_WARNING = 0
_SCHED_CLS = 3  # BPF_PROG_TYPE_SCHED_CLS
_INSTRUCTION_BYTES = 8
_LONGEST_MESSAGE = 65536
_END_OF_LOG = "-- END PROG LOAD LOG --"
_messages = threading.local()


class BpfError(Exception):
    """A program that could not be loaded, or a map of it that cannot be used. The text has the reason."""


def find_object(name: str, directory: Path = PROGRAMS) -> Path:
    """The compiled program of a name, such as "errors". Raises BpfError with the next step."""
    source = directory / f"{name}.bpf.c"
    if (found := compiled_object(source)) is not None:
        return found
    present = [path for path in object_places(source) if path.exists()]
    problem = "was compiled from an older version of its source" if present else "is not compiled"
    raise BpfError(
        f"eBPF program: {source.with_suffix('.o').name}: {problem}; next: {setup_command()}, or "
        f"{sys.executable} -m owlt.emulator.kernel.bpf.compile"
    )


class BpfObject:
    """A separate copy of the programs and maps of one object file, until it is closed. A filter keeps its program after
    that, but without the programs that it calls: keep this object as long as it is used.
    """

    def __init__(self, path: Path) -> None:
        """Load an object file into the kernel."""
        self._library = libbpf()
        self._name = path.name.removesuffix("".join(path.suffixes))
        _messages.texts = []
        handle = self._library.bpf_object__open_file(os.fsencode(path), None)
        if not handle:
            raise BpfError(self._refused("open", ctypes.get_errno()))
        self._handle: int | None = handle
        code = self._library.bpf_object__load(handle)
        if code:
            self.close()
            raise BpfError(self._refused("load", -code))

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close."""
        self.close()

    def close(self) -> None:
        """Release programs and maps. May be called again."""
        if self._handle is not None:
            self._library.bpf_object__close(self._handle)
            self._handle = None

    def program(self, name: str) -> int:
        """Return the file descriptor of a program."""
        program = self._library.bpf_object__find_program_by_name(self._open_handle(), name.encode())
        if not program:
            raise BpfError(f"eBPF program {self._name}: has no program {name}")
        return int(self._library.bpf_program__fd(program))

    def write(self, map_name: str, value: bytes, locked: bool = False) -> None:
        """Set the only value of a map; `locked`: atomically, with the lock in it."""
        flags = ctypes.c_uint64(_F_LOCK if locked else _ANY)
        code = self._library.bpf_map_update_elem(self._map(map_name), ctypes.byref(_FIRST), value, flags)
        if code:
            raise BpfError(self._refused(f"write {map_name}", -code))

    def read(self, map_name: str, size_bytes: int, locked: bool = False) -> bytes:
        """Return the only value of a map, which has this size."""
        value = ctypes.create_string_buffer(size_bytes)
        flags = ctypes.c_uint64(_F_LOCK if locked else _ANY)
        code = self._library.bpf_map_lookup_elem_flags(self._map(map_name), ctypes.byref(_FIRST), value, flags)
        if code:
            raise BpfError(self._refused(f"read {map_name}", -code))
        return value.raw

    def _map(self, name: str) -> int:
        descriptor = self._library.bpf_object__find_map_fd_by_name(self._open_handle(), name.encode())
        if descriptor < 0:
            raise BpfError(f"eBPF program {self._name}: has no map {name}")
        return int(descriptor)

    def _open_handle(self) -> int:
        if self._handle is None:
            raise BpfError(f"eBPF program {self._name}: is closed")
        return self._handle

    def _refused(self, what: str, code: int) -> str:
        steps = {
            errno.EPERM: "run the emulator as root or with CAP_BPF and CAP_NET_ADMIN",
            errno.ENOSYS: "use a kernel with CONFIG_BPF_SYSCALL, 5.15 or newer",
            errno.EINVAL: "use a kernel of 5.15 or newer",
        }
        step = steps.get(code, "")
        reason = _reason(_texts())
        _messages.texts = []
        return f"eBPF program {self._name}: {what}: {os.strerror(code)}{reason}" + (f"; next: {step}" if step else "")


class Classifier:
    """A program for filters of queueing disciplines, given by its instructions. A filter keeps it when it is closed."""

    def __init__(self, instructions: bytes) -> None:
        """Load it into the kernel. Raises BpfError."""
        library = libbpf()
        count = ctypes.c_size_t(len(instructions) // _INSTRUCTION_BYTES)
        descriptor = library.bpf_prog_load(_SCHED_CLS, None, b"Dual MIT/GPL", instructions, count, None)
        if descriptor < 0:
            _messages.texts = []
            raise BpfError(f"eBPF program of a class of packets: load: {os.strerror(-descriptor)}")
        self.program = int(descriptor)

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Release the program."""
        os.close(self.program)


def _reason(messages: list[str]) -> str:
    """The last line of the verifier's log before its statistics, or the first message of libbpf."""
    lines = [line.strip().removeprefix("libbpf: ") for text in messages for line in text.splitlines() if line.strip()]
    if _END_OF_LOG in lines:
        log = [line for line in lines[: lines.index(_END_OF_LOG)] if not line.startswith("processed ")]
        return f": {log[-1]}" if log else ""
    return f": {lines[0]}" if lines else ""


@cache
def libbpf() -> Any:
    try:
        library = ctypes.CDLL(LIBRARY, use_errno=True)
    except OSError as error:
        raise BpfError(f"{LIBRARY}: {error}; next: install it (Debian: libbpf1)") from error
    library.bpf_object__open_file.restype = ctypes.c_void_p
    library.bpf_object__open_file.argtypes = [ctypes.c_char_p, ctypes.c_void_p]
    library.bpf_object__load.argtypes = [ctypes.c_void_p]
    library.bpf_object__close.argtypes = [ctypes.c_void_p]
    library.bpf_object__find_program_by_name.restype = ctypes.c_void_p
    library.bpf_object__find_program_by_name.argtypes = [ctypes.c_void_p, ctypes.c_char_p]
    library.bpf_program__fd.argtypes = [ctypes.c_void_p]
    library.bpf_object__find_map_fd_by_name.argtypes = [ctypes.c_void_p, ctypes.c_char_p]
    library.libbpf_set_print(_KEEP)
    return library


def _keep(level: int, form: bytes, values: int) -> int:
    """Keep a message of libbpf; its values are a va_list, which amd64 and arm64 pass by its address."""
    if level > _WARNING:
        return 0
    text = ctypes.create_string_buffer(_LONGEST_MESSAGE)
    written = int(ctypes.CDLL(None).vsnprintf(text, ctypes.c_size_t(len(text)), form, ctypes.c_void_p(values)))
    _messages.texts = [*_texts(), text.value.decode(errors="replace")]
    return written


def _texts() -> list[str]:
    return list(getattr(_messages, "texts", []))


_KEEP = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)(_keep)


def bpf_reason() -> str:
    """Return why the kernel refuses the programs; empty if it accepts them."""
    try:
        for name in ("errors", "gate"):
            BpfObject(find_object(name)).close()
    except BpfError as error:
        return str(error)
    return ""
