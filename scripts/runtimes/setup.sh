#!/bin/bash
# Fills one folder with a Python environment for each runtime that reads ONNX models and is no provider
# of ONNX Runtime. The names and the wheels are those of onnxgather/core/execution/other_runtimes.py.
#
#   setup.sh [--lanes NAME,...] [FOLDER]   make them, or finish what was begun; a second run is quick
#   setup.sh --remove [FOLDER]             remove what it made
#
# Without --lanes it makes all of them. A folder keeps the environments that it has. FOLDER is
# ${XDG_CACHE_HOME:-$HOME/.cache}/onnxgather/runtimes by default, where the lanes look, and grows to
# 2.0 GB. pip gets the wheels from the machine's index, for the Python that PYTHON names, else for
# python3, and compares them with the digests of locks/runtimes. At the end it prints the options of
# `onnxgather check` that name the environments.
#
# If an environment cannot be made, it says why and goes on with the next; then the exit code is 1.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
package=$(cd "$here/../.." && pwd)
python=${PYTHON:-python3}

fail() {
    echo "setup.sh: $*" >&2
    exit 1
}

remove=no
lanes=
folders=()
while [ $# != 0 ]; do
    case $1 in
    -h | --help)
        sed -n '2,/^set -/{/^#/s/^# \{0,1\}//p}' "$0"
        exit
        ;;
    --remove) remove=yes ;;
    --lanes=*) lanes=${1#*=} ;;
    --lanes)
        [ $# != 1 ] || fail "--lanes must have names behind it"
        lanes=$2
        shift
        ;;
    -*) fail "unknown option $1" ;;
    *) folders+=("$1") ;;
    esac
    shift
done
[ ${#folders[@]} -le 1 ] || fail "takes one folder, got ${#folders[@]}: ${folders[*]}"
cache=${XDG_CACHE_HOME:-${HOME:+$HOME/.cache}}
folder=${folders[0]-${cache:+$cache/onnxgather/runtimes}}
[ -n "$folder" ] || fail "needs a folder, as neither XDG_CACHE_HOME nor HOME is set"
mark=.onnxgather-runtimes
command -v "$python" >/dev/null || fail "needs $python"
"$python" -c "import sys; sys.exit(sys.version_info < (3, 11))" ||
    fail "needs Python 3.11 or later, got $("$python" --version 2>&1)"

# rows: a line per runtime of the table: its name, its modules and its wheels, with commas between them.
rows() {
    PYTHONPATH=$package "$python" -B - <<'PROGRAM'
from onnxgather.core.execution.other_runtimes import OTHER_RUNTIMES

for row in OTHER_RUNTIMES.values():
    print(row.name, ",".join(row.modules), ",".join(row.wheels))
PROGRAM
}
table=$(rows)
names=$(cut -d ' ' -f 1 <<<"$table")

if [ $remove = yes ]; then
    [ -d "$folder" ] || { echo "there is no $folder"; exit 0; }
    [ -e "$folder/$mark" ] || fail "$folder is not removed, as setup.sh did not make it"
    for name in $names; do rm -rf "${folder:?}/$name" "$folder/$name.log"; done
    rm "$folder/$mark"
    rmdir "$folder" 2>/dev/null || fail "$folder stays, as it holds files that setup.sh did not make"
    echo "removed $folder"
    exit 0
fi

for name in ${lanes//,/ }; do
    grep -qxF -- "$name" <<<"$names" || fail "a lane must be one of $(paste -sd ' ' <<<"$names"), got \"$name\""
done
if [ ! -e "$folder/$mark" ]; then
    [ ! -e "$folder" ] || [ -z "$(ls -A "$folder")" ] || fail "$folder holds files that setup.sh did not make"
    mkdir -p "$folder"
    touch "$folder/$mark"
fi
folder=$(cd "$folder" && pwd -P)

# lock NAME: the path of the wheels of a runtime, each with its digests.
lock() { echo "$package/locks/runtimes/$1.txt"; }

# environment NAME MODULES: makes the environment of a runtime, and imports its modules there.
environment() {
    rm -rf "${folder:?}/$1"
    "$python" -m venv "$folder/$1"
    "$folder/$1/bin/pip" install --disable-pip-version-check --require-hashes -r "$(lock "$1")"
    "$folder/$1/bin/python" -c "import numpy, $2"
}

missing=()
while read -r name modules wheels; do
    [ -z "$lanes" ] || [[ ,$lanes, == *,$name,* ]] || continue
    done=$folder/$name/.onnxgather-done
    if cmp -s "$(lock "$name")" "$done"; then
        echo "$name: done before"
        continue
    fi
    printf '%s (%s) ... ' "$name" "${wheels//,/, }"
    begun=$SECONDS
    # Not in a condition, where -e means nothing.
    (set -e; environment "$name" "$modules") >"$folder/$name.log" 2>&1 </dev/null &
    if wait $!; then
        cp "$(lock "$name")" "$done"
        echo "$((SECONDS - begun)) s"
    else
        echo "failed after $((SECONDS - begun)) s"
        echo "$name cannot be had: $(grep -v '^ *$' "$folder/$name.log" | tail -n 1) (full output: $folder/$name.log)"
        missing+=("$name")
    fi
done <<<"$table"

options=()
for name in $names; do
    [ ! -e "$folder/$name/.onnxgather-done" ] || options+=(--lane "$name=$folder/$name/bin/python")
done
echo "options of onnxgather check: ${options[*]}"
[ ${#missing[@]} = 0 ] || fail "${missing[*]} cannot be had, for the reasons above (run again to go on)"
