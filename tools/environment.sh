#!/bin/sh
# Makes the virtual environment that the Makefile installs into, or says in one line why it cannot be made.
# Usage: tools/environment.sh FOLDER PYTHON
set -eu
folder=$1
python=$2

stop() {
    echo "$1" >&2
    exit 1
}

# The version of a Python, or nothing if it does not run. Written for any Python that may be found, 2.7 too.
version_of() {
    "$1" -c 'import sys; print("%d.%d.%d" % tuple(sys.version_info[:3]))' 2>/dev/null || true
}

too_old() {
    case $1 in
        2.* | 3.[0-9].* | 3.10.*) true ;;
        *) false ;;
    esac
}

found=$(version_of "$folder/bin/python")
if [ -z "$found" ]; then
    version=$(version_of "$python")
    [ -n "$version" ] || stop "Wherefrom needs Python 3.11 or later, and there is no $python that runs. Say which with make PYTHON=python3.12"
    if too_old "$version"; then
        stop "Wherefrom needs Python 3.11 or later; $python is $version. Say which with make PYTHON=python3.12"
    fi
    if [ -e "$folder" ]; then
        [ -d "$folder" ] || stop "$folder is in the way of the environment: it is a file. Remove it first."
        echo "The environment in $folder has no Python that runs: it is made anew." >&2
    fi
    "$python" -m venv --clear --without-pip "$folder" || stop "$python cannot make an environment in $folder: see above."
elif too_old "$found"; then
    stop "Wherefrom needs Python 3.11 or later; the environment in $folder has $found. Remove it with make clean."
fi

if ! "$folder/bin/python" -m pip --version >/dev/null 2>&1; then
    "$folder/bin/python" -m ensurepip >/dev/null 2>&1 ||
        stop "The Python of $folder brings no pip. Install it (on Debian: apt install python3-venv), then make clean."
fi
