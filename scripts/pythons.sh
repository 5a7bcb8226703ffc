#!/bin/sh
# Finds the Pythons of this machine. It runs before there is a .venv, so it is plain sh.
#
#   pythons.sh best     the path of the one that makes .venv: python3 if it is new enough, else the newest found
#   pythons.sh others   .venv-3.x, holding the run-time dependencies alone, for each supported version besides .venv's:
#                       the same journal must give the same commands under each of them
#
# A name on PATH proves nothing (a version manager's shim may refuse, a distribution may leave venv out), so each
# candidate is made to run.
set -eu
cd "$(dirname "$0")/.."

supported="3.13 3.12 3.11"

# Prints "3.12 /path/to/python3.12" when $1 is a CPython >= 3.11 that can make a venv with pip; else fails.
probe() {
    "$1" -c '
import ensurepip, sqlite3, ssl, sys, venv
if sys.version_info < (3, 11) or sys.implementation.name != "cpython":
    sys.exit(1)
print("{0[0]}.{0[1]} {1}".format(sys.version_info, sys.executable))
' 2>/dev/null </dev/null
}

# Every interpreter this machine may have for version $1, likeliest first.
candidates() {
    command -v "python$1" || :
    for root in "${PYENV_ROOT:-${HOME:-/nonexistent}/.pyenv}/versions" "${HOME:-/nonexistent}/.local/share/uv/python"; do
        for python in "$root/"*"$1."*/bin/"python$1"; do
            [ ! -x "$python" ] || echo "$python"
        done
    done
}

find_version() {
    candidates "$1" | while read -r python; do
        found=$(probe "$python") || continue
        case $found in "$1 "*) echo "${found#* }"; break ;; esac
    done
}

best() {
    if found=$(probe python3); then
        echo "${found#* }"
        return
    fi
    for version in $supported; do
        python=$(find_version "$version")
        [ -z "$python" ] || { echo "$python"; return; }
    done
    echo "outlast needs Python 3.11 or newer, with venv; none was found. Name one: make PYTHON=/path/to/python3" >&2
    return 1
}

others() {
    own=$(.venv/bin/python -c 'import sys; print("{0[0]}.{0[1]}".format(sys.version_info))')
    used=$own
    for version in $supported; do
        [ "$version" != "$own" ] || continue
        python=$(find_version "$version")
        [ -n "$python" ] || continue
        home=.venv-$version
        if ! cmp -s requirements/run.lock "$home/run.lock" || ! "$home/bin/python" -c '' 2>/dev/null; then
            rm -rf "$home"
            "$python" -m venv "$home"
            "$home/bin/python" -m pip -qq --disable-pip-version-check install --require-hashes -r requirements/run.lock
            cp requirements/run.lock "$home/run.lock"
        fi
        used="$used $version"
    done
    echo "Pythons: $(printf '%s\n' $used | sort -t . -k 2n | tr '\n' ' ')"
}

case ${1:-} in
    best) best ;;
    others) others ;;
    *) echo "usage: $0 best|others" >&2; exit 2 ;;
esac
