"""How tcpdump is asked to capture without losing packets, and what its closing words mean.

Starting and stopping the process is the caller's: wait for `READY_LINE` on stderr, end it with SIGINT.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

WHOLE_FRAMES = 262_144
"""The snapshot length, in bytes, that tcpdump itself takes for "everything"."""

READY_LINE = re.compile(r"^tcpdump: listening on (?P<interface>\S+), link-type EN10MB\b", re.MULTILINE)
"""The stderr line after which every frame is captured; it does not match on a link that is not Ethernet."""

_COUNTER = re.compile(
    r"^(?P<count>\d+) packets? (?P<name>captured|received by filter|dropped by kernel|dropped by interface)$",
    re.MULTILINE,
)


@dataclass(frozen=True)
class CaptureCounters:
    """The four packet counts that tcpdump prints when it ends (tcpdump(1), pcap_stats(3PCAP))."""

    captured: int
    received_by_filter: int
    dropped_by_kernel: int
    dropped_by_interface: int

    @property
    def complete(self) -> bool:
        """Whether every packet that the kernel offered is in the file.

        Fewer captured than received means that packets were still in the ring at the stop: tcpdump calls
        those neither captured nor dropped.
        """
        dropped = self.dropped_by_kernel + self.dropped_by_interface
        return self.captured == self.received_by_filter and dropped == 0


def capture_command(
    interface: str, path: str, snaplen_bytes: int = WHOLE_FRAMES, buffer_kib: int = 32_768
) -> list[str]:
    """The tcpdump call that writes `interface` to `path`, the first `snaplen_bytes` of each frame.

    `--immediate-mode` hands packets over one by one, so that none waits in the ring when SIGINT comes;
    the large ring (`-B`, KiB) keeps that mode from dropping under load. `-Z root` keeps Debian's tcpdump
    from becoming user tcpdump, who may not write to the run's folder.
    """
    if snaplen_bytes < 1:
        raise ValueError(
            f"snaplen_bytes for {interface}: got {snaplen_bytes}, wanted at least 1; "
            f"leave it out to capture whole frames"
        )
    options = f"--immediate-mode --time-stamp-precision=nano -nn -B {buffer_kib} -s {snaplen_bytes} -Z root"
    return ["tcpdump", "-i", interface, *options.split(), "-w", path]


def parse_counters(stderr_text: str) -> CaptureCounters:
    """The counters in what tcpdump wrote to stderr; ValueError if it did not get to write them.

    "dropped by interface" is printed only when it is not zero.
    """
    found = {match["name"]: int(match["count"]) for match in _COUNTER.finditer(stderr_text)}
    missing = {"captured", "received by filter", "dropped by kernel"} - found.keys()
    if missing:
        raise ValueError(
            f"tcpdump's stderr: no line with packets {', '.join(sorted(missing))}; it ends with "
            f"{stderr_text.strip()[-200:]!r}; was tcpdump ended with something else than SIGINT or SIGTERM?"
        )
    return CaptureCounters(
        captured=found["captured"],
        received_by_filter=found["received by filter"],
        dropped_by_kernel=found["dropped by kernel"],
        dropped_by_interface=found.get("dropped by interface", 0),
    )
