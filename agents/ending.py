"""How the programs of this package end: one line that says why, and an exit status of one meaning everywhere."""

import sys
from collections.abc import Callable

COMPLETE = 0
FAILED = 1
UNSUPPORTED = 127


class Failed(Exception):
    """The transfer did not come to its end."""


class Unsupported(Exception):
    """This build cannot do what it was asked, however often it is tried."""


def exit_status(work: Callable[[], str]) -> int:
    """Run a program's work, print the plain facts that it returns or the one line why it ended otherwise."""
    try:
        print(f"complete {work()}", flush=True)
        return COMPLETE
    except Failed as failure:
        print(f"failed: {failure}", file=sys.stderr)
        return FAILED
    except Unsupported as refusal:
        print(f"unsupported: {refusal}", file=sys.stderr)
        return UNSUPPORTED
    except OSError as error:
        print(f"failed: {error.filename or 'network'}: {error.strerror or error}", file=sys.stderr)
        return FAILED
    except KeyboardInterrupt:
        print("failed: interrupted", file=sys.stderr)
        return FAILED
