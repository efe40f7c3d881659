"""Mistakes among peers, and over Flower."""

from experiments.mutant import Mutant

PEERS = [
    Mutant(
        "the first peer is drawn uniformly", "peers.peers_data",
        "self._values |= self._coordinator.ask(asked)",
        "self._values |= self._coordinator.ask(asked)\n"
        "            if not self._known:\n"
        "                self._values = dict.fromkeys(self._values, 1.0)",
        "peers/test_peers_distribution.py",
    ),
    Mutant(
        "a lost state is computed without its last question", "peers.questions",
        "for question in envelope.log or ():",
        "for question in (envelope.log or ())[:-1]:",
        "peers/test_peers_laws.py",
    ),
    Mutant(
        "a policy does not cover the log", "peers.questions",
        "for question in (*(envelope.log or ()), envelope.question):",
        "for question in (envelope.question,):",
        "peers/test_failing_peers.py",
    ),
    Mutant(
        "secure sums: a round can be asked twice", "peers.masked_peer",
        "after = replace(kept, last_round=round, asked=asked)",
        "after = replace(kept, asked=asked)",
        "peers/test_masked_peers.py",
    ),
    Mutant(
        "secure sums: masks do not depend on the questions", "peers.masked_peer",
        "question.masked(answer, keys, round, asked)",
        'question.masked(answer, keys, round, b"")',
        "peers/test_masked_peers.py",
    ),
    Mutant(
        "secure sums: a peer joins any number of groups", "peers.masked_peer",
        "groups=kept.groups + 1",
        "groups=kept.groups",
        "federated/test_secure_sums.py",
    ),
    Mutant(
        "secure sums: any answer confirms a group", "peers.masked_peer",
        "self._confirm(keys.fingerprint) is not True",
        "self._confirm(keys.fingerprint) is False",
        "federated/test_secure_sums.py",
    ),
    Mutant(
        "secure sums: a peer is missing in the sum", "peers.masked_group",
        "if len(answers) < len(calls):",
        "if not answers:",
        "federated/test_secure_sums.py",
    ),
    Mutant(
        "what a client keeps is read and written by two threads", "federated.client",
        "with _one_at_a_time:",
        "if True:",
        "federated/test_fits.py",
    ),
    Mutant(
        "vertical: masks do not cancel", "peers.masks",
        "mask[part] -= numbers",
        "mask[part] += numbers",
        "peers/test_masks.py",
    ),
    Mutant(
        "vertical: masks are the same in every round", "peers.masks",
        'round_number.to_bytes(8, "little")',
        "bytes(8)",
        "peers/test_masks.py",
    ),
    Mutant(
        "vertical: a round can be asked twice", "peers.masks",
        "if round_number <= self.last_round:",
        "if round_number < self.last_round:",
        "peers/test_masks.py",
    ),
    Mutant(
        "masks: a key does not name its pair", "peers.masks",
        "purpose + _pair(index, j, public_keys)",
        "purpose",
        "peers/test_masks.py peers/test_masked_peers.py",
    ),
    Mutant(
        "vertical: keys do not depend on the list of public keys", "peers.masks",
        'salt = hashlib.sha256(b"".join(public_keys)).digest()',
        "salt = bytes(32)",
        "peers/test_masks.py",
    ),
    Mutant(
        "vertical: masks and messages have the same key", "peers.masks",
        'b"kvariates " + purpose',
        'b"kvariates "',
        "peers/test_masks.py",
    ),
    Mutant(
        "vertical: a key pair serves two sessions", "peers.vertical_party",
        "self._key_pair = None  # keys that are used twice would repeat masks",
        "pass",
        "contracts/test_vertical_contract.py",
    ),
    Mutant(
        "vertical over Flower: a new process forgets the last round", "peers.vertical_party",
        'PairwiseKeys(own, state["index"], public_keys, state["last_round"])',
        'PairwiseKeys(own, state["index"], public_keys)',
        "federated/test_vertical_messages.py",
    ),
    Mutant(
        "vertical over Flower: a new process forgets the questions", "peers.vertical_party",
        'state["message"], state["secret"], state["asked"],',
        'state["message"], state["secret"], b"",',
        "federated/test_vertical_messages.py",
    ),
    Mutant(
        "vertical over Flower: a message is answered twice", "federated.vertical",
        "if number <= messages:",
        "if number < messages:",
        "federated/test_vertical_messages.py",
    ),
    Mutant(
        "vertical over Flower: columns may change in a session", "federated.vertical",
        'if kept["columns"] != loaded.columns:',
        "if False:",
        "federated/test_vertical_messages.py",
    ),
    Mutant(
        "vertical: the hash of ids has no secret", "peers.vertical_party",
        'self._secret = hashlib.sha256(b"".join(m[:SHARE] for m in messages)).digest()',
        "self._secret = bytes(32)",
        "contracts/test_vertical_contract.py",
    ),
    Mutant(
        "vertical: ids are hashed without their lengths", "peers.vertical_party",
        'return len(value).to_bytes(8, "little") + value',
        "return value",
        "contracts/test_vertical_contract.py",
    ),
    Mutant(
        "vertical: variances are sent without masks", "peers.vertical_party",
        "values + keys.mask(2, round, self._asked)",
        "values + 0 * keys.mask(2, round)",
        "peers/test_hidden_values.py",
    ),
    Mutant(
        "vertical: distances are cut, not rounded", "peers.masks",
        "np.rint(scaled, out=scaled)",
        "np.floor(scaled, out=scaled)",
        "peers/test_fixed_point.py",
    ),
    Mutant(
        "vertical: the bound forgets the rounding of means", "peers.masks",
        "high - low + 4 * last_place",
        "high - low + 0 * last_place",
        "peers/test_fixed_point.py",
    ),
    Mutant(
        "vertical: rows are drawn by the last centre alone", "peers.vertical",
        "np.minimum(self._costs[block], sums.min(axis=1), out=self._costs[block])",
        "self._costs[block] = sums.min(axis=1)",
        "peers/test_vertical_seeding.py",
    ),
    Mutant(
        "vertical: a draw is off by one row", "peers.masks",
        'goal & int(LOW), side="right"',
        'goal & int(LOW), side="left"',
        "peers/test_fixed_point.py",
    ),
    Mutant(
        "vertical: ties go to the highest index", "peers.vertical",
        "sums.argmin(axis=1)",
        "(self.k - 1 - sums[:, ::-1].argmin(axis=1))",
        "peers/test_vertical_kmeans.py",
    ),
    Mutant(
        "vertical: labels are those before the last update", "peers.vertical",
        "if not end.converged:",
        "if False:",
        "peers/test_vertical_kmeans.py",
    ),
    Mutant(
        "vertical: empty clusters stay empty", "peers.vertical",
        "labels[far] = empty[: len(far)]",
        "pass",
        "peers/test_vertical_kmeans.py",
    ),
    Mutant(
        "vertical: the centres of the last run are kept", "peers.vertical_party",
        "labels.astype(np.int32), self._best",
        "labels.astype(np.int32), self.centers",
        "peers/test_vertical_kmeans.py",
    ),
    Mutant(
        "vertical: the tolerance is that of all columns together", "peers.vertical",
        "self.unit.decode_total(int(variance)) / int(columns)",
        "self.unit.decode_total(int(variance))",
        "peers/test_vertical_kmeans.py",
    ),
]  # fmt: skip
