"""Write page/generated/types.ts, the types of the server's answers, from its OpenAPI document: `make reference`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "page" / "generated" / "types.ts"

_HEAD = """// The types of the server's answers and requests, and its routes.
// Written by `python -m tools.page_types` from the OpenAPI document of src/determined/web.
"""
_SIMPLE = {"integer": "number", "number": "number", "string": "string", "boolean": "boolean", "null": "null"}
_VALIDATION = ("HTTPValidationError", "ValidationError")


def page() -> str:
    """Return the types of all schemas, and a comment with the routes."""
    from determined.web.openapi import document as openapi_document

    document = openapi_document()
    schemas = document["components"]["schemas"]
    parts = [_HEAD, _routes(document["paths"]), _state_lists()]
    parts += [_declaration(name, schemas[name]) for name in sorted(schemas) if name not in _VALIDATION]
    return "\n".join(parts)


def _routes(paths: dict[str, Any]) -> str:
    """Return one comment line for each route with its parameters and the type of its answer."""
    lines = []
    for path, methods in paths.items():
        for method, operation in methods.items():
            query = [found["name"] for found in operation.get("parameters", ()) if found["in"] == "query"]
            (content,) = operation["responses"]["200"]["content"].values()
            answer = _type(content["schema"]) if content.get("schema") else "a file"
            asked = f"?{'&'.join(f'{name}=' for name in query)}" if query else ""
            body = operation.get("requestBody")
            given = f" {_type(body['content']['application/json']['schema'])}" if body else ""
            lines.append(f"// {method.upper()} {path}{asked}{given} -> {answer}")
    return "\n".join([*lines, ""])


def _state_lists() -> str:
    """Return the groups of states that the page counts and marks in the same way as `det`."""
    from determined.store.states import TRIAL_FAILED, WITH_PROCESSES

    groups = {
        "FAILED": ("States of trials that have failed.", TRIAL_FAILED),
        "WITH_PROCESSES": ("States of trials that have processes, or whose exit is being handled.", WITH_PROCESSES),
    }
    lines = []
    for name, (meaning, states) in groups.items():
        lines += [f"/** {meaning} */", f"export const {name}: readonly string[] = {json.dumps(states)};"]
    return "\n".join([*lines, ""])


def _declaration(name: str, schema: dict[str, Any]) -> str:
    """Return the declaration of a named type."""
    comment = f"/** {' '.join(schema['description'].split())} */\n" if "description" in schema else ""
    if schema.get("type") != "object" or "properties" not in schema:
        return f"{comment}export type {name} = {_type(schema)};\n"
    required = schema.get("required", ())
    lines = []
    for field, inner in schema["properties"].items():
        if "description" in inner:
            lines.append(f"  /** {' '.join(inner['description'].split())} */")
        lines.append(f"  {_field(field)}{'' if field in required else '?'}: {_type(inner)};")
    return "\n".join([f"{comment}export interface {name} {{", *lines, "}\n"])


def _field(name: str) -> str:
    return name if name.isidentifier() else json.dumps(name)


def _type(schema: dict[str, Any]) -> str:
    """Return the TypeScript type of a schema."""
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    if "anyOf" in schema:
        return " | ".join(dict.fromkeys(map(_type, schema["anyOf"])))
    if "enum" in schema or "const" in schema:
        return " | ".join(map(json.dumps, schema.get("enum", [schema.get("const")])))
    kind = schema.get("type")
    if kind == "array":
        inner = _type(schema.get("items", {}))
        return f"({inner})[]" if " | " in inner else f"{inner}[]"
    if kind == "object":
        more = schema.get("additionalProperties", True)
        return f"Record<string, {'unknown' if more is True else _type(more)}>"
    return _SIMPLE[kind] if kind is not None else "unknown"


if __name__ == "__main__":
    PAGE.parent.mkdir(parents=True, exist_ok=True)
    PAGE.write_text(page())
