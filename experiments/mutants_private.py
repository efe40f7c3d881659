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
        "the noisy spread is paid for and the exact one used", "private_methods.noisy_tree",
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
        'with silent():',
        'with np.errstate(all="ignore"):',
        "privacy/test_secret.py",
    ),
    Mutant(
        "warnings are hidden in all threads", "privacy.secret",
        "class _Depth(threading.local):",
        "class _Depth:",
        "privacy/test_secret.py",
    ),
    Mutant(
        "a private swap counts half of the largest distance", "private_methods.private_swaps",
        "self.scores = Scores(largest, monotone=True)",
        "self.scores = Scores(largest / 2, monotone=True)",
        "privacy/test_demand_swaps.py privacy/test_replay_demand.py",
    ),
    Mutant(
        "distances of a private swap have no cap", "data.lattice_rows",
        "capped = np.minimum(distances.astype(np.float64), self.cap)",
        "capped = distances.astype(np.float64)",
        "privacy/test_demand_swaps.py",
    ),
    Mutant(
        "nodes of a tree without demand have no noise", "private_methods.demand_counts",
        "        counts[nodes] = counted.value\n",
        '        empty = np.bincount(cells[task.rows.reveal("no")], minlength=len(nodes)) == 0\n'
        "        counts[nodes] = np.where(empty, 0, counted.value)\n",
        "privacy/test_demand_tree.py",
    ),
    Mutant(
        "a level of the tree is not charged", "private_methods.demand_counts",
        "        if number == 1:\n",
        "        if number == 1:\n            task.charges.pop()\n",
        "privacy/test_private_kmedian.py privacy/test_replay_demand.py",
    ),
    Mutant(
        "an entry that is no point fails a fit", "estimators.private_kmedian",
        'if missing == "error" and not inside.all():',
        "if not inside.all():",
        "privacy/test_private_kmedian_input.py",
    ),
    Mutant(
        "a demand is read before its budget is spent", "estimators.private_kmedian",
        "        points = self._validate(X)\n",
        "        points = self._validate(X)\n        list(demand)\n",
        "privacy/test_private_kmedian_input.py",
    ),
    Mutant(
        "a pick counts a quarter of the largest value", "private_methods.recovery",
        "scores = Scores(self.largest, monotone=False)",
        "scores = Scores(self.largest / 4, monotone=False)",
        "privacy/test_replay.py privacy/test_candidate_parts.py",
    ),
    Mutant(
        "picks of a cluster that share rows count as parallel", "private_methods.recovery",
        'group = f"{name}: clusters, feature {number + 1}"',
        'group = f"{name}: clusters, feature"',
        "privacy/test_replay.py privacy/test_candidates.py",
    ),
    Mutant(
        "the choice of a trial has no cap", "private_methods.candidates",
        "np.minimum(np.floor(costs), COST_STEPS)",
        "np.floor(16 * costs)",
        "privacy/test_replay.py privacy/test_candidates.py",
    ),
    Mutant(
        "projected rows leave the unit ball", "private_methods.candidate_trials",
        "out[start : start + step] = on_unit_lattice(dense / self.radius)",
        "out[start : start + step] = np.round(dense / self.radius * 1024) / 1024",
        "privacy/test_replay.py privacy/test_candidate_parts.py",
    ),
    Mutant(
        "rows keep more values than their noise is for", "private_methods.recovery",
        "largest_values(rows, self.nonzeros)",
        "largest_values(rows, 2 * self.nonzeros)",
        "privacy/test_replay.py privacy/test_candidate_parts.py",
    ),
    Mutant(
        "a level of the partition is not charged", "private_methods.candidate_trials",
        "return release(query, cost).value\n\n            grid",
        "value = release(query, cost).value\n"
        "                if level:\n                    self.task.charges.pop()\n"
        "                return value\n\n            grid",
        "privacy/test_every_method.py privacy/test_replay.py",
    ),
    Mutant(
        "a forked process has a budget of its own", "privacy.budget",
        "    os.register_at_fork(after_in_child=_close_in_child)",
        "    pass",
        "privacy/test_budget.py",
    ),
    Mutant(
        "the losses of a cell are taken as smaller", "private_methods.demand_candidates",
        "Scores(cell.largest, monotone=True)",
        "Scores(cell.largest / 3, monotone=True)",
        "privacy/test_replay_demand.py privacy/test_demand_candidates.py",
    ),
    Mutant(
        "two recoveries count as parallel", "private_methods.demand_candidates",
        'f"recovery {self.recoveries}"',
        '"recovery"',
        "privacy/test_replay_demand.py privacy/test_private_kmedian.py",
    ),
]  # fmt: skip
