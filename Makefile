# make demo: a model on an emulated Spyre, profiled, ready for TensorBoard. make test: all tests.
#
# Needs Python 3.10 or newer (with venv), make and a C++20 compiler. Everything else goes into .venv, once: a stamp
# file there tells what was done, and is older than the sources when it must be done again.

PYTHON ?= python3
TORCH ?= torch==2.13.0
JOBS ?= $(shell nproc)
PIP_FLAGS ?=
DEMO ?=
PYTEST ?=
RUNS ?= 10000000
FUZZ_FLAGS ?=

VENV := .venv
BIN := $(CURDIR)/$(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet $(PIP_FLAGS)
export PATH := $(BIN):$(PATH)
export CMAKE_BUILD_PARALLEL_LEVEL := $(JOBS)
# Python must find the installed wheel, never the folder it is started in.
export PYTHONSAFEPATH := 1

SOURCES := $(shell find csrc kineto_spyre tools -type f ! -name '*.pyc' ! -path '*/__pycache__/*') \
           CMakeLists.txt pyproject.toml README.md LICENSE

.PHONY: demo screenshot screenshots apt test test-cpp test-python test-sanitizers test-cross coverage-python fuzz lint docs bench clean
.DEFAULT_GOAL := demo

demo: $(VENV)/demo.stamp
	$(BIN)/kineto-spyre demo $(DEMO)

# The README's picture: the demo's trace in TensorBoard, in a browser without internet (needs Debian's chromium, and npm).
screenshot: $(VENV)/test.stamp
	rm -rf build/screenshot
	$(BIN)/kineto-spyre demo --out build/screenshot/demo
	$(BIN)/python tools/screenshot.py build/screenshot/demo docs/images/demo_tensorboard.png

# The pictures of docs/viewers, in the same way; XProf's needs the package xprof.
screenshots: $(VENV)/test.stamp
	rm -rf build/screenshot
	$(BIN)/kineto-spyre demo --out build/screenshot/demo
	$(BIN)/python tools/screenshots.py build/screenshot/demo docs/images/viewers

test: test-cpp test-python

# The Debian packages that the tests use, where they may be installed; else a line says which. Before anything is tested.
apt:
	@tools/install_apt.sh

# The rooms without PyTorch, with their tests (CMakePresets.json says how).
test-cpp: $(VENV)/tools.stamp | apt
	cmake --preset release
	cmake --build --preset release
	ctest --preset release

# Prints which lines of csrc/ these tests reach, as the build with AddressSanitizer counts them. The rooms with PyTorch
# are not in it: the Python tests reach them.
test-sanitizers: $(VENV)/tools.stamp $(VENV)/coverage.stamp
	mkdir -p build && find build -path 'build/asan/*.gcda' -delete
	set -e; for preset in asan tsan; do \
	  cmake --preset $$preset; cmake --build --preset $$preset; ctest --preset $$preset; done
	$(BIN)/gcovr --root . --filter csrc/ --exclude-throw-branches --print-summary build/asan

# Which lines of kineto_spyre the Python tests reach, in the tests' own process. PYTEST chooses tests.
coverage-python: $(VENV)/test.stamp $(VENV)/coverage.stamp
	$(BIN)/coverage run --source-pkgs=kineto_spyre --data-file=build/coverage.python -m pytest $(PYTEST)
	$(BIN)/coverage report --data-file=build/coverage.python --skip-covered --sort=cover --show-missing

# The machines that have the card besides x86_64: Debian's cross compilers, and qemu-user to run the tests.
test-cross: $(VENV)/tools.stamp
	set -e; for arch in s390x ppc64le; do \
	  compiler=$$(sed -n 's/set(CMAKE_CXX_COMPILER \(.*\))/\1/p' cmake/$$arch.cmake); \
	  if ! { command -v qemu-$$arch && command -v $$compiler; } >/dev/null; then \
	    echo "test-cross: $$arch skipped; it needs $$compiler and qemu-$$arch"; continue; fi; \
	  cmake --preset $$arch; cmake --build --preset $$arch; ctest --preset $$arch; done

# libFuzzer over csrc/trace, under AddressSanitizer and UBSan (needs clang++). Goes on from the inputs of the run before.
fuzz: $(VENV)/tools.stamp
	cmake --preset fuzz && cmake --build --preset fuzz && mkdir -p build/corpus
	build/fuzz/tests/fuzz/trace_fuzz -runs=$(RUNS) -max_len=2048 -entropic=0 -print_final_stats=1 \
	  -artifact_prefix=build/ $(FUZZ_FLAGS) build/corpus

# Against the wheel that was built from the sdist and installed into .venv.
test-python: $(VENV)/test.stamp | apt
	$(BIN)/pytest $(PYTEST)

lint: $(VENV)/lint.stamp
	$(BIN)/pre-commit run --all-files

# The pages of docs/ as a site; a warning is an error.
docs: $(VENV)/docs.stamp
	$(BIN)/sphinx-build -W --keep-going -q -b html docs build/docs

bench: $(VENV)/test.stamp
	cmake --preset release && cmake --build --preset release
	build/release/benchmarks/hot_path
	$(BIN)/python benchmarks/stop.py
	$(BIN)/python benchmarks/workload.py
	$(BIN)/python benchmarks/device_ops.py
	$(BIN)/python benchmarks/traces.py
	$(BIN)/python benchmarks/ranks.py

clean:
	rm -rf build dist $(VENV)

$(VENV)/bin/python:
	@echo "Setting up $(VENV) with $(shell $(PYTHON) --version)"
	$(PYTHON) -m venv $(VENV)

$(VENV)/tools.stamp: tools/requirements-build.txt | $(VENV)/bin/python
	@echo "Installing the build's tools"
	$(PIP) -r tools/requirements-build.txt
	@touch $@

$(VENV)/torch.stamp: $(VENV)/tools.stamp
	@echo "Installing $(TORCH)"
	$(PIP) "$(TORCH)" numpy
	@touch $@

# The wheel is built from the sdist, so that what is tested is what a stranger gets.
$(VENV)/wheel.stamp: $(VENV)/torch.stamp $(SOURCES)
	@echo "Building the sdist, and the wheel from it (some minutes the first time: PyTorch's headers are large)"
	rm -rf dist && mkdir -p build
	{ $(BIN)/python -m build --sdist --no-isolation --outdir dist . && \
	  $(BIN)/python tools/unpack_sdist.py dist/kineto_spyre-*.tar.gz build/sdist && \
	  $(BIN)/python -m build --wheel --no-isolation -C build-dir=$(CURDIR)/build/wheel --outdir dist build/sdist; } \
	  > build/wheel.log 2>&1 || { tail -60 build/wheel.log; exit 1; }
	$(PIP) --force-reinstall --no-deps dist/kineto_spyre-*.whl
	@touch $@

$(VENV)/demo.stamp: $(VENV)/wheel.stamp tools/requirements-demo.txt
	@echo "Installing what the demo needs"
	$(PIP) -r tools/requirements-demo.txt
	@touch $@

$(VENV)/test.stamp: $(VENV)/demo.stamp tools/requirements-test.txt
	@echo "Installing what the tests need"
	$(PIP) -r tools/requirements-test.txt
	@touch $@

$(VENV)/lint.stamp: tools/requirements-lint.txt $(VENV)/test.stamp
	@echo "Installing the linters"
	$(PIP) -r tools/requirements-lint.txt
	@touch $@

$(VENV)/coverage.stamp: tools/requirements-coverage.txt | $(VENV)/bin/python
	@echo "Installing what counts the lines that tests reach"
	$(PIP) -r tools/requirements-coverage.txt
	@touch $@

$(VENV)/docs.stamp: tools/requirements-docs.txt | $(VENV)/bin/python
	@echo "Installing what the site is built with"
	$(PIP) -r tools/requirements-docs.txt
	@touch $@
