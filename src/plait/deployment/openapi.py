"""The prediction service described: as OpenAPI 3.1, and as a page that needs no network."""

from typing import Any

from plait._version import __version__


def specification(most_ids: int) -> dict[str, Any]:
    """The OpenAPI document of the service."""
    ids = {"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": most_ids}
    error = {
        "description": "What went wrong",
        "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}},
    }
    answer = {
        "description": "One entry per id, in the order of the request; score is null for ids that a party lacks",
        "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Scores"}}},
    }
    request = {"type": "object", "required": ["ids"], "properties": {"ids": ids}}
    score = {
        "type": "object",
        "required": ["id", "score"],
        "properties": {
            "id": {"type": "string"},
            "score": {"type": ["number", "null"]},
            "probability": {"type": "number", "minimum": 0, "maximum": 1},
        },
    }
    post = {
        "summary": "Score rows by id, all parties together",
        "requestBody": {"required": True, "content": {"application/json": {"schema": request}}},
        "responses": {"200": answer, "400": error, "413": error, "429": error, "503": error},
    }
    health = {"summary": "Whether the service runs", "responses": {"200": {"description": "It does"}}}
    return {
        "openapi": "3.1.0",
        "info": {"title": "plait prediction service", "version": __version__},
        "paths": {"/scores": {"post": post}, "/health": {"get": health}},
        "components": {
            "schemas": {
                "Scores": {"type": "object", "properties": {"scores": {"type": "array", "items": score}}},
                "Error": {"type": "object", "properties": {"error": {"type": "string"}}},
            }
        },
    }


PAGE = """<!doctype html><html lang=en><meta charset=utf-8><title>plait prediction service</title>
<style>body{font:15px/1.5 system-ui,sans-serif;max-width:46rem;margin:2rem auto;padding:0 1rem}
textarea{width:100%;height:5rem}pre{background:#f3f4f6;padding:.8rem;overflow:auto}</style>
<h1>plait prediction service</h1>
<p><b>POST /scores</b> with <code>{"ids": ["c100000"]}</code> gives the scores of these rows by all parties together.
<b>GET /health</b> says whether the service runs. The whole interface: <a href="/openapi.json">openapi.json</a>.</p>
<form id=f><textarea id=t>c100000</textarea><p><button>Score these ids</button> one per line</p></form><pre id=o></pre>
<script>
f.onsubmit=async e=>{e.preventDefault();
const ids=t.value.split("\\n").map(s=>s.trim()).filter(s=>s);
const r=await fetch("/scores",{method:"POST",headers:{"Content-Type":"application/json"},body:JSON.stringify({ids})});
o.textContent=JSON.stringify(await r.json(),null,1)}
</script></html>
"""
