#!/usr/bin/env python3
"""Stand-in for HDTN's commands bpsendfile and bpreceivefile; its name says which one. It knows nothing of bundles or
LTP.

Options with = and the keys of a duct, all of them and no others; neither program ends before it is interrupted or
terminated, bpsendfile not before 4 s have passed then, and bpreceivefile some time later. What is
printed is as HDTN 1.3.1 prints it, whose console has the program and a level before each line.
"""

from __future__ import annotations

import json
import signal
import sys
import time
from pathlib import Path

import moving

SENDING = {
    *("max-bundle-size-bytes", "file-or-folder-path", "my-uri-eid", "dest-uri-eid", "outducts-config-file"),
    *("cla-rate", "bundle-send-timeout-seconds", "bundle-lifetime-milliseconds", "use-bp-version-7"),
}
RECEIVING = {"save-directory", "my-uri-eid", "inducts-config-file", "max-rx-bundle-size-bytes"}
BOTH = {
    *("name", "convergenceLayer", "thisLtpEngineId", "remoteLtpEngineId", "oneWayLightTimeMs", "oneWayMarginTimeMs"),
    *("clientServiceId", "numRxCircularBufferElements", "ltpMaxRetriesPerSerialNumber", "ltpRandomNumberSizeBits"),
    *("ltpMaxUdpPacketsToSendPerSystemCall", "keepActiveSessionDataOnDisk"),
    *("activeSessionDataOnDiskNewFileDurationMs", "activeSessionDataOnDiskDirectory"),
}
INDUCT = BOTH | {
    *("boundPort", "ltpReportSegmentMtu", "preallocatedRedDataBytes", "ltpRemoteUdpHostname", "ltpRemoteUdpPort"),
    *("ltpRxDataSegmentSessionNumberRecreationPreventerHistorySize", "ltpMaxExpectedSimultaneousSessions"),
    "delaySendingOfReportSegmentsTimeMsOrZeroToDisable",
}
OUTDUCT = BOTH | {
    *("nextHopNodeId", "remoteHostname", "remotePort", "maxNumberOfBundlesInPipeline", "maxSumOfBundleBytesInPipeline"),
    *("ltpDataSegmentMtu", "ltpCheckpointEveryNthDataSegment", "ltpSenderBoundPort"),
    *("ltpSenderPingSecondsOrZeroToDisable", "delaySendingOfDataSegmentsTimeMsOrZeroToDisable"),
}
VERSION = "1.3.1"
ENDING_S = {"bpsendfile": 4, "bpreceivefile": 1}
"""How long they take to end."""
WHOLE_NUMBERS = ("Ms", "Mtu", "Port", "Id", "Bytes")


def log(line: str) -> None:
    """A line as HDTN's logger has it on a console."""
    print(f"[ {Path(sys.argv[0]).name:9}][ info ]: {line}", flush=True)


def options(known: set[str]) -> dict[str, str]:
    """The options of the command line, every one of them."""
    asked = dict(word.removeprefix("--").partition("=")[::2] for word in sys.argv[1:])
    if asked.keys() != known:
        moving.refuse(f"got the options {sorted(asked)}, expected {sorted(known)}")
    return asked


def duct(path: str, kind: str, known: set[str]) -> dict[str, object]:
    """The one duct of a file."""
    told = json.loads(Path(path).read_text())
    (one,) = told[f"{kind}Vector"]
    if one.keys() != known or one["convergenceLayer"] != "ltp_over_udp":
        moving.refuse(f"{path}: keys that differ: {sorted(one.keys() ^ known)}")
    if wrong := [key for key, value in one.items() if key.endswith(WHOLE_NUMBERS) and type(value) is not int]:
        moving.refuse(f"{path}: not whole numbers: {wrong}")
    print(f"stand-in duct: {json.dumps(one, sort_keys=True)}", flush=True)
    return dict(one)


def send() -> None:
    """bpsendfile."""
    asked = options(SENDING)
    out = duct(asked["outducts-config-file"], "outduct", OUTDUCT)
    file = Path(asked["file-or-folder-path"])
    udp = moving.open_udp("", int(str(out["ltpSenderBoundPort"])))
    to = (str(out["remoteHostname"]), int(str(out["remotePort"])))
    log("Up and running")
    log(f"Sending: {file.name}")
    udp.sendto(b"name " + file.name.encode(), to)
    moving.send(udp, to, file.read_bytes(), float(asked["cla-rate"]))


def receive() -> None:
    """bpreceivefile."""
    asked = options(RECEIVING)
    udp = moving.open_udp("", int(str(duct(asked["inducts-config-file"], "induct", INDUCT)["boundPort"])))
    log("Up and running")
    name = udp.recv(65535).removeprefix(b"name ").decode()
    content, _ = moving.receive(udp)
    file = Path(asked["save-directory"], name)
    file.write_bytes(content)
    log(f"closed {file}")


if __name__ == "__main__":
    log(f"This is HDTN version {VERSION}")
    if sys.argv[1:] == ["--help"]:
        log("Allowed options:")
        sys.exit()
    name = Path(sys.argv[0]).name
    stops = {signal.SIGINT, signal.SIGTERM}
    signal.pthread_sigmask(signal.SIG_BLOCK, stops)
    {"bpsendfile": send, "bpreceivefile": receive}[name]()
    signal.sigwait(stops)
    time.sleep(ENDING_S[name])
