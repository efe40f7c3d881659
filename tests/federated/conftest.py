"""Flower's messages need the identity of a running task; a simulation sets it itself."""

import os

os.environ.setdefault("FLWR_TELEMETRY_ENABLED", "0")

import pytest
from flwr.supercore.task_identity import TaskIdentity


@pytest.fixture(autouse=True)
def task_identity(monkeypatch):
    for name in ("_task_id", "_run_id", "_node_id"):
        monkeypatch.setattr(TaskIdentity, name, 1)
