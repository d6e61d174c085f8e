"""The JSON Schemas of the profiles, for an editor's completion; profiles/schemas/ holds them as files."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from owlt.agents.contract.implementation import Implementation
from owlt.emulator.channel.aimed_fault import ALL
from owlt.emulator.channel.channel_file import CHANNEL_NAME
from owlt.emulator.channel.spec import ChannelSpec
from owlt.inputs.rules import AXIS_SCHEMAS, INTERVAL_SCHEMAS
from owlt.inputs.sweep import Sweep
from owlt.orchestrator.profiles.inventory import MODELS, aliases
from owlt.orchestrator.profiles.pairs import PairProfile

_TEXT = {"type": "string"}
_TAKEN_AWAY = {"enum": ["none", "unlimited"], "description": "Removes the previous value."}
_AS_WRITTEN_DEFAULTS = {"delay": "0 s", "overhead": "0 B"}


def channel_schema() -> dict[str, Any]:
    """Return the schema of profiles/channels/*.yaml."""
    schema = ChannelSpec.model_json_schema(by_alias=True, mode="validation")
    link, step, timeline = (schema["$defs"][name] for name in ("LinkSpec", "Step", "Timeline"))
    link["properties"] = {name: _or_none(name, each) for name, each in _link_keys(link["properties"]).items()}
    a_link = {"$ref": "#/$defs/LinkSpec"}
    step["properties"] |= dict.fromkeys(("both", "forward", "reverse"), a_link)
    step["required"] = ["at"]
    timeline["properties"] |= {
        "trace": _TEXT | {"description": "A CSV file beside the profile: t and columns such as forward.delay_ms."},
        "contacts": {
            "type": "array",
            "minItems": 1,
            "items": {"type": "array", "items": _TEXT, "minItems": 2, "maxItems": 2},
            "description": "Contact windows: start and end of each; both links are down outside them.",
            "examples": [[["0 s", "600 s"], ["5400 s", "6000 s"]]],
        },
        "outside": {
            "enum": ["drop", "hold"],
            "default": "drop",
            "description": "Effect on packets outside of contacts: dropped, or held in the queue.",
        },
    }
    timeline.pop("required")
    timeline["anyOf"] = [{"required": [name]} for name in ("steps", "trace", "contacts")]
    schema["$defs"]["Action"] = {"anyOf": [{"const": "drop"}, schema["$defs"]["Action"]]}
    for name in ("Aim", "Fault"):
        schema["$defs"][name]["properties"]["occurrence"]["default"] = ALL
        schema["$defs"][name]["properties"].pop("seed", None)
    about = {
        "name": _TEXT
        | {
            "pattern": CHANNEL_NAME,
            "description": "Name in runs and figures; default: the file name without .yaml.",
        },
        "title": _TEXT | {"description": "One line about the channel."},
        "source": _TEXT | {"description": "Source of the values."},
    }
    links = {
        "both": a_link | {"description": "Keys of both directions."},
        "forward": a_link | {"description": "From the sender's port to the receiver's; overrides both."},
        "reverse": a_link | {"description": "From the receiver's port to the sender's; overrides both."},
    }
    schema["properties"] = (
        about | links | {key: schema["properties"][key] for key in ("timeline", "faults", "fault_scope", "bypass")}
    )
    return schema | {"title": "Channel"}


def _link_keys(properties: dict[str, Any]) -> dict[str, Any]:
    queue = _TEXT | {
        "title": "Queue",
        "default": "1000 packets",
        "examples": ["100 packets", "64 kB", "50 ms", "2 BDP"],
        "description": "Capacity in packets, bytes, time to send a full queue, or multiples of rate x round trip.",
    }
    written = {name: each for name, each in properties.items() if not name.startswith("queue_")}
    return written | {"queue": queue}


def _or_none(name: str, key: dict[str, Any]) -> dict[str, Any]:
    """A key of a link in its written form: its default with a unit, and "none" if the value is optional."""
    key = key | {"default": _AS_WRITTEN_DEFAULTS[name]} if name in _AS_WRITTEN_DEFAULTS else key
    if {"type": "null"} not in key.get("anyOf", ()):
        return key
    kinds = [kind for kind in key["anyOf"] if kind != {"type": "null"}]
    return {word: value for word, value in key.items() if word != "default"} | {"anyOf": [*kinds, _TAKEN_AWAY]}


def inventory_schema() -> dict[str, Any]:
    """The JSON Schema of an inventory."""
    properties: dict[str, Any] = {}
    for model in MODELS.values():
        for alias, value in model.model_json_schema(by_alias=True)["properties"].items():
            if alias in aliases(model):
                properties[alias] = {key: each for key, each in value.items() if key != "title"}
    variables = {
        "type": "object",
        "properties": properties,
        "patternProperties": {"^ansible_": {}},
        "additionalProperties": False,
    }
    rig = {
        "type": "object",
        "properties": {
            "vars": {"$ref": "#/$defs/variables"},
            "hosts": {
                "type": "object",
                "description": "a sender, an emulator and a receiver",
                "additionalProperties": {"$ref": "#/$defs/variables"},
                "minProperties": 3,
                "maxProperties": 3,
            },
        },
        "required": ["hosts"],
        "additionalProperties": False,
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Inventory of lab rigs",
        "type": "object",
        "properties": {
            "all": {
                "type": "object",
                "properties": {
                    "vars": {"$ref": "#/$defs/variables"},
                    "children": {"type": "object", "additionalProperties": {"$ref": "#/$defs/rig"}},
                },
                "required": ["children"],
                "additionalProperties": False,
            }
        },
        "required": ["all"],
        "additionalProperties": False,
        "$defs": {"variables": variables, "rig": rig},
    }


def _key(schema: dict[str, Any]) -> str:
    return json.dumps(schema.get("anyOf"), sort_keys=True)


def sweep_schema() -> dict[str, Any]:
    """The JSON Schema of a sweep, in which the values of each axis in rules are defined once."""
    schema = Sweep.model_json_schema()
    kinds = (("", AXIS_SCHEMAS), ("_or_interval", INTERVAL_SCHEMAS))
    names = {_key(each): f"{key}{kind}" for kind, axes in kinds for key, each in reversed(axes.items())}
    used: dict[str, Any] = {}

    def shared(value: Any) -> Any:
        if isinstance(value, list):
            return [shared(each) for each in value]
        if not isinstance(value, dict):
            return value
        if name := names.get(_key(value)):
            used[name] = {"anyOf": shared(value["anyOf"])}
            return {"$ref": f"#/$defs/{name}"} | {key: each for key, each in value.items() if key != "anyOf"}
        return {key: shared(each) for key, each in value.items()}

    schema["properties"] = shared(schema["properties"])
    return schema | {"$defs": schema["$defs"] | dict(sorted(used.items()))}


SCHEMAS: dict[str, Callable[[], dict[str, Any]]] = {
    "sweep": sweep_schema,
    "implementation": Implementation.model_json_schema,
    "pair": PairProfile.model_json_schema,
    "channel": channel_schema,
    "inventory": inventory_schema,
}
