"""The OpenAPI document follows from the handlers."""

from plait.deployment.service.handlers import Handlers
from plait.deployment.service.openapi import specification

HANDLERS = [value for value in vars(Handlers).values() if hasattr(value, "endpoint")]


def test_every_handler_and_every_body_is_described() -> None:
    found = specification(HANDLERS, tokens=True)
    assert found["openapi"].startswith("3.1")
    for handler in HANDLERS:
        about = handler.endpoint
        operation = found["paths"][about.path][about.method.lower()]
        assert operation["summary"]
        assert ("security" in operation) == (not about.open)
        assert set(operation["responses"]) == {"200", *(str(int(status)) for status in about.refusals)}
    batch = found["paths"]["/scores/batch"]["post"]
    assert set(batch["requestBody"]["content"]) == {"application/x-ndjson"}
    assert set(batch["responses"]["200"]["content"]) == {"application/x-ndjson"}


def test_every_reference_leads_to_a_schema() -> None:
    found = specification(HANDLERS, tokens=False)
    schemas = found["components"]["schemas"]

    def references(value: object) -> list[str]:
        if isinstance(value, dict):
            own = [value["$ref"]] if "$ref" in value else []
            return own + [r for each in value.values() for r in references(each)]
        return [r for each in value for r in references(each)] if isinstance(value, list) else []

    used = references(found)
    assert used
    assert {r.rpartition("/")[2] for r in used} == set(schemas)
    assert "null" in str(schemas["RowScore"]["properties"]["score"])
    assert schemas["RowScore"]["required"] == ["id", "score"]
