# Every target makes the environment it needs; on a fresh machine Python, pip and make are enough.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin

# The demonstration needs no torch, so it has a small environment of its own.
DEMO_VENV ?= .venv-demo
OLDEST_VENV ?= .venv-oldest
WHEEL_VENV ?= .venv-wheel
CASES ?= 500
DEMO_OUT ?= demo

.PHONY: help demo test test-fast test-cluster test-oldest fuzz coverage check audit format wheel docs notebooks bench clean

help:
	@echo "make demo       depth of the example photos, rooms and a street: pictures, point clouds, pages to look around in"
	@echo "make test       the whole test suite"
	@echo "make test-fast  the tests that take less than a few seconds each"
	@echo "make test-cluster machines and drivers of a cluster that die, ten times in a row"
	@echo "make test-oldest  the fast tests with the lowest versions that the metadata allow"
	@echo "make fuzz       damaged pictures, models, records, manifests and requests: 500 of each"
	@echo "make coverage   the whole test suite, with branch coverage"
	@echo "make check      format, lint and types"
	@echo "make audit      licences and known vulnerabilities of all dependencies"
	@echo "make format     rewrite the code in the house style"
	@echo "make wheel      the wheel and the sdist, each tried in an empty environment"
	@echo "make docs       the documentation site, in site/; a warning is an error"
	@echo "make notebooks  run the notebooks of the documentation"
	@echo "make bench      speed and memory on this machine, beside an oracle"
	@echo "make clean      remove the environment and all caches"

# torch, torchvision and timm in one resolver call, so that they fit one another. Ray has no wheels for
# some systems and the newest Python; the tests of the cluster are skipped there.
$(VENV)/installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable '.[train,data,fast,video,exr,heif,figures,transformers,serve,docs,dev]'
	-$(BIN)/python -m pip install --quiet --editable '.[cluster]' 'moto[server]>=5'
	@touch $@

$(DEMO_VENV)/installed: pyproject.toml
	$(PYTHON) -m venv $(DEMO_VENV)
	$(DEMO_VENV)/bin/python -m pip install --quiet --editable .
	@touch $@

demo: $(DEMO_VENV)/installed
	$(DEMO_VENV)/bin/idisc predict src/idisc/assets/examples -o $(DEMO_OUT) --weights auto --save png,png16,ply,html
	@echo
	@echo "Depth in colours:  $(CURDIR)/$(DEMO_OUT)/*_depth.png"
	@echo "Depth in metres:   $(CURDIR)/$(DEMO_OUT)/*_depth16.png, factor in the JSON beside"
	@echo "Point clouds:      $(CURDIR)/$(DEMO_OUT)/*_points.ply"
	@echo "Look around:       $(CURDIR)/$(DEMO_OUT)/index.html, in any browser"

test: $(VENV)/installed
	$(BIN)/python -m pytest

test-fast: $(VENV)/installed
	$(BIN)/python -m pytest -m "not slow and not browser"

# Each death ten times; the driver dies ten times in each job.
test-cluster: $(VENV)/installed
	IDISC_TURNS=10 IDISC_KILLS=10 $(BIN)/python -m pytest tests/cluster -k "survives or killed"

# uv chooses the lowest version of each direct dependency; pip has no such option. These versions
# warn about newer ones of what they need themselves, and Starlette 0.48 leaves the memory of refused
# uploads to the garbage collector, which pytest reports.
test-oldest:
	$(PYTHON) -m venv $(OLDEST_VENV)
	$(OLDEST_VENV)/bin/python -m pip install --quiet uv
	$(OLDEST_VENV)/bin/uv pip install --quiet --python $(OLDEST_VENV) --resolution lowest-direct --editable '.[train,data,fast,video,exr,heif,figures,serve]'
	$(OLDEST_VENV)/bin/uv pip install --quiet --python $(OLDEST_VENV) httpx hypothesis pytest pytest-cov schemathesis playwright
	$(OLDEST_VENV)/bin/python -m pytest -m "not slow and not browser" -W ignore::DeprecationWarning -W ignore::FutureWarning \
	  -W ignore::pytest.PytestUnraisableExceptionWarning

fuzz: $(VENV)/installed
	$(BIN)/python -m tests.fuzz --cases $(CASES)

audit: $(VENV)/installed
	$(BIN)/python tools/audit.py

coverage: $(VENV)/installed
	$(BIN)/python -m pytest --cov=idisc --cov-branch --cov-report=term:skip-covered

check: $(VENV)/installed
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

format: $(VENV)/installed
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# The wheel and the sdist, each installed into an empty environment and tried.
wheel:
	rm -rf dist $(WHEEL_VENV)
	$(PYTHON) -m venv $(WHEEL_VENV)
	$(WHEEL_VENV)/bin/python -m pip install --quiet build
	$(WHEEL_VENV)/bin/python -m build --outdir dist .
	for each in dist/*.whl dist/*.tar.gz; do \
	  $(PYTHON) -m venv --clear $(WHEEL_VENV) && \
	  $(WHEEL_VENV)/bin/python -m pip install --quiet $$each && \
	  (cd / && $(abspath $(WHEEL_VENV))/bin/idisc demo --no-open -o $(abspath $(WHEEL_VENV))/demo) || exit 1; \
	done

docs: $(VENV)/installed
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

notebooks: $(VENV)/installed
	$(BIN)/python -m pytest tests/docs/test_notebooks.py

bench: $(VENV)/installed
	$(BIN)/python -m pip install --quiet --editable '.[transformers]'
	$(BIN)/python benchmarks/summary.py --int8

clean:
	rm -rf $(VENV) $(DEMO_VENV) $(OLDEST_VENV) $(WHEEL_VENV) $(DEMO_OUT) site .pytest_cache .mypy_cache .ruff_cache .hypothesis dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
