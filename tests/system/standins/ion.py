#!/usr/bin/env python3
"""Stand-in for the programs of ION that a profile calls; its name says which one. It knows nothing of bundles, custody
or LTP.

Every line of a commands file is one that ionrc(5), ltprc(5), acsrc(5), bprc(5) or ipnrc(5) have, in an order in which
ION can be started; a node is a process of its own, which bpadmin leaves behind. What is printed, beside the lines that
begin with "stand-in", and what goes to ion.log is as ION 4.1.3 has it. An original ends with status 0 and a line in its
log where a stand-in refuses. Its heap, its working memory and the memory of aggregates are System V shared memory of
the sizes that ION takes; acsadmin without memory says so and ends with status 0, and custody is then signalled for each
bundle.
"""

from __future__ import annotations

import ctypes
import json
import queue
import re
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import moving

VERSION = "ION-OPEN-SOURCE-4.1.3"
BUNDLES = "bpv6"
STATE = Path("node.json")
LOG = Path("ion.log")
SOCKET = "node.socket"
PLACE = r"(\d+\.\d+\.\d+\.\d+):(\d+)"
COMMANDS = {
    "ionadmin": [
        r"1 (?P<node>\d+) node\.ionconfig",
        r"s",
        r"a contact \+1 \+\d+ 1 2 (?P<rate_1>[1-9]\d*)",
        r"a contact \+1 \+\d+ 2 1 (?P<rate_2>[1-9]\d*)",
        r"a range \+1 \+\d+ 1 2 (?P<owlt>\d+)",
    ],
    "ltpadmin": [
        r"1 \d+",
        r"m screening n",
        r"m maxber (?P<maxber>[01]\.\d+)",
        rf"a span \d+ \d+ \d+ \d+ \d+ \d+ 'udplso (?P<ltp_peer>{PLACE}) \d+'",
        rf"s 'udplsi (?P<ltp_own>{PLACE})'",
    ],
    "acsadmin": [r"1 \d+ (?P<acs_words>\d+)", r"s \d+", r"a ipn:\d+\.0 (?P<acs_size>\d+) (?P<acs_delay>\d+)"],
    "bpadmin": [
        r"1",
        r"a scheme ipn 'ipnfw' 'ipnadminep'",
        r"a endpoint (?P<endpoint>ipn:\d+\.1) q",
        r"a protocol (ltp|udp) \d+ \d+",
        r"a induct ltp \d+ ltpcli",
        r"a outduct ltp \d+ ltpclo",
        rf"a induct udp (?P<udp_own>{PLACE}) udpcli",
        rf"a outduct udp (?P<udp_peer>{PLACE}) 'udpclo ({PLACE} )?(?P<timer>\d+)'",
        r"s",
    ],
    "ipnadmin": [rf"a plan \d+ (?P<plan>ltp/\d+|udp/{PLACE})"],
}
WORD_BYTES = 8
UNITS = {"heapWords": WORD_BYTES, "wmSize": 1}
"""The sizes in ionconfig(5), in bytes."""
NEEDED = {"ltpadmin": "rate_1", "acsadmin": "rate_1", "bpadmin": "rate_1", "ipnadmin": "running"}


def take_memory(size_bytes: int) -> bool:
    """Make a segment of shared memory, which stays when this program ends. Whether there was room for it."""
    ipc_private, owner = 0, 0o600
    return ctypes.CDLL(None).shmget(ipc_private, ctypes.c_size_t(size_bytes), owner) >= 0


def administer(program: str, file: str) -> None:
    """Take in a commands file, line by line."""
    state = json.loads(STATE.read_text()) if STATE.exists() else {}
    if NEEDED.get(program, "") not in ("", *state):
        moving.refuse(f"{program} before what it builds on")
    for line in Path(file).read_text().splitlines():
        found = next((match for pattern in COMMANDS[program] if (match := re.fullmatch(pattern, line))), None)
        if found is None:
            moving.refuse(f"{file}: {line!r}")
        print(f"stand-in {program}: {line}", flush=True)
        if program == "acsadmin" and line.startswith("1 ") and not take_memory(WORD_BYTES * int(found["acs_words"])):
            print("Couldn't initialize ACS", flush=True)
        state |= {key: value for key, value in found.groupdict().items() if value is not None}
    if program == "ionadmin" and "rate_1" not in state:
        configure(Path("node.ionconfig"))
    if program == "bpadmin":
        state["running"] = True
    STATE.write_text(json.dumps(state))
    if program == "bpadmin":
        start_node()
    print(f"Stopping {program}.", flush=True)
    if program == "ipnadmin" and state["plan"].startswith("udp/") and state["plan"] != f"udp/{state['udp_peer']}":
        moving.refuse(f"{file}: no outduct of that name")


def note(line: str) -> None:
    """Add a line to the node's log."""
    with LOG.open("a") as log:
        log.write(f"[{time.strftime('%Y/%m/%d-%H:%M:%S', time.gmtime())}] [i] {line}\n")


def converse() -> None:
    """Administration at the console, of which the version alone is asked for."""
    for line in sys.stdin:
        if line == "v\n":
            print(f": {VERSION}")
        elif line == "q\n":
            break
        else:
            moving.refuse(f"{line!r}")
    print("Stopping ionadmin.")


def configure(file: Path) -> None:
    """Take in ionconfig(5)."""
    print(f"[i] admin pgm using SDR parm overrides from {file}.", flush=True)
    for line in file.read_text().splitlines():
        if not re.fullmatch(r"(configFlags|heapWords|wmSize) \d+|pathName /.+", line):
            moving.refuse(f"{file}: {line!r}")
        key, value = line.split()
        if key in UNITS and not take_memory(UNITS[key] * int(value)):
            moving.refuse(f"no shared memory for {line}")


def start_node() -> None:
    """Leave a node behind that can be talked to."""
    with LOG.open("a") as log:
        node = subprocess.Popen(
            [sys.executable, __file__, "--node"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            start_new_session=True,
        )
    assert node.stdout is not None
    if node.stdout.readline() != b"running\n":
        moving.refuse("the node did not start")
    note("This node deploys bundle protocol version 6.")


def be_a_node() -> None:
    """Send what is handed over, at the rate of the contact; keep what arrives until it is asked for."""
    state = json.loads(STATE.read_text())
    layer = "udp" if "udp_own" in state else "ltp"
    (own, own_port), (peer, peer_port) = (state[f"{layer}_{side}"].split(":") for side in ("own", "peer"))
    rate_bps = 8 * int(state[f"rate_{state['node']}"])
    udp = moving.open_udp(own, int(own_port))
    arrived: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    leaving: queue.SimpleQueue[bytes] = queue.SimpleQueue()

    def listen() -> None:
        reassembly = moving.Reassembly()
        while True:
            if (whole := reassembly.take(udp.recv(65535))) is not None:
                arrived.put(whole)

    def speak() -> None:
        number = 0
        while True:
            number += 1
            moving.send(udp, (peer, int(peer_port)), leaving.get(), rate_bps, number)

    for work in (listen, speak):
        threading.Thread(target=work, daemon=True).start()
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(SOCKET)
        server.listen()
        print("running", flush=True)
        while True:
            client, _ = server.accept()
            with client, client.makefile("rwb") as talk:
                asked = talk.readline().decode().split()
                if asked[0] == "send":
                    leaving.put(Path(asked[1]).read_bytes())
                else:
                    talk.write(arrived.get())


def ask(request: str) -> bytes:
    """Talk to the node of this directory."""
    with socket.socket(socket.AF_UNIX) as client, client.makefile("rwb") as talk:
        client.connect(SOCKET)
        talk.write(f"{request}\n".encode())
        talk.flush()
        return talk.read()


def send(own: str, to: str, file: str, class_of_service: str, lifetime: str) -> None:
    """bpsendfile: hands over, and ends."""
    if not re.fullmatch(r"[01]\.[012](\.\d+(\.[01]\.[01])?)?", class_of_service) or int(lifetime) < 1:
        moving.refuse(f"class of service {class_of_service!r}, lifetime {lifetime!r}")
    if own != json.loads(STATE.read_text())["endpoint"] or to != "ipn:2.1":
        moving.refuse(f"from {own} to {to}")
    print(f"stand-in bpsendfile: {class_of_service} {Path(file).stat().st_size}", flush=True)
    note("bpsendfile is running.")
    ask(f"send {file}")
    note(f"bpsendfile sent '{file}', size {Path(file).stat().st_size}.")
    print("Stopping bpsendfile.", flush=True)


def receive(own: str, files: str) -> None:
    """bprecvfile: waits for one file."""
    if own != json.loads(STATE.read_text())["endpoint"] or files != "1":
        moving.refuse(f"{files} files at {own}")
    note("bprecvfile is running.")
    content = ask("receive")
    Path("testfile1").write_bytes(content)
    note(f"bprecvfile has created 'testfile1', size {len(content)}.")
    print("Stopping bprecvfile.", flush=True)


def main() -> None:
    """The program of this name."""
    name = Path(sys.argv[0]).name
    if sys.argv[1:] == ["--node"]:
        be_a_node()
    elif name == "bpversion" and len(sys.argv) == 1:
        print(BUNDLES)
    elif name == "ionadmin" and len(sys.argv) == 1:
        converse()
    elif name in COMMANDS and len(sys.argv) == 2:
        administer(name, sys.argv[1])
    elif name == "bpsendfile" and len(sys.argv) == 6:
        send(*sys.argv[1:])
    elif name == "bprecvfile" and len(sys.argv) == 3:
        receive(*sys.argv[1:])
    else:
        moving.refuse(f"{name} {sys.argv[1:]}")


if __name__ == "__main__":
    main()
