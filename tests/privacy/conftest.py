"""Functions on private rows do not warn: tests of whole methods would fail if one did."""

from contextlib import nullcontext

import pytest

WHOLE_METHODS = {"test_every_method", "test_replay", "test_replay_demand", "test_private_kmedian"}


@pytest.fixture(autouse=True)
def _warnings_on_rows_are_errors(request, monkeypatch):
    """`Secret.map` would hide them; as all warnings in tests, they are errors."""
    if request.module.__name__.rpartition(".")[2] in WHOLE_METHODS:
        from api import secret_module as secret

        monkeypatch.setattr(secret, "hidden_warnings", nullcontext)
