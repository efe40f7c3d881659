"""What a user of a card meets: arrays of other libraries, bad input, a full card, an interrupt."""

import copy
import pickle
import re

import numpy as np
import pytest
from gpu.compared import first_difference, fit, unequal
from gpu.libraries import cupy, library_of, on_host, placed, torch
from gpu.processes import output_of
from sklearn.base import clone
from sklearn.pipeline import make_pipeline

from kvariates import KMeans

ON_CARD = "torch", "cupy"


def made(n=2_000, d=10, dtype="float32", seed=0):
    return np.random.default_rng(seed).normal(size=(n, d)).astype(dtype)


def one_line(error, *parts):
    """The message of an error, which must be one line with all these parts."""
    said = str(error.value)
    assert "\n" not in said
    for part in parts:
        assert re.search(part, said), said
    return said


# ---- results follow X ----------------------------------------------------------------------------


@pytest.mark.parametrize("library", ON_CARD)
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_results_are_of_the_library_of_x(library, dtype):
    X = placed(made(dtype=dtype), library)
    model = KMeans(5, random_state=0).fit(X)  # device="auto"
    results = {
        "cluster_centers_": model.cluster_centers_,
        "labels_": model.labels_,
        "predict": model.predict(X),
        "transform": model.transform(X),
        "fit_predict": clone(model).fit_predict(X),
        "fit_transform": clone(model).fit_transform(X),
    }
    for name, values in results.items():
        assert library_of(values) == library, name
        assert values.device == X.device, name
    expected = "float64" if dtype == "float64" else "float32"
    assert str(model.cluster_centers_.dtype).endswith(expected)
    assert type(model.inertia_) is type(model.score(X)) is float
    assert unequal("labels", results["labels_"], results["predict"]) is None


def test_results_of_host_memory_are_numpy_arrays():
    X = made()
    model = KMeans(5, device="cuda", random_state=0).fit(X)
    for values in (model.cluster_centers_, model.labels_, model.predict(X), model.transform(X)):
        assert type(values) is np.ndarray
    tensor = torch.as_tensor(X)  # in host memory
    assert type(KMeans(5, device="cuda", random_state=0).fit(tensor).labels_) is np.ndarray


@pytest.mark.parametrize("library", ["numpy", *ON_CARD])
def test_a_fitted_model_answers_about_rows_anywhere(library):
    X, fresh = made(), made(seed=1)
    model = KMeans(5, random_state=0).fit(placed(X, "torch"))
    cpu = KMeans(5, random_state=0).fit(X)
    told = model.predict(placed(fresh, library))
    assert library_of(told) == library
    assert unequal("labels", cpu.predict(fresh), told) is None


@pytest.mark.parametrize("library", ON_CARD)
@pytest.mark.parametrize("kind", ["every second row", "columns", "transposed", "negative strides"])
def test_any_order_in_memory(library, kind):
    base = made(1_000, 40)
    X = {
        "every second row": base[::2],
        "columns": base[:, 3:20],
        "transposed": base.T,
        "negative strides": base[::-1],
    }[kind]
    on_card = placed(np.ascontiguousarray(base), library)
    if kind == "every second row":
        on_card = on_card[::2]
    elif kind == "columns":
        on_card = on_card[:, 3:20]
    elif kind == "transposed":
        on_card = on_card.T
    else:
        on_card = torch.flip(on_card, (0,)) if library == "torch" else on_card[::-1]
    X = np.ascontiguousarray(X)
    assert first_difference(fit(X, 6, device="cpu"), fit(on_card, 6, device="auto"), X) is None


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "int64"])
def test_integers(dtype):
    X = np.random.default_rng(0).integers(0, 100, (2_000, 8)).astype(dtype)
    cpu = fit(X, 6, device="cpu")
    for library in ("numpy", *ON_CARD):
        card = fit(placed(X, library), 6, device="cuda")
        assert first_difference(cpu, card, X) is None, library


def test_bfloat16_of_torch():
    X = placed(made(), "torch").to(torch.bfloat16)
    cpu = fit(X.cpu(), 6, device="cpu")
    assert first_difference(cpu, fit(X, 6, device="cuda")) is None


@pytest.mark.parametrize("library", ON_CARD)
def test_rows_that_are_still_computed(library):
    """Kernels of the library may still write X, on any stream of it, when the fit begins."""
    base = placed(made(4_096, 4_096), library)

    def late():
        X = base
        for _ in range(8):
            X = X @ base
            X = X / abs(X).max()
        return X[:, :16] + 0.0

    for turn in range(3):
        if library == "torch":
            stream = torch.cuda.Stream() if turn else torch.cuda.current_stream()
            with torch.cuda.stream(stream):
                card = fit(late(), 8, device="auto", seed=turn)
        else:
            stream = cupy.cuda.Stream(non_blocking=True) if turn else cupy.cuda.Stream.null
            with stream:
                card = fit(late(), 8, device="auto", seed=turn)
        torch.cuda.synchronize()
        X = np.ascontiguousarray(on_host(late()))
        assert first_difference(fit(X, 8, device="cpu", seed=turn), card, X) is None


@pytest.mark.parametrize("library", ["numpy", *ON_CARD, "list", "torch on the CPU"])
def test_weights_of_any_library(library):
    X, weight = made(), np.random.default_rng(1).uniform(0, 2, 2_000)
    cpu = fit(X, 6, device="cpu", weight=weight)
    given = {"list": weight.tolist(), "torch on the CPU": torch.as_tensor(weight)}
    given = given[library] if library in given else placed(weight, library)
    for x in (X, placed(X, "torch")):
        card = fit(x, 6, device="cuda", weight=given)
        assert first_difference(cpu, card, X) is None


@pytest.mark.parametrize("library", ["numpy", *ON_CARD])
def test_starts_of_any_library(library):
    X = made()
    cpu = fit(X, 6, device="cpu", init=X[:6], n_init=1)
    init = placed(X[:6].copy(), library)
    card = fit(placed(X, "torch"), 6, device="auto", init=init, n_init=1)
    assert first_difference(cpu, card, X) is None


def test_a_function_for_first_centres_is_given_x():
    seen = []

    def first(X, k, random_state):
        seen.append(X)
        return X[:k]

    X = placed(made(), "torch")
    card = fit(X, 6, device="auto", init=first, n_init=1)
    assert library_of(seen[0]) == "torch"
    cpu = fit(made(), 6, device="cpu", init=lambda X, k, random_state: X[:k], n_init=1)
    assert first_difference(cpu, card) is None


def test_x_is_not_changed():
    X = placed(made(), "torch")
    before = X.clone()
    for metric in ("euclidean", "cosine"):
        KMeans(5, metric=metric, random_state=0).fit(X).transform(X)
    assert torch.equal(X, before)


# ---- scikit-learn --------------------------------------------------------------------------------


def test_a_clone_keeps_the_device():
    assert clone(KMeans(3, device="cuda:0")).device == "cuda:0"
    assert "device" in KMeans().get_params()


@pytest.mark.parametrize("way", ["pickle", "deepcopy"])
def test_a_copy_holds_numpy_arrays(way):
    X = placed(made(), "torch")
    model = KMeans(5, random_state=0).fit(X)
    copied = pickle.loads(pickle.dumps(model)) if way == "pickle" else copy.deepcopy(model)
    for name in ("cluster_centers_", "labels_"):
        assert type(getattr(copied, name)) is np.ndarray
        assert unequal(name, getattr(copied, name), getattr(model, name)) is None
    assert unequal("labels", copied.predict(made()), model.predict(X)) is None
    assert library_of(copied.predict(X)) == "torch"


def test_a_saved_model_is_read_without_a_card(tmp_path):
    pytest.importorskip("skops")
    X = placed(made(), "torch")
    model = KMeans(5, random_state=0).fit(X)
    model.save(tmp_path / "model")
    code = f"""
        import numpy as np
        from kvariates import KMeans
        X = np.random.default_rng(0).normal(size=(2_000, 10)).astype("float32")
        print(KMeans.load({str(tmp_path / "model")!r}).predict(X).sum())
    """
    assert output_of(code, CUDA_VISIBLE_DEVICES="") == [str(int(model.labels_.sum()))]


def test_a_pipeline_and_data_frames():
    X = placed(made(), "torch")
    labels = make_pipeline(KMeans(5, random_state=0)).fit_predict(X)
    assert library_of(labels) == "torch"


def test_array_api_dispatch():
    """scikit-learn's setting, which it allows only if scipy was told before its import."""
    code = """
        import numpy as np, sklearn, torch, cupy
        from kvariates import KMeans
        X = np.random.default_rng(0).normal(size=(2_000, 10)).astype("float32")
        cpu = KMeans(5, random_state=0).fit(X)
        for given in (torch.as_tensor(X, device="cuda"), cupy.asarray(X), X):
            with sklearn.config_context(array_api_dispatch=True):
                model = KMeans(5, random_state=0).fit(given)
                parts = model.labels_, model.predict(given), model.cluster_centers_
                parts += (model.transform(given),)
                model.score(given)
            assert all(type(part) is type(given) for part in parts)
            assert all(part.device == given.device for part in parts)
            labels = parts[0].tolist()
            assert labels == cpu.labels_.tolist() == parts[1].tolist()
            assert parts[2].tolist() == cpu.cluster_centers_.tolist()
        print("equal")
    """
    assert output_of(code, SCIPY_ARRAY_API="1") == ["equal"]


# ---- bad input -----------------------------------------------------------------------------------


@pytest.mark.parametrize("library", ["numpy", *ON_CARD])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_values_that_are_not_finite(library, bad):
    X = made()
    X[1_234, 5] = X[1_900, 0] = bad
    word = "NaN" if np.isnan(bad) else "infinity"
    model = KMeans(5, device="cuda")
    with pytest.raises(ValueError, match=word) as error:
        model.fit(placed(X, library))
    one_line(error, "row 1234", "column 5")
    assert not hasattr(model, "cluster_centers_")
    model = KMeans(5, device="cuda", random_state=0).fit(made())
    with pytest.raises(ValueError, match=word) as error:
        model.predict(placed(X, library))
    one_line(error, "row 1234")


def test_the_last_row_is_checked_too():
    X = made(100_003, 3)
    X[-1, -1] = np.nan
    with pytest.raises(ValueError, match="row 100002, column 2"):
        KMeans(5).fit(placed(X, "torch"))


def test_rows_without_a_direction():
    X = made()
    X[77] = 0
    with pytest.raises(ValueError, match="row 77") as error:
        KMeans(5, metric="cosine").fit(placed(X, "torch"))
    one_line(error, "cosine")


def test_a_card_and_a_device_that_contradict():
    X = placed(made(), "torch")
    with pytest.raises(TypeError) as error:
        KMeans(5, device="cpu").fit(X)
    one_line(error, "GPU", "device='auto'")
    with pytest.raises(ValueError, match="cuda:7") as error:
        KMeans(5, device="cuda:7").fit(X)
    one_line(error, "cuda:0")
    with pytest.raises(RuntimeError) as error:
        KMeans(5, device="cuda:77").fit(made())
    one_line(error, "device='cpu'")
    with pytest.raises(ValueError, match="device"):
        KMeans(5, device="gpu").fit(X)


def test_weights_on_a_card_for_rows_on_the_cpu():
    with pytest.raises(TypeError) as error:
        KMeans(5, device="cpu").fit(made(), sample_weight=placed(np.ones(2_000), "torch"))
    one_line(error, "sample_weight", "GPU")


@pytest.mark.parametrize(
    "options",
    [
        {"algorithm": "hartigan"}, {"algorithm": "minibatch"}, {"init": "hst"},
        {"distortion": "kl"}, {"certify": True}, {"size_max": 500},
    ],
    ids=str,
)  # fmt: skip
def test_what_has_no_kernel_says_so(options):
    X = abs(made()) + 1
    with pytest.raises(ValueError, match="device='cpu'") as error:
        KMeans(5, device="cuda", **options).fit(X)
    one_line(error, next(iter(options)))


def test_sparse_rows():
    from scipy import sparse

    with pytest.raises((TypeError, ValueError), match="device='cpu'") as error:
        KMeans(5, device="cuda").fit(sparse.csr_array(made()))
    one_line(error)


def test_tensors_with_gradients_and_other_shapes():
    X = placed(made(), "torch")
    with pytest.raises(TypeError) as error:
        KMeans(5).fit(X.clone().requires_grad_())
    one_line(error, "detach")
    for shape, words in ((X[0], "1D"), (X[None], "3D"), (X[:0], "0 sample"), (X[:, :0], "0 feat")):
        with pytest.raises(ValueError, match=words) as error:
            KMeans(5).fit(shape)
        one_line(error)
    with pytest.raises(ValueError, match="n_samples=3"):
        KMeans(5).fit(X[:3])
    model = KMeans(5, random_state=0).fit(X)
    with pytest.raises(ValueError, match="features"):
        model.predict(X[:, :4])


def test_too_large_values():
    X = made(dtype="float64")
    X[5] *= 1e200
    for given in (X, placed(X, "torch")):
        with pytest.raises(ValueError, match="float64") as error:
            KMeans(5, device="cuda", random_state=0).fit(given)
        one_line(error)


# ---- the card ------------------------------------------------------------------------------------

FULL = """
    import numpy as np, torch
    from kvariates import KMeans
    X = np.random.default_rng(0).random((2_000_000, 128), dtype="float32")  # 1 GB
    few = KMeans(8, device="cuda", random_state=0).fit(X[:5_000])  # its kernels are compiled
    given = torch.as_tensor(X, device="cuda") if {on_card} else X
    free, _ = torch.cuda.mem_get_info()
    taken = torch.empty(free - 300 * 2**20, dtype=torch.uint8, device="cuda")
    model = KMeans(8, device="cuda", random_state=0)
    try:
        model.fit(given)
        print("fitted")
    except MemoryError as error:
        print(error)
        assert not hasattr(model, "cluster_centers_")
    del taken
    torch.cuda.empty_cache()
    again = KMeans(8, device="cuda", random_state=0).fit(X[:5_000])
    assert (again.labels_ == few.labels_).all()
    model.fit(given)
    print("ok")
"""


@pytest.mark.parametrize("on_card", [False, True])
def test_a_full_card(on_card):
    """Either one line that says how much is needed, or rows that pass through in blocks."""
    said = output_of(FULL.format(on_card=on_card))
    assert len(said) == 2
    assert said[1] == "ok"
    assert said[0] == "fitted" or re.search(r"GB free, and \d+\.\d GB", said[0])


INTERRUPTED = """
    import os, signal, threading
    import numpy as np
    from kvariates import KMeans
    X = np.random.default_rng(0).random((1_000_000, 64), dtype="float32")
    model = KMeans(50, device="cuda", random_state=0).fit(X[:20_000])
    before, labels = dict(vars(model)), model.labels_.copy()
    model.set_params(n_clusters=1_000, n_init=60, init="d2", tol=0.0)
    before = dict(vars(model))
    stopped = 0
    for delay in (0.02, 0.1, 0.3, 0.7, 1.5):
        timer = threading.Timer(delay, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        try:
            model.fit(X)
            print("a fit ended before it was interrupted")
            break
        except KeyboardInterrupt:
            stopped += 1
        timer.join()
        assert vars(model).keys() == before.keys()
        assert all(vars(model)[name] is value for name, value in before.items())
    again = KMeans(50, device="cuda", random_state=0).fit(X[:20_000])
    assert (again.labels_ == labels).all()
    print(stopped)
"""


def test_an_interrupted_fit_leaves_the_model_as_it_was():
    assert output_of(INTERRUPTED) == ["5"]


FORKED = """
    import os
    import numpy as np
    from kvariates import KMeans
    X = np.random.default_rng(0).random((2_000, 8), dtype="float32")
    model = KMeans(8, device="cuda", random_state=0).fit(X)
    labels = model.predict(X)
    child = os.fork()
    if child == 0:
        try:
            model.predict(X)
        except RuntimeError as error:
            print(error, flush=True)
        os._exit(0)
    os.waitpid(child, 0)
    assert (model.predict(X) == labels).all()  # the parent's card still works
"""


def test_a_fork():
    (said,) = output_of(FORKED)
    assert "forked" in said
    assert "spawn" in said


def test_a_fork_before_the_card_is_opened():
    code = """
        import os
        import numpy as np
        from kvariates import KMeans
        X = np.random.default_rng(0).random((2_000, 8), dtype="float32")
        KMeans(8, random_state=0).fit(X)
        child = os.fork()
        model = KMeans(8, device="cuda", random_state=0).fit(X)
        if child == 0:
            os._exit(0)
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status))
    """
    assert output_of(code) == ["0"]


def test_no_visible_card():
    code = """
        import sys
        import numpy as np
        from kvariates import KMeans
        X = np.random.default_rng(0).random((2_000, 8))
        KMeans(8).fit(X)  # needs none, and loads nothing
        assert not {"cuda.core", "cuda.bindings", "cupy", "torch"} & sys.modules.keys()
        try:
            KMeans(8, device="cuda").fit(X)
        except RuntimeError as error:
            print(error)
    """
    (said,) = output_of(code, CUDA_VISIBLE_DEVICES="")
    assert said.startswith("device='cuda'")
    assert "device='cpu'" in said


def test_no_folder_for_compiled_kernels(tmp_path):
    """A home that cannot be written, as in some containers: kernels are compiled each time."""
    (tmp_path / "file").write_text("")
    code = """
        import numpy as np
        from kvariates import KMeans
        X = np.random.default_rng(0).random((500, 8), dtype="float32")
        print(KMeans(3, device="cuda", random_state=0).fit(X).n_iter_ > 0)
    """
    home = str(tmp_path / "file" / "folder")  # cannot be made: a file is in its place
    assert output_of(code, HOME=home, XDG_CACHE_HOME=home) == ["True"]


def test_two_threads_fit_at_once():
    from concurrent.futures import ThreadPoolExecutor

    def labels(seed, device="cuda"):
        return KMeans(12, device=device, random_state=seed).fit_predict(X)

    X = made(20_000, 16)
    with ThreadPoolExecutor(3) as pool:
        card = list(pool.map(labels, range(6)))
    for seed, told in enumerate(card):
        assert unequal("labels", labels(seed, "cpu"), told) is None


def test_memory_is_given_back():
    """Fits one after the other need no more memory than the first one."""
    X = placed(made(500_000, 32), "torch")
    KMeans(64, random_state=0).fit(X)
    torch.cuda.synchronize()
    before = torch.cuda.mem_get_info()[0]
    for seed in range(5):
        KMeans(64, random_state=seed, max_iter=5).fit(X)
    torch.cuda.synchronize()
    assert torch.cuda.mem_get_info()[0] > before - 50 * 2**20
