"""NVRTC compiles the kernels for cards, without one, and keeps their variables in registers."""

import platform
import re
import sys
from io import StringIO

import numpy as np
import pytest
from api import source_with
from cuda.on_host import HostCard
from cuda.variants import every, few, of_gains, of_products, of_rows

from kvariates import KMeans

MACHINES = {"x86_64", "aarch64"}
FOUND = re.compile(
    r"Compiling entry function '(\w+)' .*?(\d+) bytes stack frame, (\d+) bytes spill stores, "
    r"(\d+) bytes spill loads.*?Used (\d+) registers",
    re.DOTALL,
)
REGISTERS = 65536  # of all threads of a block
MOST_THREADS = 256
FEW_BYTES = 64  # may be spilled: what a loop does not use, and versions of NVRTC differ in

if not (sys.platform == "linux" and platform.machine() in MACHINES):
    pytest.skip("there is no NVRTC for this machine", allow_module_level=True)


def compiled(file, defines, arch):
    """Of each kernel: what is spilled to memory, in bytes, and registers."""
    import cuda.core as core

    options = core.ProgramOptions(
        name=file, arch=arch, std="c++17", fma=False, device_int128=True, ptxas_options=["-v"]
    )
    logs = StringIO()
    core.Program(source_with(file, dict(defines)), "c++", options).compile("cubin", logs=logs)
    return {
        name: (int(stores) + int(loads), int(registers))
        for name, _, stores, loads, registers in FOUND.findall(logs.getvalue())
    }


def name_of(case):
    (file, defines), arch = case
    return f"{file}-{'-'.join(f'{k}={v}' for k, v in defines)}-{arch}"


def check(case):
    (file, defines), arch = case
    kernels = compiled(file, defines, arch)
    assert kernels
    assert {name: spilled for name, (spilled, _) in kernels.items() if spilled > FEW_BYTES} == {}
    most = max(registers for _, registers in kernels.values())
    threads = 32 * dict(defines).get("WARPS", 0) or MOST_THREADS
    assert most * threads <= REGISTERS


@pytest.mark.parametrize("case", few(), ids=name_of)
def test_kernels_compile_without_spills(case):
    check(case)


@pytest.mark.slow
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("variants", [of_rows, of_gains, of_products])
def test_every_variant_compiles_without_spills(variants, arch):
    for variant in variants():
        check((variant, arch))


def test_the_few_variants_have_every_value_of_every_macro():
    def values(variants):
        return {(file, k, v) for file, defines in variants for k, v in defines}

    tested = values(variant for variant, _ in few())
    of_shapes = {"WARPS", "TILE", "STAGES"}  # only the shapes of large fits
    assert {pair for pair in values(every()) - tested if pair[1] not in of_shapes} == set()


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_fits_use_known_variants(card, dtype):
    rng = np.random.default_rng(0)
    for d, init in ((3, "k-means++"), (20, "k-means||")):
        X = rng.normal(size=(100, d)).astype(dtype)
        KMeans(9, init=init, device="cuda", random_state=0, max_iter=3).fit(X).transform(X)
    assert isinstance(card, HostCard)
    assert card.variants
    assert card.variants - set(every()) == set()
