#!/bin/bash
# Fills one folder with onnxruntime-web, for the lanes web-wasm and web-webgpu, which run in a browser
# without a window: Chromium of the Linux distribution, or the one that CHROMIUM names.
#
#   setup.sh [FOLDER]            make it, or finish what was begun; a second run is quick
#   setup.sh --remove [FOLDER]   remove what it made
#
# FOLDER is ${XDG_CACHE_HOME:-$HOME/.cache}/onnxgather/web by default; the lanes look there. It grows
# to 148 MB. npm gets the packages from the machine's registry, each checked against its digest in
# package-lock.json, and runs none of their scripts. Where there is no browser and apt-get is there,
# root gets Debian's chromium by it (about 350 MB), which --remove leaves.
#
# If a step fails, the last line on standard error says why, and the exit code is 1.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

fail() {
    echo "setup.sh: $*" >&2
    exit 1
}

remove=no
folders=()
for argument in "$@"; do
    case $argument in
    --remove) remove=yes ;;
    -*) fail "unknown option $argument" ;;
    *) folders+=("$argument") ;;
    esac
done
[ ${#folders[@]} -le 1 ] || fail "takes one folder, got ${#folders[@]}: ${folders[*]}"
cache=${XDG_CACHE_HOME:-${HOME:+$HOME/.cache}}
folder=${folders[0]-${cache:+$cache/onnxgather/web}}
[ -n "$folder" ] || fail "needs a folder, as neither XDG_CACHE_HOME nor HOME is set"
mark=$folder/.onnxgather-web

if [ $remove = yes ]; then
    [ -d "$folder" ] || { echo "there is no $folder"; exit 0; }
    [ -e "$mark" ] || fail "$folder is not removed, as setup.sh did not make it"
    rm -rf "$folder/node_modules" "$folder/package.json" "$folder/package-lock.json" "$folder/setup.log" "$mark"
    rmdir "$folder" 2>/dev/null || fail "$folder stays, as it holds files that setup.sh did not make"
    echo "removed $folder"
    exit 0
fi

if [ ! -e "$mark" ]; then
    [ ! -e "$folder" ] || [ -z "$(ls -A "$folder")" ] || fail "$folder holds files that setup.sh did not make"
    mkdir -p "$folder"
    touch "$mark"
fi
log=$folder/setup.log

# step TEXT COMMAND...: runs a command, whose prints go to the log.
step() {
    local text=$1 begun=$SECONDS
    shift
    printf '%s ... ' "$text"
    if ! "$@" >"$log" 2>&1 </dev/null; then
        echo "failed after $((SECONDS - begun)) s"
        fail "\"$text\" failed: $(grep -v '^ *$' "$log" | tail -n 1) (full output: $log; run again to go on)"
    fi
    echo "$((SECONDS - begun)) s"
}

# find_browser: prints the path of the browser.
find_browser() {
    local name
    for name in ${CHROMIUM:-chromium chromium-browser google-chrome google-chrome-stable}; do
        command -v "$name" && return
    done
    return 1
}

browser() {
    apt-get update
    DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends chromium
}

if ! find_browser >/dev/null; then
    [ -z "${CHROMIUM-}" ] || fail "CHROMIUM names $CHROMIUM, which is no program"
    command -v apt-get >/dev/null && [ "$(id -u)" = 0 ] ||
        fail "needs Chromium, which root gets by: apt-get install --no-install-recommends chromium"
    step "Chromium, by apt-get (350 MB)" browser
fi
echo "browser: $(find_browser)"

packages() {
    rm -rf "$folder/node_modules"
    cp "$here/package.json" "$here/package-lock.json" "$folder"
    cd "$folder"
    npm ci --ignore-scripts --no-audit --no-fund
}
if cmp -s "$here/package-lock.json" "$folder/package-lock.json" && [ -d "$folder/node_modules/.done" ]; then
    echo "onnxruntime-web: done before"
else
    command -v npm >/dev/null || fail "needs npm, which root gets by: apt-get install --no-install-recommends npm"
    step "onnxruntime-web, by npm (148 MB)" packages
    mkdir "$folder/node_modules/.done"
fi
echo "$folder has onnxruntime-web $(sed -n 's/^ *"version": "\(.*\)",*/\1/p' "$folder/node_modules/onnxruntime-web/package.json")"
