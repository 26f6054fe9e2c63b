from __future__ import annotations

import pytest

from tools import clients

DOCUMENT = clients.Document.read()


@pytest.mark.parametrize("path", clients.files(DOCUMENT), ids=lambda path: path.name)
def test_generated_files_follow_the_document(path):
    assert path.read_text("utf-8") == clients.files(DOCUMENT)[path], "run `make clients`"


def test_operations_have_one_name_each():
    names = [one.name for one in DOCUMENT.operations]
    assert len(names) > 100
    assert len(set(names)) == len(names)


@pytest.mark.parametrize(
    ("schema", "python", "typescript"),
    [
        ({"type": "array", "items": {"$ref": "#/components/schemas/Node"}}, "list[Node]", "Node[]"),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, "int | None", "number | null"),
        ({"type": "string", "enum": ["a", "b"]}, 'Literal["a", "b"]', '"a" | "b"'),
        ({"type": "object", "additionalProperties": {"type": "number"}}, "dict[str, float]", "Record<string, number>"),
        ({"type": "array", "items": {"enum": ["a", "b"]}}, 'list[Literal["a", "b"]]', '("a" | "b")[]'),
        ({}, "Any", "unknown"),
    ],
)
def test_schemas_become_types(schema, python, typescript):
    assert (clients.python_type(schema), clients.typescript_type(schema)) == (python, typescript)
