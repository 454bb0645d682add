# Two commands do all the set-up: `make demo` and `make test`. Each creates .venv on a machine with only Python 3.11+ and make.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
WORKERS ?= 2
# One BLAS thread per test worker: two workers on two cores must not fight over four threads.
export OPENBLAS_NUM_THREADS ?= 1
export OMP_NUM_THREADS ?= 1

.PHONY: demo setup test coverage lint audit bench bench-accuracy bench-heads docs notebooks gallery soak clean

$(BIN)/.core: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"
	$(BIN)/python -m pip install --quiet --editable .
	@touch $@

$(BIN)/.dev: $(BIN)/.core
	$(BIN)/python -m pip install --quiet --group dev --editable ".[exact,dask,fast,spark]"
	@touch $@

demo: $(BIN)/.core
	$(BIN)/dperm demo

setup: $(BIN)/.dev

test: $(BIN)/.dev
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile -q

lint: $(BIN)/.dev
	$(BIN)/ruff check src tests
	$(BIN)/mypy --strict src/dperm

# The gate of the two packages that every guarantee rests on.
coverage: $(BIN)/.dev
	$(BIN)/python -m pytest -n $(WORKERS) -q --cov=dperm.problem --cov=dperm.privacy --cov-fail-under=95 \
	  --cov-report=term-missing:skip-covered tests/problem/test_losses.py tests/problem/test_regularizers.py tests/problem/test_domains.py \
	  tests/problem/test_problem.py tests/privacy/test_gaussian.py tests/privacy/test_accounting.py tests/privacy/test_guarantees.py \
	  tests/mechanisms/test_objective.py tests/mechanisms/test_exact_objective.py src/dperm/problem src/dperm/privacy

# The site, with warnings as errors, into site/.
docs: $(BIN)/.dev
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

# Runs docs/notebooks again and keeps their outputs; `make test` runs them in a reduced form.
notebooks: $(BIN)/.dev
	$(BIN)/python -m pip install --quiet --group notebooks
	$(BIN)/python scripts/run_notebooks.py

# 500 fits killed at random moments while eight processes share one ledger; bounded in time.
soak: $(BIN)/.core
	$(BIN)/python scripts/soak.py --fits 500 --processes 8 --seconds 600

# Every claim of ours attacked: exact profiles, ten planted bugs, then 18 minutes of fits on neighbours. Writes docs/audit.md.
audit: $(BIN)/.dev
	$(BIN)/dperm audit --suite --minutes 18 --processes $(WORKERS) --out docs/audit.md

# One table of ratios against non-private fits and peers; all threads of the machine. See benchmarks/README.md.
bench: $(BIN)/.dev
	env -u OPENBLAS_NUM_THREADS -u OMP_NUM_THREADS $(BIN)/python benchmarks/speed.py

# Ours, then the peers in their own environments, then docs/accuracy.md; resumable, so an interrupted run goes on where it was.
bench-accuracy: $(BIN)/.dev
	$(BIN)/python benchmarks/accuracy_ours.py --epsilons 0.1,0.5,1,3,8
	$(BIN)/python benchmarks/accuracy_gam.py
	$(BIN)/python benchmarks/accuracy_more.py
	$(BIN)/python benchmarks/accuracy_peers.py
	$(BIN)/python benchmarks/accuracy_page.py

# Last layers on scattering features and on pixels of MNIST, all threads; resumable. The features take a gigabyte in benchmarks/.envs.
bench-heads: $(BIN)/.dev
	env -u OPENBLAS_NUM_THREADS -u OMP_NUM_THREADS $(BIN)/python benchmarks/heads.py

gallery: $(BIN)/.core
	$(BIN)/python -m dperm.report.gallery docs/gallery

clean:
	rm -rf $(VENV) dperm-demo site
