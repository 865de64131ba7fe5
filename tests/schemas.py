"""JSON schemas of docs/schemas, and what breaks them."""

from __future__ import annotations

import json
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "schemas"


def schema(name: str) -> dict:
    """One of our schemas."""
    return json.loads((FOLDER / name).read_text(encoding="utf-8"))


def faults(value, schema, at="report") -> list[str]:
    """Where a value breaks a JSON schema: the part of the standard that ours uses."""
    known = {"type", "enum", "anyOf", "properties", "required", "additionalProperties", "items"}
    assert set(schema) <= known | {"$schema", "title", "minimum", "maximum"}, at
    if "anyOf" in schema and all(faults(value, one, at) for one in schema["anyOf"]):
        return [f"{at}: none of the choices"]
    if "enum" in schema and value not in schema["enum"]:
        return [f"{at}: {value!r}"]
    kinds = {"string": str, "boolean": bool, "null": type(None), "object": dict, "array": list}
    kinds |= {"integer": int, "number": int | float}
    named = schema.get("type", [])
    named = [named] if isinstance(named, str) else named
    fits = [isinstance(value, kinds[n]) and (n == "boolean" or value is not True) for n in named]
    if named and not any(fits):
        return [f"{at}: {type(value).__name__}"]
    if isinstance(value, float | int) and not isinstance(value, bool):
        low, high = schema.get("minimum", value), schema.get("maximum", value)
        return [] if low <= value <= high else [f"{at}: {value}"]
    found = []
    if isinstance(value, list) and "items" in schema:
        found += [x for i, v in enumerate(value) for x in faults(v, schema["items"], f"{at}[{i}]")]
    if isinstance(value, dict):
        ours, other = schema.get("properties", {}), schema.get("additionalProperties", True)
        found += [f"{at}.{k}: missing" for k in schema.get("required", []) if k not in value]
        for k, v in value.items():
            if k in ours:
                found += faults(v, ours[k], f"{at}.{k}")
            elif other is False:
                found += [f"{at}.{k}: unknown"]
            elif other is not True:
                found += faults(v, other, f"{at}.{k}")
    return found
