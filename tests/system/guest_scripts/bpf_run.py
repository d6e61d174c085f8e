"""Runs an eBPF program on a frame in memory, by the kernel's test run: its verdict, and the frame as it left it."""

import ctypes
from typing import Any

PASSED, DROPPED = 0xFFFF_FFFF, 2


class _Options(ctypes.Structure):
    """libbpf's struct bpf_test_run_opts."""

    _fields_ = [
        ("size", ctypes.c_size_t),
        ("data_in", ctypes.c_char_p),
        ("data_out", ctypes.c_void_p),
        ("data_size_in", ctypes.c_uint32),
        ("data_size_out", ctypes.c_uint32),
        ("context_in", ctypes.c_void_p),
        ("context_out", ctypes.c_void_p),
        ("context_size_in", ctypes.c_uint32),
        ("context_size_out", ctypes.c_uint32),
        ("verdict", ctypes.c_uint32),
        ("repeat", ctypes.c_int),
        ("duration_ns", ctypes.c_uint32),
        ("flags", ctypes.c_uint32),
        ("cpu", ctypes.c_uint32),
        ("batch_size", ctypes.c_uint32),
    ]


def run(stage: Any, frame: bytes, repeat: int = 1) -> tuple[bool, bytes, int]:
    """Whether a frame passed, as what, and how many ns it took; repeated, it is the mean time that counts."""
    left = ctypes.create_string_buffer(len(frame))
    options = _Options(
        size=ctypes.sizeof(_Options),
        data_in=frame,
        data_out=ctypes.addressof(left),
        data_size_in=len(frame),
        data_size_out=len(frame),
        repeat=repeat,
    )
    code = ctypes.CDLL("libbpf.so.1").bpf_prog_test_run_opts(stage.program, ctypes.byref(options))
    if code or options.verdict not in (PASSED, DROPPED):
        raise RuntimeError(f"test run: code {code}, verdict {options.verdict:#x}")
    return options.verdict == PASSED, left.raw, options.duration_ns


def flipped(before: bytes, after: bytes) -> list[int]:
    """The bits in which two frames of one length differ; the first is the highest of the first byte."""
    length = len(before) * 8
    difference = int.from_bytes(before, "big") ^ int.from_bytes(after, "big")
    return [length - 1 - place for place in reversed(range(difference.bit_length())) if difference >> place & 1]
