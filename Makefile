# Everything runs in .venv, which the first target that needs it creates from pyproject.toml.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
# One BLAS thread per test process. Three of them for two cores: tests of whole programs often wait. Programs start some thousand
# times, so they are compiled once, whatever the machine says.
TEST_ENV := OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE=

.PHONY: faults browser fuzz demo test test-all bench bench-quick bench-growth bench-speed bench-transport bench-scale bench-align bench-service sweep sweep-quick lint docs parity reproduce dist clean

$(VENV)/.installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade pip
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	touch $@

demo: $(VENV)/.installed
	$(BIN)/plait demo

test: $(VENV)/.installed
	$(TEST_ENV) $(BIN)/python -m pytest -n 3 --dist worksteal -m "not slow"

test-all: $(VENV)/.installed
	$(TEST_ENV) $(BIN)/python -m pytest -n 3 --dist worksteal

# A million mutated inputs for everything that reads bytes of peers, of disks and of people, a fifth of them once more where
# atheris is there and coverage guides it: less than half an hour on two cores.
fuzz: $(VENV)/.installed
	$(TEST_ENV) $(BIN)/python -m tests.fuzz.fuzzer 1000000
	$(TEST_ENV) $(BIN)/python -m tests.fuzz.guided 200000

# Ten faults in five phases at both sides: about forty minutes. Finished cells are kept.
faults: $(VENV)/.installed
	$(TEST_ENV) $(BIN)/python -m tests.faults.table docs/threat-model.md .faults.json

bench-transport: $(VENV)/.installed
	$(BIN)/python benchmarks/transport.py --wan

# Time to 1e-4 against the fastest pooled solver (scikit-learn, skglm, celer): some minutes.
bench-speed: $(VENV)/.installed
	$(BIN)/python -m benchmarks.speed --docs docs/benchmarks.md

# A million ids at each of two parties: some minutes.
bench-align: $(VENV)/.installed
	$(BIN)/python -m benchmarks.alignment

# The prediction service: 50 clients for a minute, one party killed; --baseline SRC compares with another plait
bench-service: $(VENV)/.installed
	$(BIN)/python -m benchmarks.service

# What privacy costs in accuracy, beside gradient descent with noise: about ten minutes
bench-private: $(VENV)/.installed
	$(TEST_ENV) $(BIN)/python -m benchmarks.private_utility study --docs docs/benchmarks.md

# Reading 1,000,000 rows, and training on up to 20,000,000 in memory, on disk under a limit, and on Ray: about half an hour, 10 GB of disk.
bench-scale: $(VENV)/.installed
	$(BIN)/python -m benchmarks.scale

# Every loss, penalty, constraint, split and number format against an independent solver; finished cases are kept.
sweep: $(VENV)/.installed
	$(TEST_ENV) $(BIN)/python -m benchmarks.sweep --docs docs/benchmarks.md

sweep-quick: $(VENV)/.installed
	$(TEST_ENV) $(BIN)/python -m benchmarks.sweep --quick

# A browser for the tests of the live page, where this machine can install one; without it they are skipped.
browser:
	@command -v chromedriver >/dev/null || { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && \
	  timeout 300 sh -c 'apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium chromium-driver' \
	  >/dev/null 2>&1; } || echo "no browser: the tests of the live page are skipped"

lint: $(VENV)/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# The pages that come from the code, then the site, in docs/_build/html; the examples run, and a warning is an error.
docs: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[docs]'
	$(BIN)/python docs/build.py
	$(BIN)/python -m sphinx -W --keep-going -q -b html docs docs/_build/html

# The README's parity table, measured anew (about a minute).
parity: $(VENV)/.installed
	$(BIN)/python docs/build.py --parity

# The paper's experiments on a9a and gisette; finished stages are kept, so that an interrupted run goes on.
reproduce: $(VENV)/.installed
	$(BIN)/python -m reproduction --summary docs/reproduction.md

# Real data sets are read from PLAIT_DATA; the jobs that need an absent one are skipped, and say so.
bench: $(VENV)/.installed
	$(BIN)/python -m benchmarks.run full

bench-quick: $(VENV)/.installed
	$(BIN)/python -m benchmarks.run quick

bench-growth: $(VENV)/.installed
	$(BIN)/python -m benchmarks.growth

# A wheel and a source distribution, in dist/.
dist: $(VENV)/.installed
	$(BIN)/python -m build

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache
