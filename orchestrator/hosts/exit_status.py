"""Exit statuses as text, with the name of the signal that ended a program.

A shell gives 128 + n for a program that signal n ended; Linux has signals 1 to 64, so 193 to 255 are the program's own
(POSIX, "Exit Status for Commands"; signal(7)). SSH gives -1 for any signal (RFC 4254, section 6.10, as paramiko reads
it), and subprocess -n.
"""

from __future__ import annotations

import signal

BY_SIGNAL = -1
"""The exit status that paramiko reports for a program that a signal ended; which signal is unknown."""
SHELL_BASE, LAST_SIGNAL = 128, 64


def how_ended(status: int) -> str:
    """The end of a program, to follow its name: "exited with status 3", "exited with status 139, by SIGSEGV"."""
    if status == BY_SIGNAL:
        return "was killed by a signal"
    if status < 0:
        return f"was killed by {_signal_name(-status)}"
    by = f", by {_signal_name(status - SHELL_BASE)}" if SHELL_BASE < status <= SHELL_BASE + LAST_SIGNAL else ""
    return f"exited with status {status}{by}"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
