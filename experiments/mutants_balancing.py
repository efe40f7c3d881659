"""Mistakes in anti-clustering."""

from experiments.mutant import Mutant

LAWS, CONSTRAINTS = "balancing/test_anticlustering_laws.py", "balancing/test_group_constraints.py"
FOLDS, BALANCE = "balancing/test_anticluster_kfold.py", "balancing/test_group_balance.py"

BALANCING = [
    Mutant(
        "kinds of units forget their counts", "balancing.group_problem",
        "key = (*counts.indices[part].tolist(), *counts.data[part].tolist())",
        "key = (int(unit > 0),)",
        CONSTRAINTS,
    ),
    Mutant(
        "exchanges ignore cannot-links", "balancing.anticlusters",
        "order, start, units.size, problem.sizes, problem.sizes, units.link_start, units.link",
        "order, start, units.size, problem.sizes, problem.sizes, 0 * units.link_start, "
        "units.link[:0]",
        CONSTRAINTS,
    ),
    Mutant(
        "units are placed next to those they are linked to", "balancing.feasible_groups",
        "fits[linked[linked >= 0]] = False",
        "fits[linked[linked < -1]] = False",
        CONSTRAINTS,
    ),
    Mutant(
        "categories are dealt out from the first group each", "balancing.feasible_groups",
        "cell = sequence * G + groups[np.arange(n) % G]",
        "cell = sequence * G + groups[np.arange(n) // 2 % G]",
        CONSTRAINTS,
    ),
    Mutant(
        "the worst end of several searches is kept", "balancing.group_objectives",
        "return min(ends, key=lambda end: end.values[-1])",
        "return max(ends, key=lambda end: end.values[-1])",
        LAWS,
    ),
    Mutant(
        "k-plus does not standardise the squares", "balancing.group_objectives",
        "np.hstack([Z, standardised(Z**2)])",
        "np.hstack([Z, centred(Z**2)])",
        LAWS,
    ),
    Mutant(
        "the integer program forgets what single units add", "balancing.anticlusters",
        "x_cost = np.concatenate([pairs.own.T.ravel(), np.zeros(model.n - m * G)])",
        "x_cost = np.zeros(model.n)",
        LAWS,
    ),
    Mutant(
        "bisection ends one distance too low", "balancing.anticlusters",
        "while high - low > 1:",
        "while high - low > 2:",
        LAWS,
    ),
    Mutant(
        "folds of groups may have any size", "balancing.anticlusters",
        "np.full(n_folds, sizes.max())",
        "np.full(n_folds, 10 * sizes.max())",
        FOLDS,
    ),
    Mutant(
        "shares are those of the category, not of the group", "balancing.group_balance",
        "share = cell.reshape(n_groups, count) / sizes[:, None]",
        "share = cell.reshape(n_groups, count) / cell.reshape(n_groups, count).sum(axis=0)",
        BALANCE,
    ),
]  # fmt: skip
