# For people: each target does everything that it needs, from a bare Debian 12 with git and make.
# The build itself is CMake's; see CMakePresets.json.

TUTTI_CUDA ?= AUTO
export TUTTI_CUDA
JOBS := $(shell nproc)
RANKS ?= 4
TEXT ?= build/jargon.txt

.PHONY: help demo test build asan tsan long bench format packages clean

help:
	@echo 'make demo    train a small transformer on The Jargon File over 4 ranks (2 to 3 minutes)'
	@echo 'make test    all tests but the long ones, and a subset under the sanitizers'
	@echo 'make build   the library, the programs and the tests, in build/'
	@echo 'make long    the tests that take minutes each'
	@echo 'make asan    every test that is not long, under AddressSanitizer and UBSan'
	@echo 'make tsan    the same under ThreadSanitizer'
	@echo 'make bench   the benchmarks'
	@echo 'make format  write the sources as .clang-format wants them'
	@echo 'make clean   remove the build folders'
	@echo
	@echo 'RANKS=N and TEXT=FILE change the demo; TUTTI_CUDA=AUTO|ON|OFF is passed to CMake.'

packages:
	@cmake/install-packages.sh

build/build.ninja: CMakePresets.json | packages
	cmake --preset release -D TUTTI_CUDA=$(TUTTI_CUDA)

demo: packages build/build.ninja
	cmake --build build --target train_gpt -- -j $(JOBS)
	@cmake/unpack-jargon.sh build/jargon.txt
	build/bin/train_gpt --ranks $(RANKS) --text $(TEXT)

test: packages
	@cmake/run-tests.sh

build: packages build/build.ninja
	cmake --build build -- -j $(JOBS)

asan tsan: packages
	cmake --preset $@ -D TUTTI_CUDA=$(TUTTI_CUDA)
	cmake --build build-$@ -- -j $(JOBS)
	ctest --test-dir build-$@ -j $(JOBS) -LE long --output-on-failure --no-tests=error

long: build
	ctest --test-dir build -L long --output-on-failure --no-tests=error

bench: build
	@set -e; for program in build/bin/*_bench build/bin/host_collectives; do \
	  echo "== $$program"; $$program; done

format: packages
	find include src transports collectives parallel tests bench -name '*.h' -o -name '*.cc' \
	  -o -name '*.inl' -o -name '*.cu' -o -name '*.cuh' | xargs clang-format-14 -i

clean:
	rm -rf build build-dev build-asan build-tsan
