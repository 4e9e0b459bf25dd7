# Every target sets up what it needs, and no more. A second run starts in seconds.
# make PYTHON=python3.12 ...   another interpreter        make TORCH=cuda ...      torch with CUDA instead of the CPU's
#                                                         make TORCH_INDEX=URL ... torch from an index of your own
PYTHON ?= python3
BIN := .venv/bin
VIEW := .venv/.view
DEMO := .venv/.demo
DEV := .venv/.dev
BROWSER := .venv/.browser
BENCHMARKS := $(filter-out benchmarks/record.py,$(sort $(wildcard benchmarks/*.py)))

.PHONY: demo view test test-slow test-all lint bench clean torch

demo: $(DEMO)
	$(BIN)/sgjepa demo

view: $(VIEW)
	$(BIN)/sgjepa view

test: lint $(BROWSER)
	$(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder -m "not slow"

test-slow: $(DEV)
	$(BIN)/python -m pytest -m slow

# a short suite on every other Python that is there, each in an environment of its own
test-all: test
	$(BIN)/python scripts/other_pythons.py $(if $(TORCH),--torch $(TORCH))

lint: $(DEV)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(DEV)
	for file in $(BENCHMARKS); do $(BIN)/python $$file || exit 1; done

# each of these contains the ones before it and leaves their stamps too
$(VIEW) $(DEMO) $(DEV): .venv/.%: pyproject.toml constraints.txt scripts/install.py $(if $(TORCH)$(TORCH_INDEX),torch)
	@$(PYTHON) scripts/install.py $* $(if $(TORCH),--torch $(TORCH)) $(if $(TORCH_INDEX),--torch-index $(TORCH_INDEX))

# tried once: a test looks at a report with it, and is skipped without it
$(BROWSER): $(DEV)
	@command -v chromium || command -v chromium-browser || command -v google-chrome || $(BIN)/sgjepa doctor --fix browser
	@touch $(BROWSER)

clean:
	rm -rf .venv .venv-3.* build *.egg-info .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
