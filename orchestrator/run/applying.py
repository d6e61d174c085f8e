"""The channel during a run: applied with its seeds and MTU, read back, its timeline played, compared at the end."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack

from owlt.emulator.channel.spec import ETHERNET_MTU_BYTES, ChannelSpec
from owlt.emulator.faults import ChannelRefused, NotCapable
from owlt.orchestrator.planning.plan import Run, channel_of
from owlt.orchestrator.rigs.rig import Rig
from owlt.orchestrator.run.state import Ended, PlayedTimeline, RunResult, Setting
from owlt.results.record import Faults, Outcome, ReasonCode, Statistics, WrittenSession

LATEST_STEP_NS = 5_000_000
"""A step of a timeline that is later than this makes the run suspect."""


def apply_channel(run: Run, setting: Setting, result: RunResult) -> None:
    """Have the emulator make the channel. Raises Ended if it refuses."""
    specified = channel_of(run, setting.channel_of(run), setting.netem_takes_seeds)
    if specified.faults:
        scope = expression_of_session(result.session)
        specified = specified.model_copy(update={"fault_scope": scope})
    try:
        result.channel = setting.rig.channel.configure(specified).to_wire()
    except ChannelRefused as refusal:
        code = ReasonCode.CHANNEL_UNSUPPORTED if isinstance(refusal, NotCapable) else ReasonCode.CHANNEL_REFUSED
        raise Ended(Outcome.ABORTED, code, f"the emulator refused the channel: {refusal}") from refusal
    finally:
        enter_certificate(run, setting, result)


def enter_certificate(run: Run, setting: Setting, result: RunResult) -> None:
    """Enter the verdict on the channel, and, if it was applied, the reasons why the run is suspect because of it."""
    certified = setting.certificates.get(run.channel_key)
    if certified is None:
        return
    result.certificate = certified.verdict
    if result.channel is not None:
        result.suspect += [f"the channel's certificate: {sentence}" for sentence in certified.suspicion]


def set_mtu(rig: Rig, mtu_bytes: int, undo: ExitStack) -> None:
    """Give the interfaces of the test path, on hosts and emulator, the MTU of a channel, which `undo` takes back.

    Only on a rig that owlt itself makes: the interfaces of a lab rig are its owner's.
    """
    if mtu_bytes == ETHERNET_MTU_BYTES:
        return
    ends = [(end.host, end.interface) for end in (rig.sender, rig.receiver)]
    ports = [(rig.emulator, port) for port in (rig.sender_port, rig.receiver_port)]
    for host, interface in (*ends, *ports):
        undo.callback(host.run, _mtu_command(interface, ETHERNET_MTU_BYTES))
        host.check(_mtu_command(interface, mtu_bytes))


def _mtu_command(interface: str, mtu_bytes: int) -> list[str]:
    return ["ip", "link", "set", "dev", interface, "mtu", str(mtu_bytes)]


def start_timeline(run: Run, setting: Setting) -> None:
    """Let the channel change with time from now on, if it does, and let its aimed faults count."""
    if run.faults:
        setting.rig.channel.faults_start()
    if setting.channel_of(run).timeline is not None:
        setting.rig.channel.timeline_start()


def close_channel(
    run: Run, setting: Setting, before: Statistics, at_the_end: tuple[ChannelSpec | None, Statistics], result: RunResult
) -> None:
    """Enter the channel's state `at_the_end` and what its stages counted since `before`, when the captures began."""
    channel, counted = at_the_end
    if run.faults:
        _note_faults(run, setting, result)
    if setting.channel_of(run).timeline is not None:
        _note_timeline(setting, result)
    elif channel is not None and (has := channel.to_wire()) != result.channel:
        result.suspect.append(f"the channel was another at the end of the run: {has}")
    result.emulator_statistics = {
        way: {name: counted_since(before.get(way, {}).get(name, {}), values) for name, values in stages.items()}
        for way, stages in counted.items()
    }


def counted_since(before: Mapping[str, int], now: Mapping[str, int]) -> dict[str, int]:
    """The increase of counters, without packets that waited before; a number of waiting packets is no counter."""
    waited = {name: before.get(f"waiting_{name}", 0) for name in ("packets", "bytes")}
    return {
        name: value if name.startswith("waiting_") else value - before.get(name, 0) - waited.get(name, 0)
        for name, value in now.items()
    }


def _note_timeline(setting: Setting, result: RunResult) -> None:
    """Stop the timeline, so that the channel changes no more, and enter how it was played."""
    status = setting.rig.channel.timeline_stop()
    result.timeline = PlayedTimeline(status["steps_applied"], status["latest_ns"])
    if status["failure"]:
        result.suspect.append(f"the channel's timeline broke off: {status['failure']}")
    if status["latest_ns"] > LATEST_STEP_NS:
        result.suspect.append(f"a step of the channel's timeline came {status['latest_ns'] / 1e6:.1f} ms late")


def _note_faults(run: Run, setting: Setting, result: RunResult) -> None:
    """Enter what the aimed faults hit."""
    result.faults = Faults.model_validate(setting.rig.channel.faults_status())
    result.suspect += doubts_about_faults(run, result.faults)


def doubts_about_faults(run: Run, faults: Faults) -> list[str]:
    """Why the aimed faults make a run suspect. One that hit nothing does: it is not the run asked for. One that has a
    probability may hit none of the packets that pass.
    """
    doubts = []
    for written, fault in zip(run.faults, faults.faults, strict=True):
        if not fault.hits and not (fault.seen and "probability" in written):
            seen = {0: "no packet", 1: "1 packet"}.get(fault.seen, f"{fault.seen} packets")
            doubts.append(f"the fault {fault.fault} hit nothing: {seen} of its class passed")
    return doubts + ([f"the channel's faults broke off: {faults.failure}"] if faults.failure else [])


def expression_of_session(session: WrittenSession) -> str:
    """The expression of pcap-filter(7) that passes the session's packets, without fragments behind the first. (With
    `captures.frames.session`, which defines a session, every guest would load numpy.)
    """
    sender, receiver = session["sender_address"], session["receiver_address"]
    groups = " or ".join(f"dst host {each}" for each in (receiver, *_listed(session, "multicast_groups")))
    back = " or ".join(f"dst host {each}" for each in (sender, *_listed(session, "multicast_groups")))
    ports = [
        f"{transport} {'portrange' if isinstance(port, str) else 'port'} {port}"
        for transport in ("udp", "tcp", "sctp")
        for port in _listed(session, f"{transport}_ports")
    ]
    between = f"(src host {sender} and ({groups})) or (src host {receiver} and ({back}))"
    return f"{'ip6' if ':' in str(sender) else 'ip'} and ({between}) and ({' or '.join(ports)})"


def _listed(session: WrittenSession, key: str) -> list[object]:
    values = session.get(key, [])
    return list(values) if isinstance(values, list | tuple) else []
