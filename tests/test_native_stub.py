"""The types in _native.pyi are those of the compiled module.

The tests compare names, parameters and their order, array types, None, defaults and results. The
module does not know the items of a tuple, and it knows some results only as an object.
"""

import ast
import re
from pathlib import Path

from kvariates import _native

STUB = Path(__file__).resolve().parents[1] / "src" / "kvariates" / "_native.pyi"
TREE = ast.parse(STUB.read_text(encoding="utf-8"))
ALIASES = {node.targets[0].id: node.value for node in TREE.body if isinstance(node, ast.Assign)}


class Expanded(ast.NodeTransformer):
    """Replaces names of array types by their definitions."""

    def visit_Name(self, node):
        return ALIASES.get(node.id, node)


def plain(annotation):
    """An annotation without array shapes and without the items of tuples and callables."""
    text = ast.unparse(Expanded().visit(annotation))
    text = re.sub(r"NDArray\[(?:np\.)?(\w+)\]", r"\1", text)
    return re.sub(r"\b(tuple|Callable)\[.*\]", r"\1", text)


def signature(node):
    """Each parameter with its type, the number of defaults, and the type of the result."""
    arguments = [(arg.arg, plain(arg.annotation)) for arg in node.args.args]
    return arguments, len(node.args.defaults), plain(node.returns)


def native_signature(function):
    (text, _, _), *others = function.__nb_signature__
    assert not others
    text = re.sub(r"ndarray\[(?:dtype=(\w+), )?[^]]*\]", lambda m: m[1] or "Any", text)
    text = re.sub(r"kvariates\._native\.|collections\.abc\.", "", text).replace("\\", "")
    return signature(ast.parse(f"{text}: ...").body[0])


def test_functions_have_the_types_of_the_module():
    stub = {node.name: signature(node) for node in TREE.body if isinstance(node, ast.FunctionDef)}
    functions = {name: f for name, f in vars(_native).items() if hasattr(f, "__nb_signature__")}
    assert set(stub) == set(functions)
    for name, function in functions.items():
        arguments, defaults, result = native_signature(function)
        known = stub[name][2] if result == "object" else result
        assert stub[name] == (arguments, defaults, known), name


def test_classes_and_constants_are_those_of_the_module():
    stub = {
        node.name: {part.name for part in node.body if isinstance(part, ast.FunctionDef)}
        for node in TREE.body
        if isinstance(node, ast.ClassDef)
    }
    kinds = {"property", "nb_method"}
    assert stub == {
        name: {part for part, value in vars(c).items() if type(value).__name__ in kinds}
        for name, c in vars(_native).items()
        if isinstance(c, type)
    }
    for node in TREE.body:
        if isinstance(node, ast.AnnAssign):
            assert type(getattr(_native, node.target.id)).__name__ == node.annotation.id
