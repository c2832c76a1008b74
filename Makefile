# Every target makes the environment it needs; on a fresh machine Python, pip and make are enough.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin

# The demonstration needs no torch, so it has a small environment of its own.
DEMO_VENV ?= .venv-demo
DEMO_OUT ?= demo

.PHONY: help demo test test-fast coverage check format bench clean

help:
	@echo "make demo       depth of the example photos, rooms and a street: pictures, point clouds, pages to look around in"
	@echo "make test       the whole test suite"
	@echo "make test-fast  the tests that take less than a few seconds each"
	@echo "make coverage   the whole test suite, with branch coverage"
	@echo "make check      format, lint and types"
	@echo "make format     rewrite the code in the house style"
	@echo "make bench      speed and memory on this machine, beside an oracle"
	@echo "make clean      remove the environment and all caches"

# torch, torchvision and timm in one resolver call, so that they fit one another.
$(VENV)/installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable '.[train,data,fast,video,exr,heif,figures,serve,dev]'
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
	@echo "Look around:       $(CURDIR)/$(DEMO_OUT)/*_viewer.html, in any browser"

test: $(VENV)/installed
	$(BIN)/python -m pytest

test-fast: $(VENV)/installed
	$(BIN)/python -m pytest -m "not slow and not browser"

coverage: $(VENV)/installed
	$(BIN)/python -m pytest --cov=idisc --cov-branch --cov-report=term:skip-covered

check: $(VENV)/installed
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

format: $(VENV)/installed
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(VENV)/installed
	$(BIN)/idisc bench nyu_swint --size 480x640 --compare --engines

clean:
	rm -rf $(VENV) $(DEMO_VENV) $(DEMO_OUT) .pytest_cache .mypy_cache .ruff_cache .hypothesis dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
