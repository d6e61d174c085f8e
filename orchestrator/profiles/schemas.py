"""The JSON Schemas of the profiles, for an editor's completion; profiles/schemas/ holds them as files."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from owlt.agents.contract.implementation import Implementation
from owlt.orchestrator.planning.sweep import Sweep
from owlt.orchestrator.profiles.channel_schema import channel_schema
from owlt.orchestrator.profiles.inventory_schema import inventory_schema

SCHEMAS: dict[str, Callable[[], dict[str, Any]]] = {
    "sweep": Sweep.model_json_schema,
    "implementation": Implementation.model_json_schema,
    "channel": channel_schema,
    "inventory": inventory_schema,
}
