"""The methods of the service, which of them change something, and the token and lease that these need.

Each call goes through `Methods.call`, whether it came alone or within a system.multicall, so that nothing gets
past the token and the lease.
"""

from __future__ import annotations

import inspect
import logging
import re
import xmlrpc.client
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from reprlib import repr as short_repr
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin
from xmlrpc.client import Fault

from defusedxml.xmlrpc import DefusedExpatParser

from owlt.emulator.faults import (
    INTERNAL_ERROR,
    INVALID_PARAMETERS,
    NOT_WELL_FORMED,
    UNKNOWN_METHOD,
    EmulatorError,
    NotAllowed,
)
from owlt.emulator.service.access import Credentials, LeaseKeeper, check_token
from owlt.emulator.service.emulator import Emulator
from owlt.inputs.mistake import Mistake

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
    """Builds the values of a call, with a limit on their depth."""

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


READING = (
    *("describe", "statistics", "snapshot", "capabilities", "version"),
    *("timeline_status", "faults_status", "lease_status"),
)
CHANGING = (
    *("configure", "change", "bypass", "clear", "timeline_start", "timeline_stop"),
    *("faults_start", "faults_replace", "certify"),
)
"""Methods that need the token and, if a client holds the lease, the lease."""
LEASING = ("lease", "renew", "release")
"""Methods that need the token."""
MOST_CALLS = 100
_XML_RPC_TYPES = {bool: "boolean", int: "int", float: "double", str: "string", list: "array", tuple: "array"}

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Method:
    """Something that can be called."""

    run: Callable[..., Any]
    needs_token: bool = False
    changes: bool = False


class Methods:
    """The methods of an emulator and of its lease, and those of introspection."""

    def __init__(self, emulator: Emulator, keeper: LeaseKeeper, token: str | None) -> None:
        self._token = token
        self._keeper = keeper
        self._methods = {
            **{name: Method(getattr(emulator, name)) for name in READING if name != "lease_status"},
            "lease_status": Method(keeper.lease_status),
            **{name: Method(getattr(emulator, name), needs_token=True, changes=True) for name in CHANGING},
            **{name: Method(getattr(keeper, name), needs_token=True) for name in LEASING},
            "system.listMethods": Method(self.list_methods),
            "system.methodHelp": Method(self.method_help),
            "system.methodSignature": Method(self.method_signature),
        }

    @property
    def names(self) -> list[str]:
        """Every method, sorted."""
        return sorted([*self._methods, "system.multicall"])

    @property
    def has_token(self) -> bool:
        """Whether calls that change something need a token."""
        return self._token is not None

    def knows(self, credentials: Credentials) -> bool:
        """Whether a request has the token, if one is needed."""
        try:
            check_token(self._token, credentials.token)
        except NotAllowed:
            return False
        return True

    def too_long(self, most_bytes: int, credentials: Credentials) -> bytes:
        """Return the answer to a request that is longer than `most_bytes` and does not have the token."""
        problem = "got none" if credentials.token is None else "got a wrong one"
        expected = f"the service's token in the HTTP header of a request of more than {most_bytes:,} bytes"
        mistake = Mistake.of("token", problem, expected, "send 'Authorization: Bearer TOKEN'")
        return written_answer(Fault(NotAllowed.code, str(mistake)))

    def answer(self, body: bytes, credentials: Credentials) -> bytes:
        """Return the answer to a request, both as XML-RPC has them."""
        answer: Any
        try:
            answer = self.call(*read_call(body), credentials)
        except Fault as fault:
            answer = fault
        return written_answer(answer)

    def call(self, name: str, parameters: tuple[Any, ...], credentials: Credentials) -> Any:
        """Call the method and return its answer; raise Fault for any error."""
        if name == "system.multicall":
            return self.multicall(parameters, credentials)
        method = self._method(name)
        try:
            inspect.signature(method.run).bind(*parameters)
        except TypeError as error:
            raise Fault(INVALID_PARAMETERS, f"{name}: {error}; expected {_written(name, method)}") from None
        return self._answer(method, parameters, credentials)

    def list_methods(self) -> list[str]:
        """Return the names of all methods."""
        return self.names

    def method_help(self, method: str) -> str:
        """Return the description of a method and of its parameters."""
        if method == "system.multicall":
            return inspect.getdoc(self.multicall) or ""
        found = self._method(method)
        return f"{_written(method, found)}\n\n{inspect.getdoc(found.run)}"

    def method_signature(self, method: str) -> list[list[str]]:
        """Return the ways to call a method, each as the type of the answer and those of the parameters."""
        if method == "system.multicall":
            return [["array", "array"]]
        signature = inspect.signature(self._method(method).run, eval_str=True)
        types = [_xml_rpc_type(parameter.annotation) for parameter in signature.parameters.values()]
        needed = sum(parameter.default is parameter.empty for parameter in signature.parameters.values())
        answer = _xml_rpc_type(signature.return_annotation)
        return [[answer, *types[:count]] for count in range(needed, len(types) + 1)]

    def _method(self, name: object) -> Method:
        method = self._methods.get(name) if isinstance(name, str) else None
        if method is None:
            raise Fault(UNKNOWN_METHOD, f"method: expected one of {', '.join(self.names)}, got {name!r:.100}")
        return method

    def _answer(self, method: Method, parameters: tuple[Any, ...], credentials: Credentials) -> Any:
        try:
            if method.needs_token:
                check_token(self._token, credentials.token)
            with self._keeper.changing(credentials.lease) if method.changes else nullcontext():
                return method.run(*parameters)
        except EmulatorError as error:
            log.info("%s refused: %s", method.run.__name__, str(error).replace("\n", "; "))
            raise Fault(error.code, str(error)) from None
        except Fault:
            raise
        except Exception as error:
            log.exception("a call failed")
            raise Fault(INTERNAL_ERROR, f"{type(error).__name__}: {error}; see the emulator's log") from None

    def multicall(self, parameters: tuple[Any, ...], credentials: Credentials) -> list[Any]:
        """Make several calls, one after the other, each given as {methodName, params}; at most 100.

        Return for each an array that holds its answer, or its fault as {faultCode, faultString}. After a call that
        fails the others are still made.
        """
        calls = parameters[0] if len(parameters) == 1 else None
        if not isinstance(calls, list) or len(calls) > MOST_CALLS:
            got = f"{len(calls)} calls" if isinstance(calls, list) else f"{parameters!r:.50}"
            raise Fault(
                INVALID_PARAMETERS,
                f"system.multicall: expected one array of at most {MOST_CALLS} calls, got {got}",
            )
        return [self._one_of_many(call, credentials) for call in calls]

    def _one_of_many(self, call: object, credentials: Credentials) -> Any:
        try:
            name, parameters = _one_call(call)
            return [self.call(name, parameters, credentials)]
        except Fault as fault:
            return {"faultCode": fault.faultCode, "faultString": fault.faultString}


def _one_call(call: object) -> tuple[str, tuple[Any, ...]]:
    name, parameters = (call.get("methodName"), call.get("params", [])) if isinstance(call, dict) else (None, None)
    if not isinstance(name, str) or not isinstance(parameters, list) or name == "system.multicall":
        raise Fault(
            INVALID_PARAMETERS,
            f"system.multicall: expected {{methodName: a string, params: an array}}, and no multicall within it, got "
            f"{short_repr(call)}",
        )
    return name, tuple(parameters)


def _written(name: str, method: Method) -> str:
    return f"{name}({', '.join(inspect.signature(method.run).parameters)})"


def _xml_rpc_type(annotation: Any) -> str:
    if get_origin(annotation) in (Union, UnionType):
        annotation = next(choice for choice in get_args(annotation) if choice is not NoneType)
    return _XML_RPC_TYPES.get(get_origin(annotation) or annotation, "struct")
