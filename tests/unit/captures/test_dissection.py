"""The dissectors of the profiles, and the message if tshark is missing."""

from __future__ import annotations

from pathlib import Path

import pytest
from ruamel.yaml import YAML

from owlt.captures.protocols.messages import messages
from owlt.captures.protocols.tshark import NoDissection, parse_dissector
from tests.unit.captures.making import SESSION, timed, udp_frame, write_pcap
from tests.unit.captures.octets import BUNDLES_OVER_LTP

UDT = ("-d", "udp.port==5222,udt")
"""Its packets are always dissected by tshark."""

PROFILES = sorted((Path(__file__).parents[3] / "profiles" / "implementations").glob("*.yaml"))


@pytest.mark.parametrize("profile", PROFILES, ids=lambda path: path.stem)
def test_the_dissector_of_every_profile_is_understood(profile: Path) -> None:
    parse_dissector(YAML(typ="safe").load(profile.read_text()).get("dissector", []))


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (("-x", "udp.port==1,ltp"), "expected -d, .* got '-x'"),
        (("-d",), "got '-d' without a value"),
        (("-d", "ltp"), "-d: expected udp.port==5000,ltp .* got 'ltp'"),
    ],
)
def test_other_options_are_refused_with_what_is_wanted(options: tuple[str, ...], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        parse_dissector(options)


def test_a_port_that_no_option_names_has_the_only_protocol_there_is() -> None:
    assert parse_dissector(("-d", "udp.port==4433,quic")).protocol("udp", 4434) == "quic"
    assert parse_dissector(BUNDLES_OVER_LTP).protocol("udp", 4434) == ""


def test_without_tshark_it_is_said_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(NoDissection, match="apt-get install tshark"):
        messages(write_pcap(tmp_path / "x.pcap", timed([udp_frame(bytes(40))])), SESSION, UDT)
