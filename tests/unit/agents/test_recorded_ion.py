"""Datagrams of ION 4.1.3 (built for bundles of version 6 with aggregate custody signals), recorded in runs with our
endpoints: what ION sends is understood, and what ION understood is what is sent."""

from __future__ import annotations

from pathlib import Path

import pytest

from owlt.agents.bundle.blocks import decode as decode_bundle
from owlt.agents.bundle.convergence import Convergence
from owlt.agents.bundle.custody import CustodySignal, Status, decode_record
from owlt.agents.bundle.nodes import DtnClock
from owlt.agents.bundle.receiving import Receiving as BundleReceiving
from owlt.agents.bundle.sending import Sending as BundleSending
from owlt.agents.bundle.settings import Custody
from owlt.agents.bundle.settings import Settings as BundleSettings
from owlt.agents.endpoint.event_loop import Party
from owlt.agents.endpoint.files import IncomingFile
from owlt.agents.ltp.receiving import Receiving
from owlt.agents.ltp.segments import DataSegment, Report, decode, encode
from owlt.agents.ltp.sending import Sending
from owlt.agents.ltp.settings import Settings

FILE = bytes.fromhex(
    "27e53f4d936fa1804e0aa1a9ac99f1c7dd719b1b384e07b4449bb523aef75534468f44a723aa9b43"
    "ca8031d51dafb6d90a0413e5b290a8cc8b8725bd"
)
"""What every run carried, in pieces of 20 bytes where there are several bundles."""

LTP_FROM_ION = [
    "03010100010066cb32000681101202010101010100008387a1eb0101a4f5000005100869706e00312e3000140103fa890001093c"
    + FILE.hex(),
    "090101008b56",
]
OUR_REPORT = "080101008b56cb326600010066"
LTP_TO_ION = "030101000100559d6b0006101302010101000000008387a1eb0501819e9a000001083c" + FILE.hex()
REPORT_OF_ION = "0801010094689d6b5500010055"
OUR_ACKNOWLEDGEMENT = "090101009468"

SPLIT_REPORTS = {
    "08010100ff4e9e418fc03000140081fa008281688f5082992081943883b5408f5083cc78b658848b38ce1084e1308f5084f8"
    "68c62885c678ed3086bc10ed3087b910b65887ff3881d27889da18ae708a9070b6588acf30ed308bc448c6288c9258ae708c"
    "c9308281688ed300a7088f8170ae70": 0,
    "08010100ff4f9e419a9f308fc03014008f509738a708c6289738e548818c5081fa00ae7082b0588f5082c81081e24884b240"
    "ed3085a758e5488695089f2086bc109f2086e318876886f268be4087b9108f5087d048ae70888720d57888e500ed3089da18"
    "c6288aa82897388ac7488f5070ae700000": 5,
}
"""Reports on a block of 1 MB at a packet error rate of 0.1, and how many bytes ION put behind each."""


def settings(**choices: object) -> Settings:
    told = {"rate_bps": 10e6, "rtt_s": 0.05, "client_service": 1, **choices}
    return Settings(**told)  # type: ignore[arg-type]


def said(party: Party) -> list[str]:
    """All that a party has to send now."""
    datagrams = []
    party.advance(0.0)
    while party.has_datagram():
        datagrams.append(party.next_datagram(0.0).hex())
        party.advance(0.0)
    return datagrams


def test_a_block_of_ion_is_received_and_reported_on_as_ion_acknowledged(tmp_path: Path) -> None:
    with Receiving(tmp_path / "block", settings(seed=1434463540), 0.0) as party:
        party.hear(bytes.fromhex(LTP_FROM_ION[0]), 0.0)
        report = said(party)
        party.hear(bytes.fromhex(LTP_FROM_ION[1]), 0.0)
        party.advance(60.0)

    assert report == [OUR_REPORT]
    assert party.ended
    assert decode_bundle((tmp_path / "block").read_bytes()).payload == FILE
    assert " unreadable=0 refused=0 " in party.facts()


def test_a_block_that_ion_received_is_sent_and_its_report_acknowledged(tmp_path: Path) -> None:
    segment = decode(bytes.fromhex(LTP_TO_ION))
    assert isinstance(segment, DataSegment)
    (tmp_path / "bundle").write_bytes(segment.data)
    party = Sending(tmp_path / "bundle", settings(seed=952388994))

    assert said(party) == [LTP_TO_ION]
    party.hear(bytes.fromhex(REPORT_OF_ION), 0.0)
    assert said(party) == [OUR_ACKNOWLEDGEMENT]
    party.advance(60.0)
    assert party.ended


@pytest.mark.parametrize(("report", "behind"), SPLIT_REPORTS.items(), ids=["first", "second"])
def test_a_report_that_ion_split_is_read_whatever_is_behind_it(report: str, behind: int) -> None:
    octets = bytes.fromhex(report)
    segment = decode(octets)

    assert isinstance(segment, Report)
    assert len(segment.claims) == 20
    assert encode(segment) == octets[: len(octets) - behind]


def bundle_settings(custody: Custody, **choices: object) -> BundleSettings:
    told = {"rate_bps": 10e6, "rtt_s": 0.05, "convergence": Convergence.UDP, "bundle_bytes": 20, "custody": custody}
    return BundleSettings(**(told | choices))  # type: ignore[arg-type]


def bundles_of_ion(begin: str) -> list[bytes]:
    """Three bundles with custody asked for, in UDP: they differ in their number, custody id and piece of the file."""
    return [
        bytes.fromhex(
            f"0681181202010101010101008387a1eb{begin}0{number + 1}a4f5000005100869706e00312e3000140103fa8900"
            f"0a01080{number + 1}69706e3a312e3001091c303030303030303{number}"
        )
        + FILE[20 * number :][:20]
        for number in range(3)
    ]


def received(directory: Path, custody: Custody, begin: str) -> list[bytes]:
    """What our node says of ION's bundles: the payloads."""
    with IncomingFile(directory / "file") as file:
        party = BundleReceiving(file, bundle_settings(custody, pieces_of=60), DtnClock(820_540_788.0), 0.0)
        for octets in bundles_of_ion(begin):
            party.hear(octets, 0.0)
        payloads = [decode_bundle(bytes.fromhex(datagram)).payload for datagram in said(party)]
    assert (directory / "file").read_bytes() == FILE
    return payloads


def test_custody_of_bundles_of_ion_is_signalled_in_the_aggregate_that_ion_took(tmp_path: Path) -> None:
    assert received(tmp_path, Custody.AGGREGATE, "72") == [bytes.fromhex("40800103")]


def test_custody_of_bundles_of_ion_is_signalled_for_each_with_its_own_creation_time(tmp_path: Path) -> None:
    signals = [decode_record(payload) for payload in received(tmp_path, Custody.SINGLE, "12")]
    bundles = [decode_bundle(octets) for octets in bundles_of_ion("12")]

    assert all(isinstance(signal, CustodySignal) and signal.status == Status.ACCEPTED for signal in signals)
    assert [signal.created for signal in signals if isinstance(signal, CustodySignal)] == [
        bundle.created for bundle in bundles
    ]


def fragments_to_ion(begin: str, custody_block: bool) -> list[str]:
    """The bundles that ION put together, and accepted custody of."""
    return [
        f"06191502010101000001008387a1eb{begin}00819e9a0000{20 * number:02x}3c"
        + (f"0a00080{number + 1}69706e3a312e30" if custody_block else "")
        + "010814"
        + FILE[20 * number :][:20].hex()
        for number in range(3)
    ]


SIGNALS_OF_ION = {
    Custody.AGGREGATE: [
        "0682161201000200020000008387a1eb6f0185a3000005100869706e00322e300013010200ff1401010001090440800103"
    ],
    Custody.SINGLE: [
        f"0682161301000200020000008387a1eb0e0{number + 1}819e9a000005100869706e00322e300013010200ff14010100010918218"
        f"0{20 * number:02x}148387a1eb0e008387a1eb0e000769706e3a312e31"
        for number in range(3)
    ],
}


@pytest.mark.parametrize(("custody", "begin"), [(Custody.AGGREGATE, "6e"), (Custody.SINGLE, "0e")])
def test_bundles_that_ion_took_are_sent_and_its_signals_settle_them(custody: Custody, begin: str) -> None:
    sent = fragments_to_ion(begin, custody is Custody.AGGREGATE)
    created = decode_bundle(bytes.fromhex(sent[0])).created
    party = BundleSending(FILE, bundle_settings(custody), DtnClock(float(created.dtn_s)), 0.0)

    assert said(party) == sent
    for signal in SIGNALS_OF_ION[custody]:
        party.hear(bytes.fromhex(signal), 0.0)
    party.advance(0.0)
    assert party.ended
    assert " unreadable=0 " in party.facts()
