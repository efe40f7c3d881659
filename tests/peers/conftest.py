"""Keys that are the same in every run of the tests."""

import hashlib
from itertools import count

import pytest
from cryptography.hazmat.primitives.asymmetric import x25519
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey


@pytest.fixture
def fixed_keys(monkeypatch):
    """The keys that `kvariates.peers.masks` makes: it imports the class when it makes one."""
    numbers = count()

    class FixedKeys:
        @staticmethod
        def generate():
            secret = hashlib.sha256(f"secret {next(numbers)}".encode()).digest()
            return X25519PrivateKey.from_private_bytes(secret)

        @staticmethod
        def from_private_bytes(secret):
            return X25519PrivateKey.from_private_bytes(secret)

    monkeypatch.setattr(x25519, "X25519PrivateKey", FixedKeys)
