"""Exit statuses in words: what a program ended with, and by which signal where one ended it.

A shell gives 128 + n for a program that signal n ended; Linux has signals 1 to 64, so 193 to 255 are the program's own
(POSIX, "Exit Status for Commands"; signal(7)). SSH gives -1 for any signal (RFC 4254, section 6.10, as paramiko reads
it), and subprocess -n.
"""

from __future__ import annotations

import signal

BY_SIGNAL = -1
"""What paramiko gives for a program that a signal ended: which one is not known."""
SHELL_BASE, LAST_SIGNAL = 128, 64


def how_ended(status: int) -> str:
    """The end of a program, to follow its name: "ended with status 3", "ended with status 139, by SIGSEGV"."""
    if status == BY_SIGNAL:
        return "was ended by a signal"
    if status < 0:
        return f"was ended by {_signal_name(-status)}"
    by = f", by {_signal_name(status - SHELL_BASE)}" if SHELL_BASE < status <= SHELL_BASE + LAST_SIGNAL else ""
    return f"ended with status {status}{by}"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
