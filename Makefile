# All targets use .venv, which make sets up. Stamp files in .venv record what is installed, so that
# only what changed is built again.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
NATIVE := $(wildcard native/*.hpp native/*.cpp) CMakeLists.txt
CXX_FILES := $(wildcard native/*.?pp native/tests/*.?pp)
export PATH := $(CURDIR)/$(BIN):$(PATH)

.PHONY: help build demo test bench bench-kmedian bench-private bench-streams bench-dask bench-compare quality audit mutants federated docs lint format sanitize tsan hostile clean
.DELETE_ON_ERROR:
.NOTPARALLEL:

help:
	@echo "make demo           cluster the world's cities and draw a map"
	@echo "make test           run all tests"
	@echo "make lint           run ruff, clang-format and mypy"
	@echo "make format         let ruff and clang-format fix and format the code"
	@echo "make docs           build the documentation in docs/_build"
	@echo "make sanitize       run the native tests under address and undefined-behaviour sanitizers"
	@echo "make tsan           run the native tests under the thread sanitizer"
	@echo "make hostile        run out of memory, signals and failures on purpose, thousands of times (minutes)"
	@echo "make bench          compare k-means with scikit-learn, scikit-learn-intelex and faiss"
	@echo "make bench-kmedian  compare k-median with FasterPAM, and measure large data"
	@echo "make bench-private  measure the cost of private k-means for every method, and large data"
	@echo "make bench-streams  measure streams and data larger than memory (writes a file of 8 GB)"
	@echo "make bench-dask     measure k-means on two Dask workers"
	@echo "make bench-compare OLD=...  compare the speed with another version (folder or interpreter)"
	@echo "make quality        compare seedings and refinements on public data; count right choices of k"
	@echo "make audit          attack all private methods with many runs (minutes)"
	@echo "make mutants        plant mistakes, one at a time, and see which test catches each (minutes)"
	@echo "make federated      run a fit with real processes of Flower on this machine (minutes)"
	@echo "make build          only set up .venv and compile"
	@echo "make clean          remove .venv and everything built"

build: $(VENV)/.built

demo: build
	$(BIN)/kvariates demo -o demo-out

test: $(VENV)/.dev
	$(BIN)/pytest -n auto --dist loadfile

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

bench-kmedian: $(VENV)/.bench
	$(BIN)/python -m benchmarks.kmedian

bench-private: build
	$(BIN)/python -m benchmarks.private

bench-streams: $(VENV)/.dev
	$(BIN)/python -m benchmarks.streams

bench-dask: $(VENV)/.dev
	$(BIN)/python -m benchmarks.dask_speed

SUITE ?= main
bench-compare: build
	$(BIN)/python -m benchmarks.side_by_side $(OLD) $(BIN)/python --suite $(SUITE)

quality: build
	$(BIN)/python -m experiments.quality
	$(BIN)/python -m experiments.choosing

audit: build
	$(BIN)/python -m experiments.audit

mutants: $(VENV)/.dev
	$(BIN)/python -m experiments.mutants

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

clean:
	rm -rf $(VENV) build dist docs/_build docs/generated docs/proofs docs/choice_tables.txt demo-out

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
	@$(INSTALL) .
	@touch $@

$(VENV)/.dev $(VENV)/.bench $(VENV)/.docs: $(VENV)/.%: $(VENV)/.built
	@echo "installing the extra '$*'"
	@$(INSTALL) '.[$*]'
	@touch $@
