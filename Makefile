# Everything runs in .venv; nothing outside this folder is written.
#   make run        install, certify a clustering of Bitcoin-OTC, prove the optimum, draw the bound
#   make test       install what the tests need and run the default suite
#   make test-all   the same with the long proofs
#   make check      ruff, mypy, clang-format, man pages
#   make sanitize   the kernels' tests under AddressSanitizer and UndefinedBehaviorSanitizer
#   make bench      ratios against named peers (bench/README.md)

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install -q --disable-pip-version-check -c constraints.txt
BUILD := build/sanitize
SOURCES := $(wildcard formats/*.cpp formats/*.hpp tools/*.hpp tools/*/*.cpp tools/*/*.hpp)
# The tests whose subject has a kernel.
KERNEL_TESTS = $(wildcard $(patsubst %/_kernel.cpp,tests/%,$(patsubst tools/%,%,$(wildcard formats/_kernel.cpp tools/*/_kernel.cpp))))
PACKAGING := pyproject.toml constraints.txt CMakeLists.txt cli/package_main.py $(wildcard man/*)
# More workers than cores only slow the timing tests down.
WORKERS ?= 2

.PHONY: run test test-all check format sanitize bench dist clean

run: $(VENV)/run.stamp
	mkdir -p out
	$(BIN)/icml cclust-lb examples/bitcoinotc.csv.gz --out-clusters out/clusters.tsv --plot out/bound.svg --trace out/trace.jsonl
	$(BIN)/icml cclust-lb examples/bitcoinotc.csv.gz --clusters out/clusters.tsv --certificate out/bound.npz --json
	$(BIN)/icml cclust-lb examples/bitcoinotc.csv.gz --verify out/bound.npz

test: $(VENV)/test.stamp
	$(BIN)/python -m pytest -q -n $(WORKERS) -m "not slow"

test-all: $(VENV)/test.stamp
	$(BIN)/python -m pytest -q -n $(WORKERS)

check: $(VENV)/dev.stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	rm -rf build/mypy && mkdir -p build/mypy/icml
	ln -s ../../../cli ../../../formats ../../../hf ../../../tools build/mypy/icml/
	cd build/mypy && MYPYPATH=. ../../$(BIN)/mypy --config-file ../../pyproject.toml -p icml.cli -p icml.formats -p icml.hf -p icml.tools
	$(BIN)/clang-format --dry-run --Werror $(SOURCES)
	ICML_REQUIRE_LINTER=1 $(BIN)/python -m pytest -q tests/test_man.py tests/test_docs.py

format: $(VENV)/dev.stamp
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/clang-format -i $(SOURCES)

# A second build of the kernels, put in front of the installed ones by ICML_KERNELS (see tests/conftest.py).
sanitize: $(VENV)/test.stamp
	$(BIN)/cmake -S . -B $(BUILD) -G Ninja -DCMAKE_BUILD_TYPE=Debug -DICML_SANITIZE=ON -DPython_EXECUTABLE=$(abspath $(BIN)/python) \
	  -DCMAKE_MAKE_PROGRAM=$(abspath $(BIN)/ninja) -Dnanobind_DIR=$$($(BIN)/python -m nanobind --cmake_dir) >/dev/null
	$(BIN)/cmake --build $(BUILD)
	ICML_KERNELS=$(abspath $(BUILD)) ASAN_OPTIONS=detect_leaks=0 OMP_NUM_THREADS=2 \
	  LD_PRELOAD="$$($${CXX:-g++} -print-file-name=libasan.so) $$($${CXX:-g++} -print-file-name=libubsan.so)" \
	  $(BIN)/python -m pytest -q -p no:cacheprovider -n $(WORKERS) -m "not slow" $(KERNEL_TESTS)

bench: $(VENV)/bench.stamp
	for script in $(filter-out %_games.py %_peers.py,$(wildcard bench/*.py)); do $(BIN)/python $$script || exit 1; done

dist: $(VENV)/dev.stamp
	$(BIN)/python -m build --outdir dist .

clean:
	rm -rf build dist out $(VENV)

$(VENV)/pyvenv.cfg:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "icml needs Python >= 3.11; say which: make PYTHON=python3.12 …" >&2; exit 3; }
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); echo "this Python cannot make virtual environments; on Debian: apt-get install python3-venv python3-dev" >&2; exit 3; }

# Build tools first, then the project in place, so that a change in Python needs no new install and one in C++ a short one.
$(VENV)/build.stamp: $(VENV)/pyvenv.cfg pyproject.toml constraints.txt
	$(PIP) --upgrade pip
	$(PIP) scikit-build-core nanobind cmake ninja
	touch $@

define install
	$(PIP) --no-build-isolation -e '.[$(1)]'
	touch $@
endef

$(VENV)/run.stamp: $(VENV)/build.stamp $(SOURCES) $(PACKAGING)
	$(call install,plot)
$(VENV)/test.stamp: $(VENV)/build.stamp $(SOURCES) $(PACKAGING)
	$(call install,test)
$(VENV)/dev.stamp: $(VENV)/build.stamp $(SOURCES) $(PACKAGING)
	$(call install,dev)
$(VENV)/bench.stamp: $(VENV)/build.stamp $(SOURCES) $(PACKAGING)
	$(call install,bench)
