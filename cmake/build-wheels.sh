#!/bin/sh
# build-wheels.sh [PYTHON]: what `make wheel` does: a wheel for this Python, python3 by default, in build/wheels, with the
# libraries inside that Tutti links. Python 3.12 and newer make one of the stable ABI, for all of these. Then
# installs it in a fresh virtual environment, and runs the tests of the package there. TUTTI_CUDA=OFF leaves kernels out.
set -eu
cd "$(dirname "$0")/.."
python=${1:-python3}
tools=build/wheel-tools-$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
requirements=tests/requirements-wheel.txt
if ! cmp -s "$requirements" "$tools/installed.txt"; then
  rm -rf "$tools"
  "$python" -m venv "$tools"
  "$tools/bin/pip" install --quiet --disable-pip-version-check --only-binary :all: -r "$requirements"
  cp "$requirements" "$tools/installed.txt"
fi

rm -rf build/wheels-made "$tools/check"
mkdir -p build/wheels
"$tools/bin/python" -m build --wheel --no-isolation --outdir build/wheels-made .
made=$(echo build/wheels-made/tutti-*.whl)
PATH=$PWD/$tools/bin:$PATH auditwheel repair --wheel-dir build/wheels-made/repaired "$made"
wheel=$(echo build/wheels-made/repaired/tutti-*.whl)
case $wheel in
*abi3*) "$tools/bin/abi3audit" --strict "$wheel" ;;
esac

"$python" -m venv "$tools/check"
"$tools/check/bin/pip" install --quiet --disable-pip-version-check --only-binary :all: -r tests/requirements-python.txt
"$tools/check/bin/pip" install --quiet --disable-pip-version-check "$wheel"
env -u TUTTI_BUILD_DIR -u PYTHONPATH "$tools/check/bin/python" -m pytest -q -p no:cacheprovider tests/python
mv "$wheel" build/wheels/
echo "build/wheels/$(basename "$wheel")"
