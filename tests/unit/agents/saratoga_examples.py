"""Packets of Saratoga to test with, as hypothesis draws them: every value that the wire can carry."""

from __future__ import annotations

from hypothesis import strategies as st

from owlt.agents.saratoga.packets import DIGEST_BYTES, Code, Data, Metadata, Request, Status

sessions = st.integers(0, 2**32 - 1)
names = st.text(st.characters(blacklist_characters="\0", blacklist_categories=["Cs"]), max_size=60)
descriptors = st.sampled_from([16, 32, 64, 128])
stamps = st.just(b"") | st.binary(min_size=16, max_size=16)


def offsets(bits: int) -> st.SearchStrategy[int]:
    return st.integers(0, 2**bits - 1)


@st.composite
def holes(draw: st.DrawFn, bits: int) -> tuple[tuple[int, int], ...]:
    edges = draw(st.lists(offsets(bits), max_size=20, unique=True).map(sorted))
    return tuple(zip(edges[::2], edges[1::2], strict=False))


@st.composite
def requests(draw: st.DrawFn, bits: st.SearchStrategy[int] = descriptors) -> Request:
    return Request(
        session=draw(sessions), action=draw(st.integers(0, 255)), name=draw(names), descriptor_bits=draw(bits)
    )


@st.composite
def metadata(draw: st.DrawFn, bits: st.SearchStrategy[int] = descriptors, kinds: tuple[str, ...] = ()) -> Metadata:
    of, kind = draw(bits), draw(st.sampled_from(kinds or tuple(DIGEST_BYTES)))
    return Metadata(
        session=draw(sessions),
        file_bytes=draw(offsets(of)),
        name=draw(names),
        checksum=kind,
        digest=draw(st.binary(min_size=DIGEST_BYTES[kind], max_size=DIGEST_BYTES[kind])),
        descriptor_bits=of,
    )


@st.composite
def data(draw: st.DrawFn) -> Data:
    bits = draw(descriptors)
    return Data(
        session=draw(sessions),
        offset=draw(offsets(bits)),
        payload=draw(st.binary(max_size=100)),
        asks=draw(st.booleans()),
        ends=draw(st.booleans()),
        timestamp=draw(stamps),
        descriptor_bits=bits,
    )


@st.composite
def statuses(draw: st.DrawFn) -> Status:
    bits = draw(descriptors)
    return Status(
        session=draw(sessions),
        code=draw(st.integers(0, 255)),
        progress=draw(offsets(bits)),
        in_response_to=draw(offsets(bits)),
        holes=draw(holes(bits)),
        partial=draw(st.booleans()),
        voluntary=draw(st.booleans()),
        metadata_missing=draw(st.booleans()),
        timestamp=draw(stamps),
        descriptor_bits=bits,
    )


@st.composite
def data_0(draw: st.DrawFn) -> Data:
    return Data(
        session=draw(sessions),
        offset=draw(offsets(32)),
        payload=draw(st.binary(max_size=100)),
        asks=draw(st.booleans()),
        ends=False,
        timestamp=b"",
        descriptor_bits=32,
    )


@st.composite
def statuses_0(draw: st.DrawFn) -> Status:
    return Status(
        session=draw(sessions),
        code=Code.SUCCESS,
        progress=draw(offsets(32)),
        in_response_to=draw(offsets(32)),
        holes=draw(holes(32)),
        partial=draw(st.booleans()),
        voluntary=draw(st.booleans()),
        metadata_missing=draw(st.booleans()),
        timestamp=b"",
        descriptor_bits=32,
    )


version_1_packets = requests() | metadata() | data() | statuses()
version_0_packets = requests(st.just(32)) | metadata(st.just(32), ("none",)) | data_0() | statuses_0()
