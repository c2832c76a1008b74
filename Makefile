# Every target makes the environment it needs; on a fresh machine Python, pip and make are enough.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin

.PHONY: help test check format bench clean

help:
	@echo "make test    the whole test suite"
	@echo "make check   format, lint and types"
	@echo "make format  rewrite the code in the house style"
	@echo "make bench   speed and memory on this machine, beside an oracle"
	@echo "make clean   remove the environment and all caches"

# torch, torchvision and timm in one resolver call, so that they fit one another.
$(VENV)/installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable '.[train,data,fast,video,exr,heif,figures,serve,dev]'
	@touch $@

test: $(VENV)/installed
	$(BIN)/python -m pytest

check: $(VENV)/installed
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

format: $(VENV)/installed
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(VENV)/installed
	$(BIN)/idisc bench nyu_swint --size 480x640 --compare

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
