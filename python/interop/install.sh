#!/bin/sh
# Makes a virtual environment: install.sh VERSION FOLDER PACKAGE...
# Looks for python$VERSION on the path, and among the versions that pyenv keeps.
set -eu
version=$1 folder=$2
shift 2

for kept in "${PYENV_VERSION:-}" $(pyenv versions --bare 2>/dev/null | grep "^$version\." || true); do
    if [ -n "$kept" ]; then export PYENV_VERSION="$kept"; fi
    if "python$version" -c 'pass' 2>/dev/null; then found=yes; break; fi
done
if [ -z "${found:-}" ]; then
    echo "Python $version is needed for $*, and there is no python$version here." >&2
    echo "Install it (pyenv install $version), or name a Python that has the packages:" >&2
    echo "FLUID_PYTHON for paddlepaddle==1.8.5, PADDLE26_PYTHON for paddlepaddle==2.6.2." >&2
    exit 1
fi

# Half an environment would be taken for a whole one next time.
trap 'rm -rf "$folder"' EXIT
"python$version" -m venv "$folder"
"$folder/bin/python" -m pip install --quiet --disable-pip-version-check "$@"
trap - EXIT
