"""Keys that are the same in every run of the tests."""

import hashlib
from itertools import count

import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey


@pytest.fixture
def fixed_keys(monkeypatch):
    from kvariates.peers import masks  # not above: mutants are planted after this file is read

    numbers = count()

    class FixedKeys:
        @staticmethod
        def generate():
            secret = hashlib.sha256(f"secret {next(numbers)}".encode()).digest()
            return X25519PrivateKey.from_private_bytes(secret)

        @staticmethod
        def from_private_bytes(secret):
            return X25519PrivateKey.from_private_bytes(secret)

    monkeypatch.setattr(masks, "X25519PrivateKey", FixedKeys)
