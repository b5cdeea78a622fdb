"""What a tool has to look like so that every provider takes it; another one would fail each turn that offers it."""

import json
import re
from collections.abc import Mapping
from typing import Any

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


def find_schema_fault(name: object, schema: object) -> str:
    """Why no model can be offered a tool of this name and schema; empty: it can."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        return f"{name!r} is no name for a tool: 1 to 64 of the letters a to z, digits, - and _"
    if not isinstance(schema, Mapping):
        return f"its schema is {type(schema).__name__} and no object"
    if not isinstance(schema.get("description", ""), str):
        return "its description is no text"
    if fault := _find_parameters_fault(schema.get("parameters", {})):
        return fault
    try:
        json.dumps(dict(schema))
    except (TypeError, ValueError, RecursionError) as problem:
        return f"its schema cannot be written as JSON ({problem})"
    return ""


def _find_parameters_fault(parameters: object) -> str:
    if not isinstance(parameters, Mapping):
        return f"its parameters are {type(parameters).__name__} and no JSON schema of an object"
    if parameters.get("type", "object") != "object":
        return f"its parameters are of the type {parameters['type']!r}, and have to be an object"
    properties, required = parameters.get("properties", {}), parameters.get("required", [])
    if not isinstance(properties, Mapping) or not all(isinstance(one, Mapping | bool) for one in properties.values()):
        return "its properties are no object of schemas"
    if not isinstance(required, list | tuple) or not all(isinstance(one, str) for one in required):
        return "what it requires is no list of names"
    return ""


def complete_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """A schema whose parameters say that they are an object, which some providers insist on."""
    parameters = schema.get("parameters")
    if isinstance(parameters, Mapping) and "type" not in parameters:
        return {**schema, "parameters": {"type": "object", "properties": {}, **parameters}}
    return dict(schema)
