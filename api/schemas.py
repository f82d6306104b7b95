"""Pydantic classes as the form of answers: their JSON schemas, and what is read as them."""

from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from loupe.flows.answers import UnusableAnswerError
from loupe.schemas.validation import fault_of

ModelT = TypeVar("ModelT", bound=BaseModel)


def record_of(form: type[ModelT], fields: dict[str, Any]) -> ModelT:
    """Return the object of an answer as a class; additional fields are ignored.

    Raises:
        UnusableAnswerError: `wrong_type`.
    """
    try:
        return form.model_validate(fields, extra="ignore")
    except ValidationError as error:
        raise UnusableAnswerError("wrong_type", f"{fault_of(error, form)}.") from error


def answer_schema_of(form: type[BaseModel]) -> dict[str, Any]:
    """Return the schema of a class as structured answers need it.

    References are written out, every field is required, and others are refused.
    """
    schema = form.model_json_schema()
    found = _plain(schema, schema.get("$defs", {}))
    found.pop("title", None)
    return found


def _plain(part: dict[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
    if "$ref" in part:
        return _plain(definitions[part["$ref"].rpartition("/")[2]], definitions)
    found: dict[str, Any] = {}
    for name, value in part.items():
        if name in ("$defs", "default", "title"):
            continue
        if name == "properties":
            found[name] = {key: _plain(one, definitions) for key, one in value.items()}
        elif isinstance(value, dict):
            found[name] = _plain(value, definitions)
        elif isinstance(value, list):
            found[name] = [
                _plain(one, definitions) if isinstance(one, dict) else one for one in value
            ]
        else:
            found[name] = value
    if "properties" in found:
        found["required"] = list(found["properties"])
        found["additionalProperties"] = False
    return found
