# Two commands do all the set-up: `make demo` and `make test`. Each creates .venv on a machine with only Python 3.11+ and make.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
WORKERS ?= 2
# One BLAS thread per test worker: two workers on two cores must not fight over four threads.
export OPENBLAS_NUM_THREADS ?= 1
export OMP_NUM_THREADS ?= 1

.PHONY: demo test lint audit bench bench-accuracy docs gallery soak clean

$(BIN)/.core: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"
	$(BIN)/python -m pip install --quiet --editable .
	@touch $@

$(BIN)/.dev: $(BIN)/.core
	$(BIN)/python -m pip install --quiet --group dev --editable ".[exact,dask]"
	@touch $@

demo: $(BIN)/.core
	$(BIN)/dperm demo

test: $(BIN)/.dev
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile -q

lint: $(BIN)/.dev
	$(BIN)/ruff check src tests
	$(BIN)/mypy --strict src/dperm/problem src/dperm/privacy src/dperm/theory src/dperm/solvers.py

clean:
	rm -rf $(VENV) dperm-demo site
