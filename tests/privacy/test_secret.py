"""A secret cannot be read by accident, and every place that reads one is listed here."""

import ast
import contextlib
import copy
import inspect
import io
import json
import logging
import pickle
import sys
import threading
import traceback
import warnings
from pathlib import Path

import numpy as np
import pytest
from api import PublicError, Secret

import kvariates

ROOT = Path(inspect.getfile(kvariates)).parent

# Every call of `reveal` in the library: the file, and why the value may be read.
REVEALED = {
    ("federated/private_fit.py", "central noise is added later"),
    ("federated/private_peer.py", "the number of rows is public under replace-one"),
    ("privacy/mechanisms.py", "it has noise, and a charge"),
    ("privacy/mechanisms.py", "charged: {charge.label}"),
    ("private_methods/task.py", "the number of rows is public under replace-one"),
}


def text(node):
    """A literal, or an f-string with the source of its values."""
    if isinstance(node, ast.Constant):
        return node.value
    assert isinstance(node, ast.JoinedStr), "reveal needs a reason that can be read in the source"
    parts = (
        part.value if isinstance(part, ast.Constant) else "{" + ast.unparse(part.value) + "}"
        for part in node.values
    )
    return "".join(parts)


def uses(source, name):
    """The attributes of this name, and the calls of them."""
    nodes = list(ast.walk(ast.parse(source)))
    attributes = [n for n in nodes if isinstance(n, ast.Attribute) and n.attr == name]
    called = {id(n.func): n for n in nodes if isinstance(n, ast.Call)}
    return attributes, [called[id(n)] for n in attributes if id(n) in called]


def revealed(source):
    """The reasons of all reveals. A `reveal` that is not called at once is refused."""
    attributes, calls = uses(source, "reveal")
    assert len(attributes) == len(calls), "reveal is handed on, so its reason cannot be listed"
    return [text(call.args[0] if call.args else call.keywords[0].value) for call in calls]


def test_every_reveal_is_listed():
    found = {
        (path.relative_to(ROOT).as_posix(), reason)
        for path in ROOT.rglob("*.py")
        for reason in revealed(path.read_text(encoding="utf-8"))
    }
    assert found == REVEALED


def test_nobody_goes_around_the_reveals():
    for path in ROOT.rglob("*.py"):
        source = path.read_text(encoding="utf-8")
        if path.name != "secret.py":
            assert "_Secret__value" not in source
            assert "object.__getattribute__" not in source


def test_a_hidden_reveal_is_found():
    assert revealed("x = rows.reveal('no reason at all')") == ["no reason at all"]
    with pytest.raises(AssertionError, match="handed on"):
        revealed("f = rows.reveal")
    with pytest.raises(AssertionError, match="can be read"):
        revealed("rows.reveal(reason)")


ROWS = np.array([[42.5, 17.25], [42.5, 17.25]])

READS = {
    "len": len, "iteration": list, "indexing": lambda s: s[0], "contains": lambda s: 1 in s,
    "truth": bool, "float": float, "int": int, "complex": complex, "index": lambda s: [1][s],
    "equality": lambda s: s == s, "inequality": lambda s: s != 1, "order": lambda s: s < 1,
    "hash": hash, "reversed": reversed, "round": round, "bytes": bytes, "buffer": memoryview,
    "attribute": lambda s: s.shape, "vars": vars, "dir": dir, "call": lambda s: s(),
    "asarray": np.asarray, "array of secrets": lambda s: np.array([s, s]), "sum": np.sum,
    "concatenate": lambda s: np.concatenate([s]), "ufunc": np.add.reduce,
    "plus": lambda s: s + 1, "array plus": lambda s: np.ones(2) + s,
    "product": lambda s: np.ones((2, 2)) @ s, "minus": lambda s: -s, "where": np.nonzero,
    "pickle": pickle.dumps, "old pickle": lambda s: pickle.dumps(s, 0), "copy": copy.copy,
    "deep copy": copy.deepcopy, "state": lambda s: s.__getstate__(),
    "reduce": lambda s: s.__reduce__(), "json": json.dumps, "format": "{:.3f}".format,
    "new attribute": lambda s: setattr(s, "x", 1),
}  # fmt: skip


@pytest.mark.parametrize("name", READS)
@pytest.mark.parametrize("value", [ROWS, 42.5, [42.5, 17.25], "42.5"], ids=type)
def test_a_secret_refuses_to_be_read(name, value):
    with pytest.raises((TypeError, AttributeError)) as error:
        READS[name](Secret(value))
    assert "42" not in str(error.value)


def test_printing_shows_nothing():
    secret, log = Secret(ROWS), io.StringIO()
    logging.getLogger("a test").addHandler(logging.StreamHandler(log))
    logging.getLogger("a test").warning("rows: %s %r", secret, secret)
    for shown in (f"{secret}", f"{secret!r}", f"{[secret]}", str({"rows": secret}), log.getvalue()):
        assert "Secret(...)" in shown
        assert "42" not in shown


def shows_rows(error):
    """Whether messages, causes, contexts or the local variables of any frame show a row."""
    shown = traceback.TracebackException.from_exception(error, capture_locals=True)
    return str(ROWS[0, 1]) in "".join(shown.format())


def quote(rows):
    return {}[float(rows[0, 1])]


@pytest.mark.parametrize("function", [quote, np.linalg.inv])
def test_an_error_in_a_function_shows_nothing(function):
    with pytest.raises(RuntimeError, match="computation on private rows failed") as caught:
        Secret(ROWS).map(function)
    assert not shows_rows(caught.value)


def test_an_exception_of_a_signal_handler_passes_without_frames_of_rows():
    class Terminated(BaseException):
        pass

    def stopped(rows):
        raise Terminated

    for kind, function in ((Terminated, stopped), (SystemExit, lambda rows: sys.exit(3))):
        with pytest.raises(kind) as caught:
            Secret(np.ones(3)).map(function)
        frames = traceback.walk_tb(caught.value.__traceback__)
        assert function.__name__ not in [frame.f_code.co_name for frame, _ in frames]
        assert caught.value.__context__ is None


def test_interrupts_have_no_frames_with_rows():
    def interrupted(rows):
        raise KeyboardInterrupt(rows)

    with pytest.raises(KeyboardInterrupt) as caught:
        Secret(ROWS).map(interrupted)
    assert not caught.value.args
    assert all("interrupted" not in entry.name for entry in caught.traceback)


def test_a_usual_error_would_show_them():
    with pytest.raises(KeyError) as caught:
        quote(ROWS)
    assert shows_rows(caught.value)


def test_public_errors_and_missing_memory_pass():
    def fail(error):
        def function(rows):
            raise error

        return function

    shape = MemoryError("Unable to allocate an array with shape (12345, 2)")
    for error, words in (
        (PublicError("says nothing"), "says nothing"),
        (shape, "There is not enough memory for this fit"),
    ):
        with pytest.raises(type(error), match=words) as caught:
            Secret(ROWS).map(fail(error))
        assert "12345" not in str(caught.value)
        assert not shows_rows(caught.value)


def test_warnings_of_numpy_do_not_tell_of_rows():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Secret(ROWS).map(lambda rows: (rows - 42.5) / (rows - 42.5))


def warn(rows):
    warnings.warn(f"a row is {rows[0]}", UserWarning, stacklevel=1)
    return np.mean(rows[:0])  # warns too: the mean of an empty slice


@pytest.mark.parametrize("action", ["error", "always", "default", "once"])
def test_warnings_of_functions_do_not_tell_of_rows(action):
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter(action)
        Secret(ROWS).map(warn)
        Secret(ROWS).map(lambda rows: Secret(rows).map(warn).with_(Secret(warn(rows))))
    assert seen == []


@pytest.mark.parametrize("fails", [False, True])
def test_warnings_after_a_map_are_seen(fails):
    def function(rows):
        warn(rows)
        if fails:
            raise KeyError

    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("default")
        with contextlib.suppress(RuntimeError):
            Secret(ROWS).map(function)
        warnings.warn("public", UserWarning, stacklevel=1)
        warn(np.zeros(3))
    assert [str(one.message) for one in seen][:2] == ["public", "a row is 0.0"]


def test_warnings_are_hidden_in_the_thread_of_a_map_only():
    """Both maps are running when the first thread warns; the second ends before the first."""
    inside, ended = threading.Event(), threading.Event()

    def first(rows):
        inside.set()
        assert ended.wait(10)
        warn(rows)

    def second(rows):
        assert inside.wait(10)
        warn(rows)

    def run():
        Secret(ROWS).map(second)
        warnings.warn("public", UserWarning, stacklevel=1)  # while the first map is running
        ended.set()

    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        other = threading.Thread(target=run)
        other.start()
        Secret(ROWS).map(first)
        other.join(10)
        warnings.warn("public too", UserWarning, stacklevel=1)
    assert [str(one.message) for one in seen] == ["public", "public too"]


def test_maps_leave_one_filter():
    with warnings.catch_warnings():
        for _ in range(5):
            warnings.simplefilter("error")
            Secret(ROWS).map(len)
            before = len(warnings.filters)
        Secret(ROWS).map(len)
        assert len(warnings.filters) == before


def test_the_value_is_in_one_slot():
    assert Secret.__slots__ == ("__value",)
    assert not hasattr(Secret, "__dict__") or "__dict__" not in dir(Secret)
    assert not isinstance(Secret.__dict__["_Secret__value"], Secret)


def test_map_keeps_secrets_and_reveal_needs_a_reason():
    pair = Secret(ROWS).map(len).with_(Secret("x"))
    assert isinstance(pair, Secret)
    assert pair.reveal("for a test") == (2, "x")
    with pytest.raises(ValueError, match="why"):
        pair.reveal("")
