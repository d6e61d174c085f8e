"""The emulator service: takes over two ports, serves until SIGTERM, SIGINT or SIGHUP, and leaves nothing behind."""

import argparse
import gc
import logging
import signal
import ssl
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from ipaddress import ip_address
from pathlib import Path
from threading import Thread
from typing import NoReturn

from owlt.emulator.faults import EmulatorError
from owlt.emulator.kernel.ports import find_port, survey, take
from owlt.emulator.kernel.rtnetlink import open_rtnetlink
from owlt.emulator.service.access import read_token
from owlt.emulator.service.emulator import Emulator, clear_ports
from owlt.emulator.service.server import EmulatorServer, parse_listen_address, tls_context

_STOP_SIGNALS = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP}
_REFUSED = 2

log = logging.getLogger("emulator")


def main(arguments: Sequence[str] | None = None, command: str = "emulator") -> int:
    """Serve; return 0 after a signal to stop, 1 if clearing failed, 2 if it could not start.

    "emulator: listening on ADDRESS:PORT" on standard output means that it is ready. With --clear, clear what an
    emulator left at the ports, and return at once. `command` is how the user started it.
    """
    options = _checked(_parser(command), arguments)
    logging.basicConfig(format="%(asctime)s %(name)s: %(message)s", level=logging.INFO, stream=sys.stderr)
    if options.clear:
        return _cleared(options.sender_port, options.receiver_port)
    # Blocked before a thread exists, so that they stay pending for sigwait, whichever thread they meet.
    # One that is ignored, as SIGHUP is under nohup, stays ignored.
    stop_signals = {number for number in _STOP_SIGNALS if signal.getsignal(number) is not signal.SIG_IGN}
    signal.pthread_sigmask(signal.SIG_BLOCK, stop_signals)
    try:
        host, port = parse_listen_address(options.listen)
        token = _token(options, host)
        tls = _tls(options)
        emulator = Emulator(options.sender_port, options.receiver_port)
    except (ValueError, EmulatorError) as error:
        return _report(error, _REFUSED)
    try:
        server = EmulatorServer(emulator, host, port, token=token, tls=tls)
    except OSError as error:
        return _report(
            f"--listen {options.listen}: {error.strerror}; choose an address of this machine and a free port",
            _REFUSED,
        )
    return _serve(emulator, server, stop_signals)


def _serve(emulator: Emulator, server: EmulatorServer, stop_signals: set[signal.Signals]) -> int:
    gc.collect()
    gc.freeze()  # its modules are never garbage, and looking at all of them would be most of the work of a request
    Thread(target=server.serve, daemon=True).start()
    print(f"emulator: listening on {server.address}", flush=True)
    signal.sigwait(stop_signals)
    try:
        emulator.stop()
    except EmulatorError as error:
        return _report(error, 1)
    return 0


def _cleared(*port_names: str) -> int:
    """Remove all that is ours, even if a port has gone or has an address; refuse if another emulator serves it."""
    try:
        with open_rtnetlink() as netlink:
            state = survey(netlink)
            ports = [port for name in port_names if (port := find_port(state, name)) is not None]
            with ExitStack() as until_cleared:
                for held in take(ports):
                    until_cleared.enter_context(held)
                clear_ports(netlink, state, port_names)
    except EmulatorError as error:
        return _report(error, 1)
    return 0


def _token(options: argparse.Namespace, host: str) -> str | None:
    """Return the token; None if there is none and needs none. Raises ValueError."""
    if options.token_file is None:
        if not options.no_token and not ip_address(host).is_loopback:
            raise ValueError(
                f"--listen: {host} requires a token, because anyone who can reach it could stop the traffic; give "
                "--token-file FILE, or --no-token if no one else can reach it"
            )
        return None
    try:
        token = read_token(options.token_file)
    except OSError as error:
        raise ValueError(f"token file {options.token_file}: {error.strerror}: expected a file with a token") from None
    if not options.tls_certificate and not ip_address(host).is_loopback:
        log.warning("the token crosses the management network unencrypted: --tls-certificate keeps it secret")
    return token


def _tls(options: argparse.Namespace) -> ssl.SSLContext | None:
    if options.tls_certificate is None:
        return None
    try:
        return tls_context(options.tls_certificate, options.tls_key)
    except OSError as error:
        raise ValueError(
            f"certificate {options.tls_certificate} and key {options.tls_key}: {error.strerror}: expected PEM files "
            "that belong together, the key without a passphrase"
        ) from None


def _report(error: object, status: int) -> int:
    print(f"emulator: {error}", file=sys.stderr)
    return status


def _checked(parser: argparse.ArgumentParser, arguments: Sequence[str] | None) -> argparse.Namespace:
    options = parser.parse_args(arguments)
    if not options.listen and not options.clear:
        parser.error("--listen is missing; give ADDRESS:PORT, as in 127.0.0.1:8765, or --clear")
    if bool(options.tls_certificate) != bool(options.tls_key):
        parser.error("got only one of --tls-certificate and --tls-key, expected both or neither")
    return options


class _Parser(argparse.ArgumentParser):
    """A parser whose errors are one line: the program, its command, what is wrong, and the help page."""

    def error(self, message: str) -> NoReturn:
        missing = message.partition("the following arguments are required: ")[2].split(", ")
        if missing != [""]:
            message = f"{' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing"
        self.exit(_REFUSED, f"{self.prog.replace(' ', ': ', 1)}: {message}; see: {self.prog} --help\n")


def _parser(command: str = "emulator") -> argparse.ArgumentParser:
    parser = _Parser(prog=command, description=__doc__)
    parser.add_argument(
        "--listen", metavar="ADDRESS:PORT", help="address to listen on: loopback, or the management interface's"
    )
    parser.add_argument("--sender-port", required=True, metavar="INTERFACE", help="bridge port towards the sender")
    parser.add_argument("--receiver-port", required=True, metavar="INTERFACE", help="bridge port towards the receiver")
    token = parser.add_mutually_exclusive_group()
    token.add_argument(
        "--token-file", type=Path, metavar="FILE", help="file with the token that a client needs to change the channel"
    )
    token.add_argument(
        "--no-token", action="store_true", help="let anyone who can reach the address change the channel"
    )
    parser.add_argument("--tls-certificate", type=Path, metavar="FILE", help="serve HTTPS with this certificate (PEM)")
    parser.add_argument("--tls-key", type=Path, metavar="FILE", help="the certificate's private key (PEM)")
    parser.add_argument("--clear", action="store_true", help="clear what a killed service left on the ports, and exit")
    return parser


if __name__ == "__main__":
    sys.exit(main())
