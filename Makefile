# Everything is set up by the targets that need it; start with `make demo` or `make test`.

VENV := .venv
BIN := $(VENV)/bin
ENVIRONMENTS ?= .environments
# uv from PATH, or one of our own: it is the only tool that is fetched outside the lock
UV := $(shell command -v uv 2>/dev/null || echo .cache/uv/bin/uv)

# one more than there are processors, as tests that wait for a server leave theirs idle; at most 4
WORKERS ?= $(shell python3 -c 'import os; print(min(4, os.cpu_count() + 1))')

# compiled modules are kept, whatever the caller does: imports then take a third of the time
unexport PYTHONDONTWRITEBYTECODE

# Tests run side by side: libraries whose threads wait for each other take a third of the time alone
test quick soak: export OMP_NUM_THREADS := 1

.DEFAULT_GOAL := help
.PHONY: help setup environments demo test quick soak lint check docs up down reference bench measure lock clean

help:  ## List the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

# uv is linked there, so that it is on PATH where the environment is active
setup: $(VENV)/.ready  ## Make the project's environment from requirements.lock
	@ln -sf $(realpath $(UV)) $(BIN)/uv

$(VENV)/.ready: requirements.lock pyproject.toml | $(UV)
	$(UV) venv --quiet --allow-existing --python '>=3.11,<3.13' $(VENV)
	$(UV) pip sync --quiet --python $(BIN)/python --require-hashes requirements.lock
	$(UV) pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation --editable .
	@touch $@

.cache/uv/bin/uv:
	python3 -m venv .cache/uv
	.cache/uv/bin/python -m pip install --quiet 'uv>=0.8'

environments: setup  ## Make the environments of Label Studio, LightlyStudio and vLLM on the CPU (for tests)
	PATH="$(abspath $(dir $(UV))):$$PATH" LOUPE_ENVIRONMENTS=$(ENVIRONMENTS) \
		$(BIN)/python -m loupe.services.environments

# On a new installation, a second process compiles what the evaluation needs during the build.
demo: setup  ## Build a small evaluation set from a generated world, offline
	$(BIN)/python -c 'import pandas, loupe.flows.evaluation.run, loupe.retrieval.ranking; loupe.retrieval.ranking.load_kernels()' & \
		$(BIN)/loupe demo; status=$$?; wait; exit $$status

# In a fresh checkout one process compiles all modules while the environments are installed (its
# errors are those of the tests); otherwise every worker would compile them.
$(VENV)/.compiled: $(VENV)/.ready
	$(MAKE) --no-print-directory environments & installation=$$!; \
		$(BIN)/python -m pytest --collect-only -qq >/dev/null; wait $$installation
	@touch $@

test: $(VENV)/.compiled environments  ## Run all tests; ends with a list of what this machine could not run
	LOUPE_ENVIRONMENTS=$(ENVIRONMENTS) $(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup --no-loadscope-reorder

# The folders whose tests need neither a server nor a built dataset. A test there that takes longer
# than the time limit fails until it is marked `slow`, so that this stays quick.
QUICK := tests/test_*.py $(addprefix tests/,checks db models prompts retrieval schemas sources)
NOT_QUICK := slow or soak or postgres or label_studio or lightly_studio or vllm or prefect or browser or gpu or weights

quick: setup  ## Run the tests of single functions, without servers, in about a minute
	$(BIN)/python -m pytest -q -n 2 --dist loadgroup --no-loadscope-reorder --timeout 60 \
		-m 'not ($(NOT_QUICK))' $(QUICK)

soak: environments  ## Run the long tests: fuzzing, many kills, load
	LOUPE_ENVIRONMENTS=$(ENVIRONMENTS) $(BIN)/python -m pytest -m soak -n $(WORKERS) --dist loadgroup --no-loadscope-reorder

lint: setup  ## Check style, types and import contracts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

check: lint test  ## What must be green in every commit: lint and test

up: setup  ## Start Prefect, Label Studio and the image server
	PATH="$(abspath $(dir $(UV))):$$PATH" $(BIN)/loupe up

down:  ## Stop them
	$(BIN)/loupe down

docs: setup  ## Build the site of the documentation in build/site; a broken link fails
	$(BIN)/python -m benchmarks.site

reference: setup  ## Write docs/commands.md, docs/settings.md and docs/differences.md
	$(BIN)/python -m benchmarks.reference
	$(BIN)/python -m benchmarks.settings
	$(BIN)/python -m benchmarks.differences

bench: setup  ## Measure speed and memory beside peers, as ratios
	$(BIN)/python -m benchmarks

measure: setup  ## Count lines, names, imports and odd words of the product
	$(BIN)/python -m benchmarks.measure

lock: | $(UV)  ## Resolve the dependencies again
	$(UV) pip compile pyproject.toml --universal --python-version 3.11 --extra torch --extra s3 --extra gcs --extra hf --extra ray \
		--extra ocr --extra video --extra vision --extra render --extra web --group dev --overrides requirements.overrides \
		--generate-hashes --no-annotate --no-header --quiet --output-file requirements.lock

clean:  ## Remove environments and caches; data in .loupe stays
	rm -rf $(VENV) $(ENVIRONMENTS) .cache .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
