"""Mistakes in privacy and the private methods."""

from experiments.mutant import Mutant

PRIVATE = [
    Mutant(
        "a replaced row moves one count only", "privacy.query",
        'return 1 if adjacency == "add-remove" else self.replaced',
        "return 1",
        "privacy/test_mechanism_audits.py",
    ),
    Mutant(
        "a charge is not recorded", "privacy.mechanisms",
        "self.charges.append(made.charge)",
        "pass",
        "privacy/test_every_method.py",
    ),
    Mutant(
        "noisy Lloyd makes one step that is not paid for", "private_methods.noisy_lloyd",
        "return step.iteration + 1 == len(self.costs)",
        "return step.iteration + 1 == len(self.costs) + 1",
        "privacy/test_noisy_lloyd.py privacy/test_every_method.py",
    ),
    Mutant(
        "noise is drawn in any copy of a process", "privacy.noise_source",
        "        GUARD.check()\n",
        "",
        "privacy/test_fork_guard.py",
    ),
    Mutant(
        "a ledger adds charges for other neighbours", "privacy.ledger",
        "if charge.adjacency != self.adjacency:",
        "if False:",
        "privacy/test_ledger.py",
    ),
    Mutant(
        "a budget adds losses for other neighbours", "privacy.budget",
        "if line.adjacency != self.adjacency:",
        "if False:",
        "privacy/test_budget.py",
    ),
    Mutant(
        "the length of a secret can be read", "privacy.secret",
        "    __len__ = __iter__ = ",
        "    __len__ = lambda self: len(self._Secret__value)\n    __iter__ = ",
        "privacy/test_secret.py",
    ),
    Mutant(
        "a secret can be pickled", "privacy.secret",
        "    __reduce_ex__ = __reduce__ = __getstate__ = __setstate__ = _refuse\n",
        "",
        "privacy/test_secret.py",
    ),
    Mutant(
        "an error shows private rows", "privacy.secret",
        "except Exception as error:",
        "except ZeroDivisionError as error:",
        "privacy/test_secret.py",
    ),
    Mutant(
        "the noisy spread is paid for and the exact one used", "private_methods.principal_axes",
        "left = float(squares.value[0, 0]) / n",
        'left = float(added.reveal("no reason")[0, 0]) / n',
        "privacy/test_replay.py",
    ),
    Mutant(
        "a draw has no floor", "private_methods.noisy_kvariates",
        "each = np.ceil(part * UNIT).astype(np.int64) + self.floor",
        "each = np.ceil(part * UNIT).astype(np.int64)",
        "privacy/test_replay.py",
    ),
    Mutant(
        "warnings about private rows are shown", "privacy.secret",
        'with np.errstate(all="ignore"), hidden_warnings():',
        'with np.errstate(all="ignore"):',
        "privacy/test_secret.py",
    ),
    Mutant(
        "warnings are hidden in all threads", "privacy.hidden_warnings",
        "class _Depth(threading.local):",
        "class _Depth:",
        "privacy/test_secret.py",
    ),
]  # fmt: skip
