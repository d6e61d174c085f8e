"""The emulator service as a program: takes over two ports, serves until SIGTERM or SIGINT, leaves nothing behind."""

import argparse
import logging
import signal
import ssl
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from ipaddress import ip_address
from pathlib import Path
from threading import Thread

from emulator.faults import EmulatorError
from emulator.kernel.ports import find_port
from emulator.kernel.rtnetlink import open_rtnetlink
from emulator.kernel.survey import survey
from emulator.service.access import read_token
from emulator.service.emulator import Emulator, clear_ports
from emulator.service.ownership import take
from emulator.service.server import EmulatorServer, parse_listen_address, tls_context

_STOP_SIGNALS = {signal.SIGTERM, signal.SIGINT}
_REFUSED = 2

log = logging.getLogger("emulator")


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve; return 0 when told to end, 1 if clearing failed, 2 if it could not begin.

    "emulator: listening on ADDRESS:PORT" on standard output tells that it is ready. With --clear, clear what is
    ours at the ports, whoever left it there, and return at once.
    """
    options = _checked(_parser(), arguments)
    logging.basicConfig(format="%(asctime)s %(name)s: %(message)s", level=logging.INFO, stream=sys.stderr)
    if options.clear:
        return _cleared(options.sender_port, options.receiver_port)
    # Blocked before a thread exists, so that they stay pending for sigwait, whichever thread they meet.
    signal.pthread_sigmask(signal.SIG_BLOCK, _STOP_SIGNALS)
    try:
        host, port = parse_listen_address(options.listen)
        token = _token(options, host)
        tls = _tls(options)
        emulator = Emulator(options.sender_port, options.receiver_port)
    except (ValueError, EmulatorError) as error:
        return _said(error, _REFUSED)
    try:
        server = EmulatorServer(emulator, host, port, token=token, tls=tls)
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


def _cleared(*port_names: str) -> int:
    """Take away all that is ours, also if a port has gone or somebody lives on it, but not from one who serves it."""
    try:
        with open_rtnetlink() as netlink:
            found = survey(netlink)
            ports = [port for name in port_names if (port := find_port(found, name)) is not None]
            with ExitStack() as until_cleared:
                for held in take(ports):
                    until_cleared.enter_context(held)
                clear_ports(netlink, found, port_names)
    except EmulatorError as error:
        return _said(error, 1)
    return 0


def _token(options: argparse.Namespace, host: str) -> str | None:
    """Return the token; None if there is none and needs none. Raises ValueError."""
    if options.token_file is None:
        if not options.no_token and not ip_address(host).is_loopback:
            raise ValueError(
                f"listen address: got {host} without a token, wanted --token-file FILE, so that not everybody who "
                "reaches it can stop the traffic, or --no-token if nobody else can reach it"
            )
        return None
    try:
        token = read_token(options.token_file)
    except OSError as error:
        raise ValueError(f"token file {options.token_file}: {error.strerror}; wanted a file with a token") from None
    if not options.tls_certificate and not ip_address(host).is_loopback:
        log.warning("the token will cross the management network unencrypted; --tls-certificate keeps it secret")
    return token


def _tls(options: argparse.Namespace) -> ssl.SSLContext | None:
    if options.tls_certificate is None:
        return None
    try:
        return tls_context(options.tls_certificate, options.tls_key)
    except OSError as error:
        raise ValueError(
            f"certificate {options.tls_certificate} and key {options.tls_key}: {error.strerror}; wanted PEM files "
            "that belong together, the key without a passphrase"
        ) from None


def _said(error: object, status: int) -> int:
    print(f"emulator: {error}", file=sys.stderr)
    return status


def _checked(parser: argparse.ArgumentParser, arguments: Sequence[str] | None) -> argparse.Namespace:
    options = parser.parse_args(arguments)
    if not options.listen and not options.clear:
        parser.error("got neither --listen nor --clear, wanted --listen ADDRESS:PORT, as in 127.0.0.1:8765")
    if bool(options.tls_certificate) != bool(options.tls_key):
        parser.error("got one of --tls-certificate and --tls-key, wanted both or none")
    return options


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="emulator", description=__doc__)
    parser.add_argument("--listen", metavar="ADDRESS:PORT", help="loopback or management address")
    parser.add_argument("--sender-port", required=True, metavar="INTERFACE", help="bridge port towards the sender")
    parser.add_argument("--receiver-port", required=True, metavar="INTERFACE", help="bridge port towards the receiver")
    token = parser.add_mutually_exclusive_group()
    token.add_argument(
        "--token-file", type=Path, metavar="FILE", help="secret that whoever changes something has to know"
    )
    token.add_argument(
        "--no-token", action="store_true", help="anybody who reaches a management address may change the channel"
    )
    parser.add_argument("--tls-certificate", type=Path, metavar="FILE", help="serve HTTPS with this certificate (PEM)")
    parser.add_argument("--tls-key", type=Path, metavar="FILE", help="and this key")
    parser.add_argument("--clear", action="store_true", help="clear what a killed service left at the ports, and end")
    return parser


if __name__ == "__main__":
    sys.exit(main())
