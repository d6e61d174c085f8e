"""The part of libnorm's C interface that is used here, by ctypes: its enumerations and functions with their types.

Nothing is decided here. The order of the calls and the meaning of the events are in `agents.norm.session`.
"""

import ctypes
from collections.abc import Callable
from ctypes import POINTER as Pointer
from ctypes import Structure, c_bool, c_char_p, c_double, c_int, c_int64, c_uint, c_uint8, c_uint16, c_uint32
from ctypes import c_void_p as Handle
from enum import IntEnum
from typing import Any

from owlt.agents.endpoint.exit import Unsupported

SONAME = "libnorm.so.1"


class EventType(IntEnum):
    """NormEventType, in full: an event must have a name in a log."""

    INVALID = 0
    TX_QUEUE_VACANCY = 1
    TX_QUEUE_EMPTY = 2
    TX_FLUSH_COMPLETED = 3
    TX_WATERMARK_COMPLETED = 4
    TX_CMD_SENT = 5
    TX_OBJECT_SENT = 6
    TX_OBJECT_PURGED = 7
    TX_RATE_CHANGED = 8
    LOCAL_SENDER_CLOSED = 9
    REMOTE_SENDER_NEW = 10
    REMOTE_SENDER_RESET = 11
    REMOTE_SENDER_ADDRESS = 12
    REMOTE_SENDER_ACTIVE = 13
    REMOTE_SENDER_INACTIVE = 14
    REMOTE_SENDER_PURGED = 15
    RX_CMD_NEW = 16
    RX_OBJECT_NEW = 17
    RX_OBJECT_INFO = 18
    RX_OBJECT_UPDATED = 19
    RX_OBJECT_COMPLETED = 20
    RX_OBJECT_ABORTED = 21
    RX_ACK_REQUEST = 22
    GRTT_UPDATED = 23
    CC_ACTIVE = 24
    CC_INACTIVE = 25
    ACKING_NODE_NEW = 26
    SEND_ERROR = 27
    USER_TIMEOUT = 28


class AckingStatus(IntEnum):
    """NormAckingStatus: what is known of the receivers asked to acknowledge."""

    INVALID = 0
    FAILURE = 1
    PENDING = 2
    SUCCESS = 3


class ProbingMode(IntEnum):
    """NormProbingMode: whether the sender measures round trips with probes, and receivers answer each."""

    NONE = 0
    PASSIVE = 1
    ACTIVE = 2


class RepairBoundary(IntEnum):
    """NormRepairBoundary: where a receiver looks back for what is missing."""

    BLOCK = 0
    OBJECT = 1


class Event(Structure):
    """NormEvent."""

    _fields_ = (("type", c_int), ("session", Handle), ("sender", Handle), ("object", Handle))


_FUNCTIONS: dict[str, tuple[object, ...]] = {
    # name: result, arguments...
    "NormCreateInstance": (Handle, c_bool),
    "NormDestroyInstance": (None, Handle),
    "NormGetDescriptor": (c_int, Handle),
    "NormGetNextEvent": (c_bool, Handle, Pointer(Event), c_bool),
    "NormSetCacheDirectory": (c_bool, Handle, c_char_p),
    "NormCreateSession": (Handle, Handle, c_char_p, c_uint16, c_uint32),
    "NormSetMulticastInterface": (c_bool, Handle, c_char_p),
    "NormIsUnicastAddress": (c_bool, c_char_p),
    "NormSetTxOnly": (None, Handle, c_bool, c_bool),
    "NormSetDefaultUnicastNack": (None, Handle, c_bool),
    "NormSetTxPort": (c_bool, Handle, c_uint16, c_bool, c_char_p),
    "NormSetRxPortReuse": (None, Handle, c_bool, c_char_p, c_char_p, c_uint16),
    "NormSetTxRate": (None, Handle, c_double),
    "NormGetTxRate": (c_double, Handle),
    "NormSetTxRateBounds": (None, Handle, c_double, c_double),
    "NormSetCongestionControl": (None, Handle, c_bool, c_bool),
    "NormSetEcnSupport": (None, Handle, c_bool, c_bool, c_bool),
    "NormSetTxCacheBounds": (None, Handle, c_int64, c_uint32, c_uint32),
    "NormSetTxRobustFactor": (None, Handle, c_int),
    "NormSetGrttEstimate": (None, Handle, c_double),
    "NormSetGrttMax": (None, Handle, c_double),
    "NormSetGrttProbingMode": (None, Handle, c_int),
    "NormSetBackoffFactor": (None, Handle, c_double),
    "NormSetGroupSize": (None, Handle, c_uint),
    "NormSetAutoParity": (None, Handle, c_uint8),
    "NormStartSender": (c_bool, Handle, c_uint16, c_uint32, c_uint16, c_uint16, c_uint16, c_uint8),
    "NormFileEnqueue": (Handle, Handle, c_char_p, c_char_p, c_uint),
    "NormAddAckingNode": (c_bool, Handle, c_uint32),
    "NormSetWatermark": (c_bool, Handle, Handle, c_bool),
    "NormGetGrttEstimate": (c_double, Handle),
    "NormGetAckingStatus": (c_int, Handle, c_uint32),
    "NormSetDefaultRepairBoundary": (None, Handle, c_int),
    "NormSetRxSocketBuffer": (c_bool, Handle, c_uint),
    "NormStartReceiver": (c_bool, Handle, c_uint32),
    "NormFileGetName": (c_bool, Handle, c_char_p, c_uint),
}


def load() -> dict[str, Callable[..., Any]]:
    """The functions of the library by name, each with its types.

    Raises:
        Unsupported: this host does not have it.
    """
    try:
        library = ctypes.CDLL(SONAME)
    except OSError as error:
        raise Unsupported(f"{error}; install it: apt-get install libnorm1") from error
    functions: dict[str, Callable[..., Any]] = {}
    for name, (result, *arguments) in _FUNCTIONS.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
        functions[name] = function
    return functions
