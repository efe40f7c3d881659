"""Pairwise masks: numbers that hide the values of each party and cancel in the sum of all parties.

| what | made by |
|---|---|
| a key pair for each party and session | X25519 |
| two keys for each pair of parties, for masks and for messages | HKDF-SHA256 of the shared secret |
| the numbers of a pair in a round | ChaCha20; the number of the round is the nonce |
| messages from party to party | ChaCha20-Poly1305 |

    mask of party i = sum over j > i of stream(i, j) - sum over j < i of stream(i, j)   mod 2^64

Whoever does not know the keys of a party cannot tell its mask from uniform numbers. Whoever knows
all keys but those of two parties learns the sum of these two, and nothing else.

The package cryptography is imported inside functions: only who makes keys needs it.

Numbers of several parties as integers, so that masks mod 2^64 cancel exactly in their sum.

Party i has values from 0 to 2**e_i. The parties agree on the least E with

    2**e_1 + ... + 2**e_r <= 2**E,    and on the unit 2**(E - 62).

A value is rounded to the nearest multiple of the unit, so the sum of r values is below 2^63 units,
and its error is at most r 2**(E - 63). (A float64 near 2**E has an error of 2**(E - 54) already.)
"""

from __future__ import annotations

import hashlib
import hmac
import math
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kvariates.data.exact_sums import SMALLEST, exponent_of
from kvariates.extras import needed
from kvariates.numerics.draws import F64, I64

U64 = NDArray[np.uint64]

NONCE = 12  # bytes
PART = 2**15  # numbers
ZEROS = memoryview(bytes(8 * PART))
MOST_PARTIES = 256


class KeyPair:
    """The keys of one party in one session. The secret one never leaves it.

    `secret`: of a key pair that was made before; None: a new one.
    """

    def __init__(self, secret: bytes | None = None) -> None:
        needed("cryptography", "private", "A secure sum of several parties")
        from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

        new = X25519PrivateKey.generate
        self._secret = new() if secret is None else X25519PrivateKey.from_private_bytes(secret)
        self.public_key = self._secret.public_key().public_bytes_raw()

    @property
    def secret(self) -> bytes:
        """To be kept by a party whose process may end before the session does."""
        return self._secret.private_bytes_raw()

    def shared_with(self, public_key: bytes, salt: bytes, purpose: bytes) -> bytes:
        """A key of 32 bytes that only this party and the owner of `public_key` can compute.

        `purpose` must name the pair: several public keys (other bits, the same point) give the same
        secret.
        """
        from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PublicKey
        from cryptography.hazmat.primitives.hashes import SHA256
        from cryptography.hazmat.primitives.kdf.hkdf import HKDF

        secret = self._secret.exchange(X25519PublicKey.from_public_bytes(public_key))
        return HKDF(SHA256(), 32, salt, b"kvariates " + purpose).derive(secret)


class PairwiseKeys:
    """The keys that party `index` shares with each of the others.

    The public keys of all parties are part of every key: parties that were given different lists
    have no key in common. So are the numbers of the two parties: no two pairs have the same key,
    even if the list has a party twice under two public keys of the same secret.

    `last_round`: of the masks that were used before.
    """

    def __init__(
        self, own: KeyPair, index: int, public_keys: Sequence[bytes], last_round: int = 0
    ) -> None:
        _check_public_keys(own, index, public_keys)
        salt = hashlib.sha256(b"".join(public_keys)).digest()
        others = {j: key for j, key in enumerate(public_keys) if j != index}

        def shared(purpose: bytes) -> dict[int, bytes]:
            return {
                j: own.shared_with(key, salt, purpose + _pair(index, j, public_keys))
                for j, key in others.items()
            }

        self.own, self.public_keys = own, list(public_keys)
        self.index, self.parties = index, len(public_keys)
        self.fingerprint = fingerprint(public_keys)
        self._masks, self._seals = shared(b"masks"), shared(b"messages")
        self.last_round = last_round

    def mask(self, size: int, round_number: int, asked: bytes = b"") -> U64:
        """The mask of this party in a round. ValueError unless rounds are counted upwards.

        `asked`: a digest of the questions so far. Masks cancel only if all parties were asked the
        same, so that an aggregator cannot add up answers to different questions.
        """
        self._begin_round(round_number)
        mask = np.zeros(size, dtype=np.uint64)
        for other, key in self._masks.items():
            for part, numbers in stream(_mixed(key, asked), round_number, size):
                if other > self.index:
                    mask[part] += numbers
                else:
                    mask[part] -= numbers
        return mask

    def wide_mask(self, words: int, round_number: int, asked: bytes = b"") -> int:
        """As `mask`, of one integer modulo 2^(64 * words). Pre: it has at most `PART` words.

        Of the sum of integers that are masked word by word, the carries would be seen as well.
        """
        self._begin_round(round_number)
        mask = 0
        for other, key in self._masks.items():
            for _, numbers in stream(_mixed(key, asked), round_number, words):
                number = int.from_bytes(numbers.tobytes(), "little")
                mask += number if other > self.index else -number
        return mask % (1 << 64 * words)

    def _begin_round(self, round_number: int) -> None:
        if round_number <= self.last_round:
            raise ValueError(
                f"Round {self.last_round} was used already, and {round_number} is not above it: a "
                "mask that is used twice hides nothing. Count upwards, or start a new session."
            )
        self.last_round = round_number

    def seal(self, other: int, message: bytes) -> bytes:
        """A message that only party `other` can read."""
        from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

        nonce = os.urandom(NONCE)
        sender = bytes([self.index])
        return nonce + ChaCha20Poly1305(self._seals[other]).encrypt(nonce, message, sender)

    def unseal(self, other: int, sealed: bytes) -> bytes:
        """A message from party `other`. ValueError if it is not."""
        from cryptography.exceptions import InvalidTag
        from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

        nonce, encrypted = sealed[:NONCE], sealed[NONCE:]
        try:
            return ChaCha20Poly1305(self._seals[other]).decrypt(nonce, encrypted, bytes([other]))
        except InvalidTag:
            raise ValueError(
                f"The message from party {other} cannot be read: it was changed, or the parties "
                "were given different public keys. Compare the fingerprints of all parties."
            ) from None


def stream(key: bytes, round_number: int, size: int) -> Iterator[tuple[slice, U64]]:
    """The numbers of a pair of parties in a round, in parts that fit into the cache.

    A part is valid until the next one.
    """
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms

    counter_and_nonce = bytes(8) + round_number.to_bytes(8, "little")
    encryptor = Cipher(algorithms.ChaCha20(key, counter_and_nonce), mode=None).encryptor()
    numbers = np.empty(min(size, PART), dtype="<u8")
    for first in range(0, size, PART):
        part = slice(first, min(first + PART, size))
        count = part.stop - first
        encryptor.update_into(ZEROS[: 8 * count], numbers.view(np.uint8).data)
        yield part, numbers[:count]


def _mixed(key: bytes, asked: bytes) -> bytes:
    return hmac.digest(key, asked, "sha256")


def fingerprint(public_keys: Sequence[bytes]) -> str:
    """A short text to compare, by telephone for example: equal if all public keys are.

    It begins with their number, which all parties should know.
    """
    digest = hashlib.sha256(b"fingerprint" + b"".join(public_keys)).hexdigest()
    return f"{len(public_keys)} keys: " + " ".join(digest[i : i + 4] for i in range(0, 40, 4))


def _pair(i: int, j: int, public_keys: Sequence[bytes]) -> bytes:
    """The two parties of a key, in the same order for both."""
    low, high = sorted((i, j))
    return bytes([low, high]) + public_keys[low] + public_keys[high]


def _check_public_keys(own: KeyPair, index: int, public_keys: Sequence[bytes]) -> None:
    if len(public_keys) < 2:
        raise ValueError(
            f"Masks need two parties at least; got {len(public_keys)}. A single party has nobody "
            "to hide its values with."
        )
    if len(public_keys) > MOST_PARTIES:
        raise ValueError(f"There can be {MOST_PARTIES} parties at most; got {len(public_keys)}.")
    if len(set(public_keys)) < len(public_keys):
        raise ValueError("Two parties have the same public key; each must make its own.")
    if not 0 <= index < len(public_keys) or public_keys[index] != own.public_key:
        raise ValueError(
            f"Public key {index} of the list is not the key of this party: the list was changed."
        )


# -- numbers as integers that masks can hide -------------------------------------------------------


BITS = 62
HALF = 32  # bits
LOW = np.int64(2**HALF - 1)
SLACK = 1 + 2.0**-20  # rounding of computed distances, relative


@dataclass(frozen=True)
class FixedPoint:
    """The common unit of `parties` parties: their values add up to at most 2**exponent."""

    exponent: int
    parties: int

    @classmethod
    def agreed(cls, exponents: Sequence[int]) -> FixedPoint:
        """From the `bound_exponent` of each party."""
        least = min(exponents)
        total = sum(1 << (e - least) for e in exponents)
        return cls(least + (total - 1).bit_length(), len(exponents))

    @property
    def error(self) -> float:
        """The largest error of a sum, one value a party."""
        return math.ldexp(self.parties, self.exponent - BITS - 1)

    @property
    def largest(self) -> int:
        """The largest sum, in units."""
        return (1 << BITS) + self.parties

    def encode(self, values: F64) -> U64:
        """Values in units. Pre: from 0 to the bound of this party."""
        scaled = values * math.ldexp(1.0, BITS - self.exponent)  # a power of two: exact
        return np.rint(scaled, out=scaled).astype(np.int64).view(np.uint64)

    def decode(self, sums: I64) -> F64:
        """Sums in units as float64."""
        return sums.astype(np.float64) * math.ldexp(1.0, self.exponent - BITS)

    def decode_total(self, total: int) -> float:
        """An integer of any size, in units, as float64."""
        return math.ldexp(float(total), self.exponent - BITS)


def bound_exponent(low: F64, high: F64) -> int:
    """An exponent e, so that squared distances between points of a box are below 2**e.

    A mean of rows may be outside the box by some units in the last place. ValueError if float64
    cannot hold the squares.
    """
    last_place = np.spacing(np.maximum(np.abs(low), np.abs(high)))
    with np.errstate(over="ignore"):
        sides = high - low + 4 * last_place
        bound = float(np.einsum("i,i->", sides, sides)) * SLACK
    if not math.isfinite(bound):
        raise ValueError("squared distances overflow float64")
    return exponent_of(bound) if bound > 0 else SMALLEST


def exact_sum(values: I64) -> int:
    """The sum of integers that int64 may be too small for. Pre: below 2^31 of them, none < 0."""
    return (int((values >> HALF).sum()) << HALF) + int((values & LOW).sum())


def row_at(masses: I64, goal: int) -> int:
    """The row at which the running sum passes the goal. Pre: 0 <= goal < exact_sum(masses)."""
    high, low = np.cumsum(masses >> HALF), np.cumsum(masses & LOW)
    high += low >> HALF
    low &= LOW
    first, last = (
        np.searchsorted(high, goal >> HALF, "left"),
        np.searchsorted(high, goal >> HALF, "right"),
    )
    return int(first + np.searchsorted(low[first:last], goal & int(LOW), side="right"))
