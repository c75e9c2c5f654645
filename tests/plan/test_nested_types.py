"""Types of Spark as text: the parts of arrays, maps and structs."""

import pytest

from lineage_service.plan.nested_types import constructor, exploded_type, field_type, struct_fields

NESTED = "struct<Name:string,`a,b`:decimal(10,2),inner:struct<x:array<int>,y:map<string,bigint>>>"


@pytest.mark.parametrize(
    ("kind", "word"), [("ARRAY<int>", "array"), (" decimal(10,2)", "decimal"), ("", None), (None, None)]
)
def test_the_first_word_of_a_type(kind, word):
    assert constructor(kind) == word


def test_fields_of_a_struct():
    assert struct_fields(NESTED) == {
        "name": "string",
        "a,b": "decimal(10,2)",
        "inner": "struct<x:array<int>,y:map<string,bigint>>",
    }
    assert struct_fields("array<int>") is None and struct_fields("struct") is None and struct_fields(None) is None


@pytest.mark.parametrize(
    ("fields", "kind"),
    [(["NAME"], "string"), (["inner", "x"], "array<int>"), (["inner", "z"], None), (["name", "x"], None), ([], NESTED)],
)
def test_the_type_of_a_field(fields, kind):
    assert field_type(NESTED, fields) == kind


@pytest.mark.parametrize(
    ("kind", "element"),
    [
        ("array<struct<a:int,b:int>>", "struct<a:int,b:int>"),
        ("map<string, array<int>>", "struct<key:string,value:array<int>>"),
        ("string", None),
        (None, None),
    ],
)
def test_what_an_explosion_gives(kind, element):
    assert exploded_type(kind) == element
