"""The end of our endpoints: one line with the result or the reason, and an exit status with one meaning for all."""

import sys
from collections.abc import Callable

COMPLETE = 0
FAILED = 1
UNSUPPORTED = 127


class Failed(Exception):
    """The transfer has failed."""


class Unsupported(Exception):
    """This implementation cannot do what its options specify; repeating is useless."""


def exit_status(work: Callable[[], str]) -> int:
    """Run a program's work; print the counters that it returns, or the one line with the reason of its failure."""
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
