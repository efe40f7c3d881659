"""These tests make thousands of small calls, which are fastest on one thread."""

import pytest
from threadpoolctl import threadpool_limits


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    """Limit the threads of one file of tests only; a session fixture would limit all later ones."""
    with threadpool_limits(1, user_api="openmp"):
        yield
