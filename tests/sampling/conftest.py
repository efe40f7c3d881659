"""A law takes thousands of tiny calls: one thread is the quickest, and the law is the same."""

import pytest
from threadpoolctl import threadpool_limits


@pytest.fixture(autouse=True, scope="session")
def one_thread():
    with threadpool_limits(1, user_api="openmp"):
        yield
