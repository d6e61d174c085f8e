"""A transfer over a loopback that loses packets, looked at by the sampler, by ss(8) and nstat(8): a line of each."""

import json
import re
import socket
import subprocess
import sys

PORT, SIZE = 5001, 2_000_000
COUNTERS = (
    "TcpRetransSegs",
    "TcpExtTCPTimeouts",
    "TcpExtTCPFastRetrans",
    "TcpExtTCPLossProbes",
    "TcpExtTCPSackRecovery",
)


def run(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def counters() -> dict[str, int]:
    return {name: int(json.loads(run("nstat", "-a", "-z", "-j"))["kernel"][name]) for name in COUNTERS}


def main() -> None:
    run("ip", "link", "set", "lo", "mtu", "1500", "up")
    run("tc", "qdisc", "add", "dev", "lo", "root", "netem", "delay", "10ms", "loss", "2%")
    run("ethtool", "-K", "lo", "tso", "off", "gso", "off", "gro", "off")
    before = counters()
    command = [sys.executable, "-m", "owlt.agents.probes.tcp_samples", "127.0.0.1", "127.0.0.1", str(PORT), "0.01"]
    sampler = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert sampler.stderr.readline() == "sampling\n"
    with socket.create_server(("127.0.0.1", PORT)) as listener:
        client = socket.create_connection(("127.0.0.1", PORT))
        server, _ = listener.accept()
        came = 0
        for sent in range(0, SIZE, 20_000):
            client.sendall(bytes(20_000))
            while came < sent + 20_000:
                came += len(server.recv(1 << 16))
        while (shown := run("ss", "-tinOH", "dport", "=", str(PORT))).find("unacked:") >= 0:
            pass
    grown = {name: value - before[name] for name, value in counters().items()}
    sampler.terminate()
    told = json.loads(sampler.communicate()[0].splitlines()[0])
    (mine,) = [each for each in told["sockets"] if each["peer_port"] == PORT]
    print(
        json.dumps(
            {
                "retrans": mine["total_retrans"],
                "bytes_sent": mine["bytes_sent"],
                "bytes_retrans": mine["bytes_retrans"],
                "bytes_acked": mine["bytes_acked"],
                "segs_out": mine["segs_out"],
                "data_segs_out": mine["data_segs_out"],
                "counters": {name: told["counters"].get(name, 0) for name in COUNTERS},
            }
        )
    )

    def of_ss(pattern: str) -> int:
        return int(found[1]) if (found := re.search(pattern, shown)) else 0

    names = ("bytes_sent", "bytes_retrans", "bytes_acked", "segs_out", "data_segs_out")
    theirs = {name: of_ss(rf"\b{name}:(\d+)") for name in names}
    print(json.dumps({"retrans": of_ss(r"\bretrans:\d+/(\d+)")} | theirs | {"counters": grown}))


main()
