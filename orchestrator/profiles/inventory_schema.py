"""The JSON Schema of an inventory, for an editor's completion."""

from __future__ import annotations

from typing import Any

from owlt.orchestrator.profiles.inventory import MODELS, aliases


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
