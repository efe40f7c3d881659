"""The stub _native.pyi says what the compiled module has: names, arguments, defaults and types."""

import ast
import re
from pathlib import Path

import kvariates
from kvariates import _native

STUB = ast.parse(Path(kvariates.__file__).with_name("_native.pyi").read_text())
ALIASES = {node.targets[0].id: node.value for node in STUB.body if isinstance(node, ast.Assign)}
FUNCTIONS = {node.name: node for node in STUB.body if isinstance(node, ast.FunctionDef)}
CLASSES = {node.name: node for node in STUB.body if isinstance(node, ast.ClassDef)}
CONSTANTS = {node.target.id: node for node in STUB.body if isinstance(node, ast.AnnAssign)}
PUBLIC = {name: value for name, value in vars(_native).items() if not name.startswith("_")}


def compiled(function):
    """The signature that nanobind gives a function, as a syntax tree: arrays by their dtype."""
    [(text, _, defaults)] = function.__nb_signature__
    text = re.sub(
        r"ndarray\[(?:dtype=(\w+), )?[^]]*\]", lambda array: f"np.{array[1] or 'Any'}", text
    )
    text = re.sub(r"\\(\d+)", lambda d: repr(defaults[int(d[1])]), text)
    [node] = ast.parse(re.sub(r"^def \(", "def nameless(", text) + ": ...").body
    return node


def type_of(annotation):
    """Class name or dtype, and whether it may be None."""
    text = ast.unparse(annotation)
    optional = text.endswith(" | None")
    text = text.removesuffix(" | None")
    if text in ALIASES:
        text = ast.unparse(ALIASES[text])
    text = re.sub(r"^NDArray\[(?:np\.)?(\w+)\]$", r"np.\1", text)
    array = "array of " if text.startswith("np.") else ""
    return array + text.split("[")[0].split(".")[-1], optional


def arguments_of(node):
    defaults = [ast.unparse(default) for default in node.args.defaults]
    names = [argument.arg for argument in node.args.args]
    types = [type_of(argument.annotation) for argument in node.args.args if argument.annotation]
    return names, types, defaults


def members_of(value):
    return {
        name: compiled(getattr(member, "fget", member))
        for name, member in vars(value).items()
        if hasattr(getattr(member, "fget", member), "__nb_signature__")
    }


def test_stub_and_module_have_the_same_names():
    assert {*FUNCTIONS, *CLASSES, *CONSTANTS} == {*PUBLIC}
    for name in CONSTANTS:
        assert type(PUBLIC[name]).__name__ == ast.unparse(CONSTANTS[name].annotation)


def check_signature(stub, built):
    assert arguments_of(stub) == arguments_of(built), stub.name
    if type_of(built.returns)[0] != "object":  # nanobind does not know what is in an object
        assert type_of(stub.returns) == type_of(built.returns), stub.name


def test_functions_have_the_same_signatures():
    for name, stub in FUNCTIONS.items():
        check_signature(stub, compiled(PUBLIC[name]))


def test_classes_have_the_same_members():
    for name, node in CLASSES.items():
        stubs = {part.name: part for part in node.body if isinstance(part, ast.FunctionDef)}
        built = members_of(PUBLIC[name])
        assert {*stubs} == {*built}, name
        for member, stub in stubs.items():
            check_signature(stub, built[member])
