# For people: each target does everything that it needs, from a bare Debian 12 with git and make.
# The build itself is CMake's; see CMakePresets.json.

TUTTI_CUDA ?= AUTO
export TUTTI_CUDA
TUTTI_CUDA_ARCHITECTURES ?= sm80;sm90
JOBS := $(shell nproc)
quoted = '$(subst ','\'',$(1))'
RANKS ?= 4
TEXT ?=

.PHONY: help demo test build tests package asan tsan thorough seeds long fuzz rdma torch wheel bench bench-peers docs format packages configure clean

help:
	@echo 'make demo     train a small transformer on The Jargon File over 4 ranks, in some three minutes'
	@echo 'make test     all tests but the long and the thorough ones, and a subset under the sanitizers'
	@echo 'make build    the library and the programs, in build/'
	@echo 'make package  Debian packages and a tarball for any folder, in build-package/packages/'
	@echo 'make thorough all tests but the long ones: more layouts, kernels under both sanitizers and more seeds'
	@echo 'make long     the tests that take minutes each'
	@echo 'make fuzz     the fuzzers of all parsers, FUZZ_SECONDS=60 each; TARGETS names some of them'
	@echo 'make rdma     of the tests only those of RDMA and of bad links, in virtual machines'
	@echo 'make torch    PyTorch from PyPI (3 GB) over its backend tutti, and over libnccl.so.2 on emulated GPUs'
	@echo 'make wheel    the Python package as a wheel in build/wheels, tested; PYTHON=python3.13 names a Python'
	@echo 'make asan     every test that is not long, under AddressSanitizer and UBSan'
	@echo 'make tsan     the same under ThreadSanitizer'
	@echo 'make seeds    what runs on emulated GPUs, in three orders: plain and under both sanitizers'
	@echo 'make bench    the small benchmarks of parts'
	@echo 'make bench-peers  collectives in turns with MPI from PyPI and Debian, and Gloo; PEERS=--quick: two minutes'
	@echo 'make docs     the documentation site, in build/docs/index.html'
	@echo 'make format   write the sources as .clang-format wants them'
	@echo 'make clean    remove the build folders'
	@echo
	@echo 'RANKS=N and TEXT=FILE change the demo; TUTTI_CUDA=AUTO|ON|OFF is passed to CMake.'

packages:
	@cmake/install-packages.sh

# Where there is no configuration yet, an older one than the presets, or one for another TUTTI_CUDA.
define configure
	@if ! [ build/build.ninja -nt CMakePresets.json ] || \
	  ! grep -qsxF 'TUTTI_CUDA:STRING=$(TUTTI_CUDA)' build/CMakeCache.txt; then \
	  rm -f build/build.ninja && cmake --preset release -D TUTTI_CUDA=$(TUTTI_CUDA); fi
endef

configure: packages
	$(configure)

demo:
	@JOBS=$(JOBS) cmake/run-demo.sh $(call quoted,$(RANKS)) $(call quoted,$(TEXT))

test: packages
	@cmake/run-tests.sh

# `make test` may have left kernels for sm_90a alone.
build:
	@cmake/install-packages.sh build
	$(configure)
	cmake -B build -D TUTTI_CUDA_ARCHITECTURES=$(call quoted,$(TUTTI_CUDA_ARCHITECTURES))
	cmake --build build -- -j $(JOBS)

package:
	@cmake/install-packages.sh build
	cmake --preset package -D TUTTI_CUDA=$(TUTTI_CUDA)
	cmake --build --preset package -- -j $(JOBS)
	rm -rf build-package/packages
	cd build-package && cpack -G DEB && cpack -G TGZ

asan tsan: packages
	cmake --preset $@ -D TUTTI_CUDA=$(TUTTI_CUDA)
	cmake --build build-$@ --target all tests/all -- -j $(JOBS)
	ctest --test-dir build-$@ -j $(JOBS) -LE '^(long|torch)$$' --output-on-failure --no-tests=error

# For the targets below.
tests: packages build
	cmake --build build --target tests/all -- -j $(JOBS)

thorough: tests
	cmake --build build --target thorough_tests -- -j $(JOBS)
	ctest --test-dir build -j $(JOBS) -LE '^(long|torch)$$' --output-on-failure --no-tests=error

# PRESETS=tsan and SEEDS="1 2" run a part of it.
seeds: packages
	@cmake/run-seeds.sh

long: tests
	cmake --build build --target long_tests -- -j $(JOBS)
	ctest --test-dir build -L long --output-on-failure --no-tests=error

fuzz: packages
	@cmake/install-packages.sh fuzz
	@cmake/run-fuzz.sh $(TARGETS)

rdma: tests
	ctest --test-dir build -j $(JOBS) -L rdma --output-on-failure --no-tests=error

# Where PyTorch cannot be had, it says so and succeeds. TORCH_TESTS=REGEX runs a part.
torch: configure
	@cmake/run-torch.sh

PYTHON ?= python3
wheel: packages
	@cmake/build-wheels.sh $(PYTHON)

bench: build
	@set -e; for program in build/bin/*_bench; do echo "== $$program"; $$program; done

# PEERS has flags of build/bin/peers.
PEERS ?=
bench-peers:
	@cmake/install-packages.sh peers
	$(configure)
	@cmake/run-peers.sh $(PEERS)

# The reference of C++ comes first: pages link to it. The folder of Python's packages is made anew when their list changes.
docs:
	@cmake/install-packages.sh docs
	@cmp -s tests/requirements-docs.txt build/docs-venv/installed.txt || { \
	  rm -rf build/docs-venv && mkdir -p build && python3 -m venv build/docs-venv && \
	  build/docs-venv/bin/pip install --quiet --disable-pip-version-check -r tests/requirements-docs.txt && \
	  cp tests/requirements-docs.txt build/docs-venv/installed.txt; }
	@rm -rf build/docs-api && mkdir -p build/docs-api && doxygen docs/site/Doxyfile
	@NO_MKDOCS_2_WARNING=1 build/docs-venv/bin/mkdocs build --config-file docs/site/mkdocs.yml
	@echo 'The site is in build/docs/index.html'

format: packages
	find include src transports collectives parallel tests bench docs -name '*.h' -o -name '*.cc' \
	  -o -name '*.inl' -o -name '*.cu' -o -name '*.cuh' | xargs clang-format-14 -i

clean:
	rm -rf build build-package build-dev build-asan build-tsan
