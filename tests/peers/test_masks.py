"""Pairwise masks: they cancel, they are fresh, and only the right party reads a message."""

import numpy as np
import pytest
from api import PART, KeyPair, PairwiseKeys, fingerprint, stream
from peers.uniform_words import worst
from sampling.chi_square import ALPHA


def keys_of(parties):
    pairs = [KeyPair() for _ in range(parties)]
    public = [pair.public_key for pair in pairs]
    return [PairwiseKeys(pair, i, public) for i, pair in enumerate(pairs)]


@pytest.mark.parametrize("parties", [2, 3, 7])
def test_masks_of_all_parties_add_up_to_zero(parties):
    keys = keys_of(parties)
    for round_number, size in ((1, 1), (2, 1000), (9, 17), (2**40, 3)):
        masks = np.array([own.mask(size, round_number) for own in keys])
        assert masks.dtype == np.uint64
        assert not masks.sum(axis=0).any()
        for left_out in range(parties):  # no smaller group of parties has masks that cancel
            assert np.delete(masks, left_out, axis=0).sum(axis=0).all()


def test_rounds_pairs_and_sessions_have_other_numbers():
    first, second, third = keys_of(3)
    numbers = [own.mask(50, t) for t in (1, 2) for own in (first, second, third)]
    numbers += [own.mask(50, 1) for own in keys_of(3)]
    assert len(np.unique(numbers)) == 9 * 50


def numbers_of(key, round_number, size):
    return np.concatenate([part.copy() for _, part in stream(key, round_number, size)])


def test_a_stream_is_a_function_of_key_and_round():
    key, size = bytes(range(32)), 3 * PART // 2
    numbers = numbers_of(key, 5, size)
    assert np.array_equal(numbers_of(key, 5, 100), numbers[:100])
    assert len(np.unique(numbers)) == size
    assert not np.intersect1d(numbers, numbers_of(key, 6, size)).size


def test_the_numbers_are_those_of_chacha20():
    """RFC 8439, test vectors 1 and 2 of appendix A.1: key and nonce are zero, two blocks."""
    numbers = numbers_of(bytes(32), 0, 16).tobytes()
    assert numbers[:16] == bytes.fromhex("76b8e0ada0f13d90405d6ae55386bd28")
    assert numbers[64:80] == bytes.fromhex("9f07e7be5551387a98ba977c732d080d")


def test_long_masks_add_up_to_zero():
    keys = keys_of(3)
    masks = [own.mask(2 * PART + 5, 1) for own in keys]
    assert not (masks[0] + masks[1] + masks[2]).any()
    assert all(len(np.unique(mask)) == mask.size for mask in masks)


@pytest.mark.parametrize("again", [1, 4, 5])
def test_a_round_is_used_once(again):
    own, _ = keys_of(2)
    own.mask(3, 5)
    with pytest.raises(ValueError, match=f"Round 5 was used already, and {again} is not above it"):
        own.mask(3, again)
    own.mask(3, 6)


def test_a_message_is_read_by_its_receiver_only():
    first, second, third = keys_of(3)
    sealed = first.seal(1, b"to the second")
    assert second.unseal(0, sealed) == b"to the second"
    changed = sealed[:-1] + bytes([sealed[-1] ^ 1])
    for reader, sender, message in ((third, 0, sealed), (second, 2, sealed), (second, 0, changed)):
        with pytest.raises(ValueError, match=f"message from party {sender} cannot be read"):
            reader.unseal(sender, message)
    with pytest.raises(ValueError, match="cannot be read"):  # sent back to its sender
        first.unseal(1, sealed)


def test_a_key_that_was_put_in_between_changes_the_fingerprint_and_all_keys():
    one, two, false = KeyPair(), KeyPair(), KeyPair()
    of_one = PairwiseKeys(one, 0, [one.public_key, false.public_key])
    of_two = PairwiseKeys(two, 1, [false.public_key, two.public_key])
    assert of_one.fingerprint != of_two.fingerprint
    assert (of_one.mask(9, 1) + of_two.mask(9, 1)).any()
    with pytest.raises(ValueError, match="Compare the fingerprints"):
        of_two.unseal(0, of_one.seal(1, b"message"))
    assert of_one.fingerprint == fingerprint([one.public_key, false.public_key])


def test_one_false_key_in_the_list_of_one_party_spoils_all_its_keys():
    """So nobody can be given another list without its messages becoming unreadable."""
    pairs, false = [KeyPair() for _ in range(3)], KeyPair()
    public = [pair.public_key for pair in pairs]
    deceived = PairwiseKeys(pairs[0], 0, [*public[:2], false.public_key])
    other = PairwiseKeys(pairs[1], 1, public)
    with pytest.raises(ValueError, match="cannot be read"):
        other.unseal(0, deceived.seal(1, b"message"))


def test_a_party_that_is_listed_under_two_forms_of_its_key_does_not_cancel_a_mask():
    """X25519 ignores the highest bit of a public key: both forms have the same secret."""
    one, two = KeyPair(), KeyPair()
    twin = (int.from_bytes(two.public_key, "little") ^ (1 << 255)).to_bytes(32, "little")
    listed = [two.public_key, one.public_key, twin]
    assert PairwiseKeys(one, 1, listed).mask(9, 1).all()
    assert fingerprint(listed).startswith("3 keys: ")


def test_each_purpose_has_its_own_key():
    own, other = KeyPair(), KeyPair()
    key = own.shared_with(other.public_key, b"salt", b"masks")
    assert key == other.shared_with(own.public_key, b"salt", b"masks")
    assert key != own.shared_with(other.public_key, b"salt", b"messages")
    assert key != own.shared_with(other.public_key, b"pepper", b"masks")


def test_lists_of_public_keys_that_are_refused():
    own, other = KeyPair(), KeyPair()
    mine, theirs = own.public_key, other.public_key
    with pytest.raises(ValueError, match="two parties at least; got 1"):
        PairwiseKeys(own, 0, [mine])
    with pytest.raises(ValueError, match="Public key 1 of the list is not the key of this party"):
        PairwiseKeys(own, 1, [mine, theirs])
    with pytest.raises(ValueError, match="the list was changed"):
        PairwiseKeys(own, 2, [mine, theirs])
    with pytest.raises(ValueError, match="same public key"):
        PairwiseKeys(own, 0, [mine, mine])
    with pytest.raises(ValueError, match="256 parties at most; got 257"):
        PairwiseKeys(own, 0, [bytes([i // 256, i % 256]) * 16 for i in range(257)])


def test_masks_cancel_only_if_all_were_asked_the_same():
    first, second = keys_of(2)
    assert not (first.mask(9, 1, b"a") + second.mask(9, 1, b"a")).any()
    assert (first.mask(9, 2, b"a") + second.mask(9, 2, b"b")).all()


def test_wide_masks_cancel_and_are_uniform():
    keys, words = keys_of(3), 5
    masks = np.array([[own.wide_mask(words, t) for own in keys] for t in range(1, 1001)])
    assert not (masks.sum(axis=1) % (1 << 64 * words)).any()
    for own in range(3):
        data = b"".join(int(mask).to_bytes(8 * words, "little") for mask in masks[:, own])
        assert worst(np.frombuffer(data, "<u8").reshape(-1, words).T) > ALPHA
    with pytest.raises(ValueError, match="Round 1000 was used already"):
        keys[0].wide_mask(words, 1000)


def test_a_party_that_starts_again_goes_on_with_the_next_round():
    pairs = [KeyPair() for _ in range(3)]
    public = [pair.public_key for pair in pairs]
    own = PairwiseKeys(pairs[0], 0, public)
    own.mask(4, 7)
    again = PairwiseKeys(KeyPair(pairs[0].secret), 0, public, last_round=7)
    assert np.array_equal(own.mask(4, 8), again.mask(4, 8))
    with pytest.raises(ValueError, match="Round 7 was used already"):
        PairwiseKeys(pairs[0], 0, public, last_round=7).mask(4, 7)
