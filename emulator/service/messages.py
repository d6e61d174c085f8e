"""An XML-RPC request and its answer as bytes: requests are read without entities and to a limited depth.

The reader is that of xmlrpc.client, which accepts much that is not XML-RPC; so the outermost element is checked too.
"""

import re
import xmlrpc.client
from typing import Any
from xmlrpc.client import Fault

from defusedxml.xmlrpc import DefusedExpatParser

from owlt.emulator.faults import INTERNAL_ERROR, NOT_WELL_FORMED

DEEPEST = 100
"""Elements within elements; a value within an array or a struct takes three, and the deepest of a channel about 30."""
_NOT_IN_XML = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def read_call(data: bytes) -> tuple[str, tuple[Any, ...]]:
    """Return the method and the parameters that a request asks for; raise Fault if it is no XML-RPC call."""
    found = _Call()
    parser = DefusedExpatParser(found, forbid_dtd=True)
    try:
        parser.feed(data)
        parser.close()
        parameters = found.close()
    except Exception as error:  # the parser has no common class for what clients can send
        raise Fault(NOT_WELL_FORMED, f"request: not XML-RPC: {type(error).__name__}: {error!s:.200}") from None
    method = found.getmethodname()
    if not method:
        raise Fault(NOT_WELL_FORMED, "request: expected a methodName, got none")
    return method, parameters


def written_answer(answer: Any) -> bytes:
    """Return a Fault or an answer as XML-RPC has it; one that it cannot carry becomes a fault."""
    try:
        text = xmlrpc.client.dumps(answer if isinstance(answer, Fault) else (answer,), methodresponse=True)
    except (TypeError, OverflowError) as error:
        text = xmlrpc.client.dumps(Fault(INTERNAL_ERROR, f"answer: XML-RPC cannot carry it: {error}"))
    return _NOT_IN_XML.sub("?", text).encode()


class _Call(xmlrpc.client.Unmarshaller):
    """Builds the values of a call, the deepest of which lies not too deep."""

    def __init__(self) -> None:
        super().__init__(use_builtin_types=True)
        self._depth = 0

    def start(self, tag: str, attrs: dict[str, str]) -> None:
        self._depth += 1
        if self._depth == 1 and tag != "methodCall":
            raise ValueError(f"expected methodCall, got the element {tag:.50}")
        if self._depth > DEEPEST:
            raise ValueError(f"expected at most {DEEPEST} elements within each other, got more")
        super().start(tag, attrs)

    def end(self, tag: str) -> None:
        self._depth -= 1
        super().end(tag)
