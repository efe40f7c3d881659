# Everything runs in .venv, which `make` sets up by itself. Nothing is rebuilt that did not change:
# stamp files in .venv remember what was installed and from what.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
NATIVE := $(wildcard native/*.hpp native/*.cpp) CMakeLists.txt
export PATH := $(CURDIR)/$(BIN):$(PATH)

.PHONY: help build demo test bench bench-kmedian bench-private quality audit docs lint format sanitize clean
.DELETE_ON_ERROR:
.NOTPARALLEL:

help:
	@echo "make demo      cluster the world's cities, draw a map"
	@echo "make test      all tests"
	@echo "make lint      ruff and mypy"
	@echo "make bench     against scikit-learn, scikit-learn-intelex and faiss"
	@echo "make bench-kmedian  k-median beside FasterPAM, and at scale"
	@echo "make bench-private  what privacy costs, method by method, and at scale"
	@echo "make quality   seedings and refinements compared on the usual sets"
	@echo "make audit     attack everything private at depth (minutes)"
	@echo "make docs      the documentation, into docs/_build"
	@echo "make sanitize  the native tests under address and undefined-behaviour sanitizers"
	@echo "make build     only set up .venv and compile"
	@echo "make format    let ruff rewrite what it can"
	@echo "make clean     remove .venv and everything built"

build: $(VENV)/.built

demo: build
	$(BIN)/kvariates demo -o demo-out

test: $(VENV)/.dev
	$(BIN)/pytest -n auto --dist loadfile

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(VENV)/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(VENV)/.bench
	$(BIN)/python -m benchmarks

bench-kmedian: $(VENV)/.bench
	$(BIN)/python -m benchmarks.kmedian

bench-private: build
	$(BIN)/python -m benchmarks.private

quality: build
	$(BIN)/python -m experiments.quality

audit: build
	$(BIN)/python -m experiments.audit

docs: $(VENV)/.docs
	$(BIN)/sphinx-build -W --keep-going -q -b html docs docs/_build/html
	@echo "docs/_build/html/index.html"

sanitize: $(VENV)/.tools
	CXX="$(COMPILER)" cmake -S . -B build/sanitize -G Ninja \
	  -DCMAKE_BUILD_TYPE=Debug -DKVARIATES_SANITIZE=ON -DKVARIATES_TESTS=ON
	cmake --build build/sanitize
	ctest --test-dir build/sanitize --output-on-failure --no-tests=error

clean:
	rm -rf $(VENV) build dist docs/_build docs/generated docs/proofs docs/choice_tables.txt demo-out

# --- how .venv comes to be -------------------------------------------------------------------

# $CXX where it is set, or the first of the usual names that is there; empty if none is.
FOUND    = $(firstword $(foreach name,g++ c++ clang++,$(shell command -v $(name) 2>/dev/null)))
COMPILER = $(if $(filter default undefined,$(origin CXX)),$(FOUND),$(CXX))

PIP = $(BIN)/python -m pip --disable-pip-version-check --no-input -q
# Build isolation would give CMake a new nanobind path each time, and recompile everything.
INSTALL = CXX="$(COMPILER)" $(PIP) install --no-build-isolation -e

# What the build system says it needs: its own list, then a cmake or ninja this machine lacks.
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
