"""Parts of Candidates: with exact answers each equals its definition; sensitivities."""

import numpy as np
import pytest
from api import (
    SIDE,
    AllCandidates,
    Candidates,
    Cost,
    CubeRows,
    DistanceMatrix,
    Domain,
    KMeansTrials,
    Lattice,
    Loss,
    MedoidProblem,
    MedoidState,
    Passing,
    PrivateChooser,
    PrivateTask,
    Projection,
    Recovery,
    RemainingCost,
    Secret,
    Shifted,
    SquaredDistances,
    SwapSearch,
    candidate_tree,
    draw_swaps,
    largest_values,
    on_unit_lattice,
    quantize_sparse,
    sparse_sums,
    squared_distances,
    swap_medoids,
)
from api import lattice_rows_module as lattice_distances
from privacy.exact_noise import both_adjacencies
from privacy.method_cases import watch_releases
from privacy.private_models import DELTAS, blobs, make_task, seen
from scipy import sparse

HUGE = 1e6  # an epsilon at which noise is far below one step


# ---- the partition ----


def exact_measure(above):
    """Children with more than `above` rows."""

    def measure(counted, level, active):
        histogram = seen(counted)
        kept = histogram.counts > above
        return Passing(histogram.cells[kept], histogram.counts[kept])

    return measure


def cubes_by_definition(rows, grid, above):
    """The centres and counts of Algorithm 1, cube by cube."""
    active, found = [(grid.low, SIDE)], []
    for halvings in grid.halvings:
        children = []
        for low, side in active:
            smaller = side / 2**halvings
            places = np.floor((rows - low) / smaller)
            inside = ((places >= 0) & (places < 2**halvings)).all(axis=1)
            for place in np.unique(places[inside], axis=0):
                count = int((places == place).all(axis=1).sum())
                if count > above:
                    children.append((low + place * smaller, smaller))
                    found.append((*(low + (place + 0.5) * smaller), count))
        active = children
    return np.array(sorted(found))


@pytest.mark.parametrize("halvings", [(1, 1, 1, 1), (3, 1)])
def test_an_exact_partition_is_that_of_algorithm_1(halvings):
    rng = np.random.default_rng(1)
    rows = on_unit_lattice(blobs(d=3))
    grid = Shifted.draw(3, halvings, rng)
    found = candidate_tree(Secret(rows), grid, 10**6, exact_measure(20))
    expected = cubes_by_definition(rows, grid, 20)
    assert len(expected) > 3
    assert len(found.points) == len(expected) + 1  # the first cube too
    order = np.lexsort(found.points[1:].T[::-1])
    np.testing.assert_allclose(found.points[1:][order], expected[:, :3], atol=1e-12)
    last = found.sides == found.sides.min()
    assert set(found.weights[last]) <= set(expected[:, 3])
    assert found.weights.sum() <= len(rows)


def test_every_shift_contains_every_row_and_cubes_nest():
    corners = np.array([[-1.0, -1.0], [1.0, 1.0], [-1.0, 1.0]])
    for seed in range(50):
        grid = Shifted.draw(2, (2, 1, 1), np.random.default_rng(seed))
        assert (grid.low <= -1).all()
        assert (grid.low + SIDE >= 1).all()
        found = candidate_tree(Secret(corners), grid, 100, exact_measure(0))
        assert found.levels == 3
        smallest = found.points[found.sides == found.sides.min()]
        apart = np.abs(corners[:, None] - smallest).max(axis=2).min(axis=1)
        assert (apart <= found.sides.min() / 2 + 1e-12).all()


def test_a_cube_depends_on_its_own_row_alone():
    rng = np.random.default_rng(2)
    rows = on_unit_lattice(rng.uniform(-0.6, 0.6, (200, 5)))
    grid = Shifted.draw(5, (3, 1, 1, 1), rng)
    together = CubeRows(rows, grid)._corners
    for i in range(0, 200, 17):
        assert np.array_equal(CubeRows(rows[i : i + 1], grid)._corners[0], together[i])


def test_more_cells_than_a_word_holds():
    rows = on_unit_lattice(np.random.default_rng(3).normal(size=(40, 90)) / 20)
    grid = Shifted.draw(90, (1, 1), np.random.default_rng(4))
    found = candidate_tree(Secret(rows), grid, 1000, exact_measure(0))
    smallest = found.points[found.sides == found.sides.min()]
    apart = np.abs(rows[:, None] - smallest).max(axis=2).min(axis=1)
    assert (apart <= found.sides.min() / 2 + 1e-12).all()


@pytest.mark.parametrize("p", [2, 80])
def test_a_noisy_partition_also_tests_empty_cubes(p):
    """About one empty cube passes, of any number of them."""
    method, passed = Candidates(levels=1, dimension=p, steps=0), 0
    for _ in range(12):
        task = make_task(np.zeros((0, p)), ball=True)
        values = {}
        choices = method._filled(task, 1, task.cost)
        plan = choices._plan(task, 1)
        with watch_releases(values):
            remaining = RemainingCost(task.cost, plan.weight)
            KMeansTrials(task, choices, plan, remaining).trial()
        (found,) = list(values.values())[:1]
        passed += len(found["cells"]) if isinstance(found, dict) else np.isfinite(found).sum()
    assert 1 <= passed <= 60  # Poisson(12), up to the rounding of the threshold


# ---- rows and projections ----


@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_matrix], ids=["dense", "csr"])
def test_a_projection_depends_on_its_own_row_alone(layout):
    rng = np.random.default_rng(5)
    domain = Domain.around(np.zeros(300), 2.0)
    rows = seen(domain.rows(layout(rng.normal(size=(50, 300)) * (rng.random((50, 300)) < 0.1))))
    project = Projection.draw(300, 6, 2.0, rng)
    together = project(rows)
    for i in range(0, 50, 7):
        assert np.array_equal(project(rows[i : i + 1])[0], together[i])
    assert (np.square(together).sum(axis=1) <= 1).all()
    exact = (rows @ project.matrix) / 2.0
    inside = np.square(exact).sum(axis=1) <= 1
    np.testing.assert_allclose(together[inside], exact[inside], atol=2.0**-10)


def test_squared_distances_are_exact():
    rng = np.random.default_rng(6)
    points, rows = (
        on_unit_lattice(rng.normal(size=(30, 7))),
        on_unit_lattice(rng.normal(size=(99, 7))),
    )
    space = SquaredDistances(points, rows)
    steps = np.rint(points * 1024).astype(int)[:, None] - np.rint(rows * 1024).astype(int)
    expected = np.square(steps).sum(axis=2) / 2**20
    assert np.array_equal(space.distances(np.arange(30)), expected)
    assert np.array_equal(space.distances(np.arange(3), np.arange(5)), expected[:3, :5])


def test_kept_distances_change_nothing(monkeypatch):
    rng = np.random.default_rng(7)
    points = on_unit_lattice(rng.normal(size=(9, 3)))
    for n in (50, 0):
        rows = on_unit_lattice(rng.normal(size=(n, 3)))
        kept = squared_distances(points, rows)
        monkeypatch.setattr(lattice_distances, "KEPT_BYTES", 4 * 9 * n - 1)
        spaces = kept, squared_distances(points, rows)
        monkeypatch.undo()
        assert [type(space) for space in spaces] == [DistanceMatrix, SquaredDistances]
        states = [
            MedoidState.of(MedoidProblem(s, None, np.arange(n)), np.arange(2)) for s in spaces
        ]
        for state in states:
            state.swap(4, 1)
        np.testing.assert_array_equal(*(state.changes(np.array([5, 8])) for state in states))
        assert states[0].cost == states[1].cost


def test_sparse_rows_on_the_lattice():
    rng = np.random.default_rng(7)
    X = sparse.csr_matrix(rng.normal(size=(60, 30)) * (rng.random((60, 30)) < 0.3) * 0.7)
    X.data[:3] = [1e300, -1e300, 1e-300]
    lattice = Lattice(2.0, 30, "l2")
    rows = quantize_sparse(X, lattice)
    steps = rows.toarray() / lattice.step
    assert np.array_equal(steps, np.rint(steps))
    assert (np.square(steps.astype(np.int64)).sum(axis=1) <= lattice.square).all()
    short = np.linalg.norm(X.toarray().clip(-9, 9), axis=1) < 2.0
    assert 5 < short.sum() < 55
    np.testing.assert_allclose(rows.toarray()[short], X.toarray()[short], atol=lattice.step)
    for i in range(0, 60, 7):
        assert np.array_equal(quantize_sparse(X[i], lattice).toarray()[0], rows[i].toarray()[0])


def test_the_largest_values_of_every_row():
    rng = np.random.default_rng(8)
    dense = np.round(rng.normal(size=(40, 12)), 1) * (rng.random((40, 12)) < 0.7)
    few = largest_values(sparse.csr_matrix(dense), 3).toarray()
    for row, kept in zip(dense, few, strict=True):
        order = np.lexsort((np.arange(12), -np.abs(row)))[:3]
        expected = np.zeros(12)
        expected[order] = row[order]
        assert np.array_equal(kept, expected)


def test_the_l1_sensitivity_of_sparse_rows():
    few = Lattice(1.0, 1000, "l2", nonzeros=4)
    assert few.l1("add-remove") == Lattice(1.0, 4, "l2").l1("add-remove")
    assert few.l2_squared("add-remove") == Lattice(1.0, 1000, "l2").l2_squared("add-remove")
    assert Lattice(1.0, 1000, "linf", nonzeros=4).l1("replace-one") == 8 * few.radius


# ---- swaps ----


def swap_problem(rng, n=200, m=25):
    rows, points = (
        on_unit_lattice(rng.normal(size=(n, 3)) / 3),
        on_unit_lattice(rng.normal(size=(m, 3)) / 2),
    )
    return MedoidProblem(SquaredDistances(points, rows), None, np.arange(n))


@both_adjacencies
@pytest.mark.parametrize("delta", DELTAS)
def test_with_a_huge_budget_swaps_are_the_best_ones(adjacency, delta):
    cost = Cost(epsilon=HUGE) if delta == 0 else Cost(rho=HUGE)
    for seed in range(4):
        problem, start = swap_problem(np.random.default_rng(seed)), np.arange(3)
        how = SwapSearch(AllCandidates(np.arange(25), 25))
        best = swap_medoids(MedoidState.of(problem, start.copy()), how)
        task, swaps = make_task(np.zeros((1, 1)), adjacency=adjacency), best.n_swaps + 2
        choose = PrivateChooser(task, 4.0, 1.0, cost.split([1.0] * (swaps + 1)))
        found = draw_swaps(Secret(problem), start, 25, swaps, choose).medoids
        assert sorted(found) == sorted(best.medoids)
        assert len(task.charges) == swaps + 1


def test_the_scores_of_neighbours_move_by_the_cost_of_one_row():
    rng = np.random.default_rng(9)
    points = on_unit_lattice(rng.normal(size=(12, 3)))
    rows = on_unit_lattice(rng.normal(size=(50, 3)))

    def scores(some):
        problem = MedoidProblem(SquaredDistances(points, some), None, np.arange(len(some)))
        state = MedoidState.of(problem, np.arange(2))
        return -(state.cost + state.changes(np.arange(2, 12)))

    for i in range(50):
        moved = scores(np.delete(rows, i, axis=0)) - scores(rows)
        assert (moved >= 0).all()
        assert (moved <= 4.0).all()


# ---- recovery ----


def exact_clusters(X, labels, k):
    return np.array([X[labels == j].mean(axis=0) for j in range(k)])


@pytest.mark.parametrize("kind", ["dense", "threshold", "picks"])
@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_matrix], ids=["dense", "csr"])
def test_with_a_huge_budget_recovery_gives_exact_means(kind, layout):
    rng = np.random.default_rng(10)
    X = rng.normal(size=(90, 6)) * (rng.random((90, 6)) < 0.5) / 4
    domain = Domain.around(np.zeros(6), 1.0)
    labels = rng.integers(3, size=90).astype(np.int32)
    task = PrivateTask(
        domain.rows(layout(X)),
        domain,
        3,
        "add-remove",
        Loss(HUGE, 0.0),
        sparse=layout is not np.asarray,
    )
    recovery = Recovery(kind, 6 if task.sparse else None, 1.0, 6)
    found = recovery(task, Secret(labels), task.cost)
    assert np.array_equal(found.counts, np.bincount(labels))
    rows = seen(task.rows)
    dense = rows.toarray() if task.sparse else rows
    np.testing.assert_allclose(found.means(), exact_clusters(dense, labels, 3), atol=1e-4)
    np.testing.assert_allclose(
        found.shrunken_means(lambda _: np.zeros((3, 6))), found.means(), atol=1e-4
    )


def test_picks_are_the_largest_features():
    X = np.zeros((50, 40))
    X[:, 7], X[:, 31], X[:25, 2] = 0.5, -0.7, 0.3
    domain = Domain.around(np.zeros(40), 1.0)
    task = PrivateTask(domain.rows(X), domain, 1, "replace-one", Loss(HUGE, 0.0))
    found = Recovery("picks", None, 1.0, 2)(task, Secret(np.zeros(50, np.int32)), task.cost)
    assert list(np.flatnonzero(found.sums[0])) == [7, 31]


@both_adjacencies
def test_picks_of_neighbours_move_by_the_largest_value(adjacency):
    """The exact scores of the picks, and the sums, of data that differ by one row."""
    rng = np.random.default_rng(11)
    domain = Domain.around(np.zeros(5), 1.0)
    recovery = Recovery("picks", 3, 0.5, 5)
    for _ in range(20):
        X = sparse.csr_matrix(rng.normal(size=(8, 5)))
        rows = recovery.few_values(seen(domain.rows(X)))
        assert (np.diff(rows.indptr) <= 3).all()
        assert (np.abs(rows.data) <= 0.5).all()
        whole = sparse_sums(rows, np.zeros(8, np.int32), 1).totals
        less = sparse_sums(rows[1:], np.zeros(7, np.int32), 1).totals
        assert (np.abs(np.abs(whole) - np.abs(less)) <= 0.5).all()
        lattice = Lattice(1.0, 5, "l2", nonzeros=3)
        assert np.abs(whole - less).sum() <= lattice.l1("add-remove") * lattice.step
