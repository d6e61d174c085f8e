"""The emulator service as a program: takes over two ports, serves until SIGTERM or SIGINT, leaves nothing behind."""

import argparse
import logging
import signal
import sys
from collections.abc import Sequence
from threading import Thread

from emulator.faults import EmulatorError
from emulator.server import EmulatorServer, parse_listen_address
from emulator.service import Emulator

_STOP_SIGNALS = {signal.SIGTERM, signal.SIGINT}
_REFUSED = 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve; return 0 when told to end, 1 if clearing failed, 2 if it could not begin.

    "emulator: listening on ADDRESS:PORT" on standard output tells that it is ready.
    """
    options = _parser().parse_args(arguments)
    logging.basicConfig(format="%(asctime)s %(name)s: %(message)s", level=logging.INFO, stream=sys.stderr)
    # Blocked before a thread exists, so that they stay pending for sigwait, whichever thread they meet.
    signal.pthread_sigmask(signal.SIG_BLOCK, _STOP_SIGNALS)
    try:
        host, port = parse_listen_address(options.listen)
        emulator = Emulator(options.sender_port, options.receiver_port)
        server = EmulatorServer(emulator, host, port)
    except (ValueError, EmulatorError) as error:
        return _said(error, _REFUSED)
    except OSError as error:
        return _said(
            f"listen address {options.listen}: {error.strerror}; wanted a free port of an address of ours",
            _REFUSED,
        )
    return _serve(emulator, server)


def _serve(emulator: Emulator, server: EmulatorServer) -> int:
    Thread(target=server.serve, daemon=True).start()
    print(f"emulator: listening on {server.address}", flush=True)
    signal.sigwait(_STOP_SIGNALS)
    try:
        emulator.stop()
    except EmulatorError as error:
        return _said(error, 1)
    return 0


def _said(error: object, status: int) -> int:
    print(f"emulator: {error}", file=sys.stderr)
    return status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="emulator", description=__doc__)
    parser.add_argument("--listen", required=True, metavar="ADDRESS:PORT", help="loopback or management address")
    parser.add_argument("--sender-port", required=True, metavar="INTERFACE", help="bridge port towards the sender")
    parser.add_argument("--receiver-port", required=True, metavar="INTERFACE", help="bridge port towards the receiver")
    return parser


if __name__ == "__main__":
    sys.exit(main())
