"""The sockets that a run has opened on a host, beside those of its other services."""

from __future__ import annotations

import pytest

from owlt.orchestrator.run.observing import opened_since, sockets_of

BEFORE = ["sctp 36412 LISTEN", "tcp 22 ESTABLISHED", "tcp 22 LISTEN", "udp 123"]
TABLES = {
    "udp": """\
   sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode ref pointer drops
  445: 00000000:11CC 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 465 2 00000000fc4e1d32 0
""",
    "tcp6": """\
  sl  local_address                         remote_address                        st tx_queue rx_queue tr tm->when
   0: 00000000000000000000000000000000:1389 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000
   1: 00000000000000000000000000000000:1389 00000000000000000000000000000001:8000 06 00000000:00000000 00:00000000
""",
    "sctp/eps": """\
 ENDPT     SOCK   STY SST HBKT LPORT   UID INODE LADDRS
8332e030 d35149fe 2   10  36   5003      0   442 10.77.0.2
""",
    "sctp/assocs": """\
 ASSOC     SOCK   STY SST ST HBKT ASSOC-ID TX_QUEUE RX_QUEUE UID INODE LPORT RPORT LADDRS <-> RADDRS HBINT INS OUTS
3760092d 9c75e440 2   1   3  0       3   215040        0       0   463 34107  5003  10.77.0.1 <-> *10.77.0.2 \t  36000
f94d7bc3 f8475564 2   8   4  0       4        0     6640       0   464 5003  34107  10.77.0.2 <-> *10.77.0.1 \t  36000
""",
}
"""Tables of /proc/net, as kernels print them."""


class OneHost:
    """A host whose kernel has no other tables."""

    def network_tables(self, *names: str) -> str:
        return "".join(TABLES.get(name, "") for name in names)


def test_the_sockets_of_each_transport_are_named_by_port_and_state() -> None:
    assert sockets_of(OneHost()) == [  # type: ignore[arg-type]
        "sctp 34107 ESTABLISHED",
        "sctp 5003 LISTEN",
        "sctp 5003 SHUTDOWN_PENDING",
        "tcp 5001 LISTEN",
        "udp 4556",
    ]


@pytest.mark.parametrize(
    ("now", "opened"),
    [
        (BEFORE, []),
        ([*BEFORE, "udp 4556"], ["udp 4556"]),
        ([*BEFORE, "udp 123"], ["udp 123"]),
        ([*BEFORE, "tcp 5001 LISTEN", "tcp 5001 ESTABLISHED"], ["tcp 5001 ESTABLISHED", "tcp 5001 LISTEN"]),
        ([*BEFORE, "tcp 22 ESTABLISHED", "tcp 22 CLOSE_WAIT"], []),
        ([*BEFORE, "sctp 36412 ESTABLISHED"], []),
        ([*BEFORE, "sctp 22 ESTABLISHED"], ["sctp 22 ESTABLISHED"]),
        ([*BEFORE, "tcp 2222 ESTABLISHED"], ["tcp 2222 ESTABLISHED"]),
    ],
    ids=[
        "none",
        "one of UDP",
        "a second one",
        "a server",
        "further connections of SSH",
        "one of SCTP",
        "another transport",
        "a similar port",
    ],
)
def test_sockets_of_the_run_are_those_that_no_service_of_the_host_had_before(now: list[str], opened: list[str]) -> None:
    assert opened_since(BEFORE, now) == opened
