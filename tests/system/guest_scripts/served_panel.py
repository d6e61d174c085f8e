"""Serves a channel for a client outside of the guest, which has no network: files are its requests and their answers.

A packet is sent every 20 ms. It ends when OUT_DIR has the file `end`.
"""

import json
import os
import threading
import time
import urllib.request
from pathlib import Path

from owlt.emulator.channel.spec import ChannelSpec
from tests.system.guest_scripts import three_hosts

OUT = Path(os.environ["OUT_DIR"])
CHANNEL = ChannelSpec.from_wire({"both": {"delay": "25 ms", "rate": "10 Mbit/s"}})
KERNEL = "tc"
"""What a request asks for that is no call of the service: the queueing disciplines, as tc shows them."""


def answer(text: str) -> bytes:
    if text == KERNEL:
        return three_hosts.shaped().encode()
    values = json.loads(text)
    request = urllib.request.Request(three_hosts.URL, values["body"].encode(), values["headers"])
    with urllib.request.urlopen(request, timeout=30) as response:
        return bytes(response.read())


def send_until(end: threading.Event) -> None:
    while not end.is_set():
        three_hosts.send("sender", count=50, size_bytes=500, pause_s=0.02)


three_hosts.make()
with three_hosts.service() as client:
    client.configure(CHANNEL)
    has_ended = threading.Event()
    sending = threading.Thread(target=send_until, args=(has_ended,))
    sending.start()
    (OUT / "ready").touch()
    while not (OUT / "end").exists():
        for request in sorted(OUT.glob("*.request")):
            text = request.read_text()
            request.unlink()
            draft = request.with_suffix(".draft")
            draft.write_bytes(answer(text))
            draft.rename(request.with_suffix(".answer"))
        time.sleep(0.01)
    has_ended.set()
    sending.join()
