"""Runs a command under a seccomp filter that allows everything and has a listener: no filter below it can have one."""

import ctypes
import os
import sys

PR_SET_NO_NEW_PRIVS = 38
SECCOMP, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER = 317, 1, 8
RETURN, ALLOW = 6, 0x7FFF0000


class Instruction(ctypes.Structure):
    """struct sock_filter."""

    _fields_ = (("code", ctypes.c_ushort), ("jt", ctypes.c_ubyte), ("jf", ctypes.c_ubyte), ("k", ctypes.c_uint))


class Program(ctypes.Structure):
    """struct sock_fprog."""

    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.POINTER(Instruction)))


def main() -> None:
    """Set the filter, keep its listener open, and run the command."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    program = Program(1, (Instruction * 1)(Instruction(RETURN, 0, 0, ALLOW)))
    flags = SECCOMP_FILTER_FLAG_NEW_LISTENER
    listener = libc.syscall(SECCOMP, SECCOMP_SET_MODE_FILTER, flags, ctypes.byref(program))
    if listener < 0:
        raise OSError(ctypes.get_errno(), "no filter with a listener")
    os.set_inheritable(listener, True)
    os.execv(sys.argv[1], sys.argv[1:])


main()
