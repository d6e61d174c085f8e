"""The JSON Schemas of the profiles, for an editor's completion; profiles/schemas/ holds them as files."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from agents.contract import Implementation
from orchestrator.sweep import Sweep

SCHEMAS: dict[str, Callable[[], dict[str, Any]]] = {
    "sweep": Sweep.model_json_schema,
    "implementation": Implementation.model_json_schema,
}
