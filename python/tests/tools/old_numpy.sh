#!/bin/sh
# Runs the tests that touch arrays with an older numpy: old_numpy.sh NUMPY PYTHON...
# The package is the one built in place; of the Python versions the first that is here is used.
set -eu
numpy=$1
shift
folder=.venv/numpy-$numpy
tests="arrays executor feeder dataloader metrics initializer parallel layers_math layers_shape"

# Prints a Python of a version: the one of this make, one of that name, or one that pyenv keeps.
python_of() {
    for found in "${PYTHON:-python3}" "python$1" "${PYENV_ROOT:-$HOME/.pyenv}"/versions/"$1".*/bin/python3; do
        is="import sys; sys.exit('%d.%d' % sys.version_info[:2] != '$1')"
        if "$found" -c "$is" 2>/dev/null; then echo "$found"; return; fi
    done
}

if [ ! -e "$folder/ready" ]; then
    for version in "$@"; do
        python=$(python_of "$version")
        if [ -n "$python" ]; then break; fi
    done
    if [ -z "$python" ]; then
        echo "numpy $numpy was not tried: it is there for Python $*, and none of them is here." |
            tee -a "${SKIPPED_TESTS:-/dev/null}"
        exit 0
    fi
    rm -rf "$folder"
    "$python" -m venv "$folder"
    "$folder/bin/python" -m pip install --quiet "numpy==$numpy.*" pytest
    touch "$folder/ready"
fi

echo "numpy $numpy, $("$folder/bin/python" --version):"
for test in $tests; do set -- "$@" "python/tests/test_$test.py"; done
while [ "${1#python/}" = "$1" ]; do shift; done
PYTHONPATH=python "$folder/bin/python" -m pytest -q -rs -p no:cacheprovider "$@"
