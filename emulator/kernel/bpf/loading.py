"""Compiled eBPF programs in the kernel, by way of the system's libbpf.

An object has a digest of its source and of the compiler's command beside it, and a stale one is refused. What libbpf
warns of while it works is kept, for each thread, and is the reason when it fails.
"""

from __future__ import annotations

import ctypes
import errno
import hashlib
import os
import platform
import threading
from functools import cache
from pathlib import Path
from typing import Any, Self

COMPILER = "clang"
OPTIONS = [
    *["-O2", "-g", "-target", "bpf", "-mcpu=v3", "-Wall", "-Wextra", "-Werror"],
    *["-idirafter", f"/usr/include/{platform.machine()}-linux-gnu"],
    "-fdebug-compilation-dir=.",
]
"""Of a compiler that runs in the source's directory, so that objects are equal wherever that is."""


def is_compiled(source: Path) -> bool:
    """Return whether a source's object is there and of that very source."""
    return source.with_suffix(".o").exists() and not is_stale(source.with_suffix(".o"))


def is_stale(compiled: Path) -> bool:
    """Return whether the source of an object has changed since; False if there is no source beside it."""
    source, noted = compiled.with_suffix(".c"), compiled.with_suffix(".sha256")
    if not source.exists():
        return False
    return not noted.exists() or noted.read_text() != source_digest(source)


def source_digest(source: Path) -> str:
    """Return the digest of a source and of the command that compiles it."""
    return hashlib.sha256(source.read_bytes() + "\0".join([COMPILER, *OPTIONS]).encode()).hexdigest()


LIBRARY = "libbpf.so.1"
PROGRAMS = Path(__file__).with_name("programs")
_F_LOCK = 4
_ANY = 0
_FIRST = ctypes.c_uint32(0)
_WARNING = 0
_LONGEST_MESSAGE = 65536
_END_OF_LOG = "-- END PROG LOAD LOG --"
_messages = threading.local()


class BpfError(Exception):
    """A program that is not in the kernel, or a map of it that cannot be used. The text has the reason."""


class BpfObject:
    """The programs and maps of one object file: a copy of their own, there until it is closed.

    A filter holds on to its program beyond that, but the program loses what it calls: keep it as long as it is used.
    """

    def __init__(self, path: Path) -> None:
        """Load an object file into the kernel."""
        if not path.exists():
            raise BpfError(
                f"eBPF program: {path}: no such file; next: make setup, or python -m owlt.emulator.kernel.bpf.compile"
            )
        if is_stale(path):
            raise BpfError(
                f"eBPF program: {path}: was compiled from an older version of its source; next: make setup, or "
                "python -m owlt.emulator.kernel.bpf.compile"
            )
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
        """Let go of programs and maps. May be called again."""
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
        """Set the only value of a map; `locked`: all at once, by the lock that is in it."""
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
    """Take a message of libbpf; its values are a va_list, which amd64 and arm64 pass by its address."""
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
    """Return why the kernel does not take them; empty if it does."""
    try:
        for name in ("errors", "gate"):
            BpfObject(PROGRAMS / f"{name}.bpf.o").close()
    except BpfError as error:
        return str(error)
    return ""
