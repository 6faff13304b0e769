"""The service described: an OpenAPI 3.1 document made from its handlers, and a page that needs no network."""

import inspect
import types
from collections.abc import Callable, Iterable
from dataclasses import MISSING, dataclass, fields, is_dataclass
from http import HTTPStatus
from typing import Any, Union, get_args, get_origin, get_type_hints

from plait._version import __version__
from plait.deployment.service.answers import Lines, Problem

JSON, LINES = "application/json", "application/x-ndjson"


@dataclass(frozen=True)
class Endpoint:
    """What stands beside a handler: its method, its path, the errors it answers with, and who may ask."""

    method: str
    path: str
    refusals: tuple[HTTPStatus, ...] = ()
    open: bool = True
    """Whether it answers without a token."""
    kind: str = JSON
    """The type of what it answers with."""


def endpoint(about: Endpoint) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Mark a handler; its docstring and its annotations say the rest."""

    def mark(handler: Callable[..., Any]) -> Callable[..., Any]:
        handler.endpoint = about  # type: ignore[attr-defined]
        return handler

    return mark


def specification(handlers: Iterable[Callable[..., Any]], tokens: bool) -> dict[str, Any]:
    """The OpenAPI document of these handlers."""
    schemas: dict[str, Any] = {}
    paths: dict[str, Any] = {}
    for handler in handlers:
        about: Endpoint = handler.endpoint  # type: ignore[attr-defined]
        paths.setdefault(about.path, {})[about.method.lower()] = _operation(handler, about, tokens, schemas)
    secured = {"securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}} if tokens else {}
    return {
        "openapi": "3.1.0",
        "info": {"title": "plait prediction service", "version": __version__},
        "paths": paths,
        "components": {"schemas": schemas, **secured},
    }


def _operation(handler: Callable[..., Any], about: Endpoint, tokens: bool, schemas: dict[str, Any]) -> dict[str, Any]:
    hints = get_type_hints(handler)
    answer = hints["return"]
    streamed = get_origin(answer) is Lines
    kind = LINES if streamed else about.kind
    shape = _schema(get_args(answer)[0] if streamed else answer, schemas)
    responses: dict[str, Any] = {"200": {"description": "The answer", "content": {kind: {"schema": shape}}}}
    for status in about.refusals:
        content = {JSON: {"schema": _schema(Problem, schemas)}}
        responses[str(int(status))] = {"description": status.phrase, "content": content}
    operation: dict[str, Any] = {"summary": (inspect.getdoc(handler) or "").split("\n")[0], "responses": responses}
    if "asked" in hints:
        streams = get_origin(hints["asked"]) is list
        asked = get_args(hints["asked"])[0] if streams else hints["asked"]
        content = {LINES if streams else JSON: {"schema": _schema(asked, schemas)}}
        operation["requestBody"] = {"required": True, "content": content}
    if tokens and not about.open:
        operation["security"] = [{"token": []}]
    return operation


def _schema(kind: Any, schemas: dict[str, Any]) -> dict[str, Any]:
    """The JSON schema of a type; dataclasses are described once, by name."""
    if is_dataclass(kind):
        name = kind.__name__  # type: ignore[union-attr]
        if name not in schemas:
            schemas[name] = {}
            hints = get_type_hints(kind)
            required = [f.name for f in fields(kind) if f.default is MISSING]
            schemas[name] = {
                "type": "object",
                "description": (inspect.getdoc(kind) or "").split("\n")[0],
                "required": required,
                "properties": {f.name: _schema(hints[f.name], schemas) for f in fields(kind)},
            }
        return {"$ref": f"#/components/schemas/{name}"}
    if get_origin(kind) is list:
        return {"type": "array", "items": _schema(get_args(kind)[0], schemas)}
    if get_origin(kind) in (Union, types.UnionType):
        return {"anyOf": [_schema(each, schemas) for each in get_args(kind)]}
    names = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null", dict: "object"}
    return {"type": names[get_origin(kind) or kind]}


PAGE = """<!doctype html><html lang=en><meta charset=utf-8><title>plait prediction service</title>
<style>body{font:15px/1.5 system-ui,sans-serif;max-width:46rem;margin:2rem auto;padding:0 1rem}
textarea{width:100%;height:5rem}pre{background:#f3f4f6;padding:.8rem;overflow:auto}</style>
<h1>plait prediction service</h1>
<p><b>POST /scores</b> with <code>{"ids": ["c100000"]}</code> gives the scores of these rows by all parties together.
<b>POST /scores/batch</b> takes one <code>{"id": "c100000"}</code> per line and answers line by line.
<b>GET /ready</b> says whether all parties are here. The whole interface: <a href="/openapi.json">openapi.json</a>.</p>
<form id=f><textarea id=t>c100000</textarea><p><input id=k type=password placeholder="token, where one is needed">
<button>Score these ids</button> one per line</p></form><pre id=o></pre>
<script>
f.onsubmit=async e=>{e.preventDefault();
const ids=t.value.split("\\n").map(s=>s.trim()).filter(s=>s);
const headers={"Content-Type":"application/json"};if(k.value)headers.Authorization="Bearer "+k.value;
const r=await fetch("/scores",{method:"POST",headers,body:JSON.stringify({ids})});
o.textContent=JSON.stringify(await r.json(),null,1)}
</script></html>
"""
