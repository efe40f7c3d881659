"""AntiClusterKFold is a splitter of scikit-learn; its folds are alike, and respect y and groups."""

import numpy as np
import pytest
from api import GROUP_OBJECTIVES, evenly_packed
from sklearn import config_context
from sklearn.datasets import load_diabetes, load_iris
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    KFold,
    check_cv,
    cross_val_predict,
    cross_val_score,
    cross_validate,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from kvariates import AntiClusterKFold

X, Y = load_iris(return_X_y=True)
RNG = np.random.default_rng(0)
GROUPS = RNG.integers(23, size=len(X))


def folds(cv, *args):
    return [test for _, test in cv.split(*args)]


def worst_difference(X, tests):
    return max(np.abs((X[t].mean(axis=0) - X.mean(axis=0)) / X.std(axis=0)).max() for t in tests)


@pytest.mark.parametrize("objective", GROUP_OBJECTIVES)
@pytest.mark.parametrize("given", [(), (Y,), (Y + 0.5 * RNG.random(len(Y)),), (Y, GROUPS)])
def test_folds_are_a_partition(objective, given):
    cv = AntiClusterKFold(4, objective=objective, random_state=0)
    seen = np.zeros(len(X), dtype=int)
    for train, test in cv.split(X, *given):
        assert sorted([*train, *test]) == list(range(len(X)))
        seen[test] += 1
    assert (seen == 1).all()
    assert cv.get_n_splits(X) == 4
    sizes = sorted(map(len, folds(cv, X, *given)))
    if len(given) < 2:
        assert sizes == [37, 37, 38, 38]


def test_classes_are_distributed_evenly():
    for test in folds(AntiClusterKFold(4, random_state=0), X, Y):
        assert set(np.bincount(Y[test])) <= {12, 13}
    names = np.array(["a", "b", "c"])[Y]
    for test in folds(AntiClusterKFold(5, random_state=0), X, names):
        assert np.bincount(Y[test]).tolist() == [10, 10, 10]


@pytest.mark.parametrize("objective", ["variance", "kplus"])
def test_folds_are_more_alike_than_random_ones(objective):
    random = worst_difference(X, folds(KFold(5, shuffle=True, random_state=0), X))
    ours = worst_difference(X, folds(AntiClusterKFold(5, objective=objective, random_state=0), X))
    assert ours < random / 10


def test_numbers_in_y_are_features():
    rows, y = load_diabetes(return_X_y=True)  # scikit-learn takes this y for classes
    tests = folds(AntiClusterKFold(5, random_state=0), rows, y)
    assert worst_difference(np.column_stack([rows, y, (y - y.mean()) ** 2]), tests) < 0.02


def test_groups_stay_together_and_sizes_are_those_of_group_kfold():
    ours = folds(AntiClusterKFold(4, random_state=0), X, Y, GROUPS)
    for test in ours:
        assert not set(GROUPS[test]) & set(GROUPS[np.setdiff1d(np.arange(len(X)), test)])
    theirs = folds(GroupKFold(4), X, Y, GROUPS)
    assert max(map(len, ours)) <= max(map(len, theirs))
    assert min(map(len, ours)) >= min(map(len, theirs))
    assert worst_difference(X, ours) < worst_difference(X, theirs)


def test_items_are_packed_as_by_group_kfold():
    size = np.bincount(GROUPS)
    packed = np.bincount(evenly_packed(size, 4, RNG), weights=size)
    theirs = [len(t) for t in folds(GroupKFold(4), X, Y, GROUPS)]
    assert sorted(packed) == sorted(theirs)


def test_it_works_where_scikit_learn_takes_a_splitter():
    cv = AntiClusterKFold(3, random_state=0)
    model = make_pipeline(StandardScaler(), LogisticRegression())
    assert check_cv(cv) is cv
    assert cross_val_score(model, X, Y, cv=cv).min() > 0.9
    assert len(cross_val_predict(model, X, Y, cv=cv)) == len(X)
    search = GridSearchCV(Ridge(), {"alpha": [0.1, 1.0]}, cv=cv).fit(X, Y, groups=GROUPS)
    assert search.n_splits_ == 3
    assert repr(cv) == "AntiClusterKFold(n_splits=3, objective='variance', random_state=0)"


def test_a_seed_gives_the_same_folds_and_another_seed_others():
    def labels(seed):
        return np.concatenate(folds(AntiClusterKFold(5, random_state=seed), X, Y)).tolist()

    assert labels(1) == labels(1)
    assert labels(1) != labels(2)


def test_errors():
    with pytest.raises(ValueError, match="n_splits should be an integer of at least 2; got 1"):
        AntiClusterKFold(1)
    with pytest.raises(ValueError, match="objective should be one of"):
        AntiClusterKFold(objective="wrong")
    with pytest.raises(ValueError, match="objective should be one of"):
        AntiClusterKFold(objective=[])
    with pytest.raises(ValueError, match="groups has no value at row 1"):
        list(AntiClusterKFold(2).split(np.eye(4), groups=[1, None, 2, 3]))
    with pytest.raises(ValueError, match="y should be classes or numbers without missing"):
        list(AntiClusterKFold(2).split(np.eye(4), [None] * 4))
    with pytest.raises(ValueError, match="n_samples=3 should be >= n_splits=5"):
        folds(AntiClusterKFold(), X[:3])
    with pytest.raises(ValueError, match="2 groups should be >= n_splits=5"):
        folds(AntiClusterKFold(), X, Y, Y > 0)
    with pytest.raises(ValueError, match="NaN"):
        folds(AntiClusterKFold(), np.where(X > 7, np.nan, X))


def test_metadata_routing_gives_groups_to_the_folds_as_to_those_of_group_kfold():
    cv = AntiClusterKFold(5, random_state=0)
    with config_context(enable_metadata_routing=True):
        assert str(cv.get_metadata_routing()) == str(GroupKFold().get_metadata_routing())
        found = cross_validate(Ridge(), X, Y, cv=cv, params={"groups": GROUPS}, return_indices=True)
        without = cv.set_split_request(groups=False)
        assert len(cross_validate(Ridge(), X, Y, cv=without)["test_score"]) == 5
    for test, routed in zip(folds(cv, X, Y, GROUPS), found["indices"]["test"], strict=True):
        assert np.array_equal(test, routed)
