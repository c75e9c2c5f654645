"""The types of single fields: names, texts, flags, lists and mappings of columns, with their validators."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    StringConstraints,
    Tag,
    WithJsonSchema,
)
from pydantic_core import PydanticCustomError

from lineage_service.spec.yaml_scalars import SourceFloat

NAME_PATTERN = r"^[a-z][a-z0-9_]*$"
RESERVED = "_rid"

# Tags of the two forms of a field; chosen so that no column is called like them.
LIST_FORM, MAPPING_FORM = "#list", "#mapping"

_SCALAR_SCHEMA = {"type": ["string", "number", "boolean"]}
_VARIABLE_SCHEMA = {"type": "string", "pattern": r"^\$\{[^}]+\}$"}
_COLUMNS_SCHEMA = {"type": "array", "items": _SCALAR_SCHEMA}


class ClosedModel(BaseModel):
    """A frozen model that refuses unknown keys."""

    # Validators are built on first use: an import then costs a third, and most files use few of the steps.
    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)


def validation_error(message: str) -> PydanticCustomError:
    """A validator's error with our own message; `{}` in it is literal text."""
    return PydanticCustomError("refused", "{message}", {"message": message})


def as_text(value: Any) -> Any:
    """A YAML scalar as the text as which it was written (true and false as in SQL); anything else unchanged."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, SourceFloat):
        return value.text
    return str(value) if isinstance(value, int | float) else value


def _not_blank(value: str) -> str:
    if not value.strip():
        raise validation_error("is empty")
    return value


def _not_reserved(value: str) -> str:
    # Spark's column names ignore case.
    if value.lower() == RESERVED:
        raise validation_error(f"the column name '{RESERVED}' is reserved for row ids")
    return value


def _as_flag(value: Any) -> Any:
    # "true" as text comes from a variable: distinct: ${distinct}.
    return {"true": True, "false": False}.get(value, value) if isinstance(value, str) else value


def _as_int(value: Any) -> Any:
    return int(value) if isinstance(value, str) and re.fullmatch(r"-?[0-9]{1,18}", value) else value


def _one_or_more(value: Any) -> Any:
    return [value] if isinstance(value, str | int | float) else value


def _as_date(value: Any) -> Any:
    if isinstance(value, date):
        return value
    if isinstance(value, str) and re.fullmatch(r"\d{4}-\d{2}-\d{2}", value):
        try:
            return date.fromisoformat(value)
        except ValueError:
            pass
    raise validation_error("needs a date such as 2031-12-31")


def _form(value: Any) -> str:
    return MAPPING_FORM if isinstance(value, Mapping) else LIST_FORM


Name = Annotated[str, StringConstraints(pattern=NAME_PATTERN, strict=True)]
"""The name of a workflow, source, step or output."""

Ref = Annotated[str, StringConstraints(strict=True), AfterValidator(_not_blank)]
"""A name of something declared elsewhere in the file; whether it exists is for names.py to say."""

Text = Annotated[str, BeforeValidator(as_text), AfterValidator(_not_blank), WithJsonSchema(_SCALAR_SCHEMA)]
"""An expression, a column or free text; YAML numbers and booleans are taken as written."""

OptionText = Annotated[str, BeforeValidator(as_text), WithJsonSchema(_SCALAR_SCHEMA)]
"""A reader option; may be empty."""

NewColumn = Annotated[Text, AfterValidator(_not_reserved)]
"""The name of a column that comes into being here."""

Flag = Annotated[
    bool,
    Field(strict=True),
    BeforeValidator(_as_flag),
    WithJsonSchema({"anyOf": [{"type": "boolean"}, _VARIABLE_SCHEMA]}),
]
Count = Annotated[
    int,
    Field(strict=True, ge=0, le=2**31 - 1),
    BeforeValidator(_as_int),
    WithJsonSchema({"anyOf": [{"type": "integer", "minimum": 0}, _VARIABLE_SCHEMA]}),
]
Several = Annotated[
    int,
    Field(strict=True, ge=2, le=2**31 - 1),
    BeforeValidator(_as_int),
    WithJsonSchema({"anyOf": [{"type": "integer", "minimum": 2}, _VARIABLE_SCHEMA]}),
]
"""A count of more than one."""
Day = Annotated[date, BeforeValidator(_as_date), WithJsonSchema({"type": "string", "format": "date"})]

Texts = tuple[Text, ...]
OneOrMore = Annotated[
    tuple[Text, ...],
    BeforeValidator(_one_or_more),
    WithJsonSchema({"anyOf": [_SCALAR_SCHEMA, _COLUMNS_SCHEMA]}),
]
"""A list, or one entry alone."""

Expressions = dict[NewColumn, Text]
"""name: expression."""

Columns = Annotated[
    Annotated[tuple[Text, ...], Tag(LIST_FORM)] | Annotated[dict[NewColumn, Text], Tag(MAPPING_FORM)],
    Discriminator(_form),
    WithJsonSchema({"anyOf": [_COLUMNS_SCHEMA, {"type": "object", "additionalProperties": _SCALAR_SCHEMA}]}),
]
"""A list of column names, or name: expression."""
