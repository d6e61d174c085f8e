"""SDNVs: RFC 6256's own examples, every number there and back, and bytes that are no number."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from owlt.agents.ltp import sdnv


@pytest.mark.parametrize(
    ("number", "octets"), [(0xABC, "953c"), (0x1234, "a434"), (0x4234, "818434"), (0x7F, "7f"), (0, "00")]
)
def test_numbers_are_written_as_the_rfc_writes_them(number: int, octets: str) -> None:
    assert sdnv.encode(number).hex() == octets


@settings(max_examples=200, deadline=None)
@given(st.integers(0, sdnv.LARGEST), st.binary(max_size=3), st.binary(max_size=3))
def test_a_number_is_read_back_from_where_it_stands(number: int, before: bytes, behind: bytes) -> None:
    octets = before + sdnv.encode(number) + behind

    assert sdnv.decode(octets, len(before)) == (number, len(octets) - len(behind))


@pytest.mark.parametrize("number", [-1, sdnv.LARGEST + 1])
def test_what_64_bits_do_not_hold_is_not_written(number: int) -> None:
    with pytest.raises(ValueError, match="expected 0 to"):
        sdnv.encode(number)


@pytest.mark.parametrize("octets", ["", "80", "ffff", "82808080808080808000", "80808080808080808080800"[:22]])
def test_what_has_no_end_or_more_than_64_bits_is_no_number(octets: str) -> None:
    with pytest.raises(sdnv.NoNumber):
        sdnv.decode(bytes.fromhex(octets), 0)
