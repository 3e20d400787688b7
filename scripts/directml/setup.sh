#!/bin/bash
# Fills one folder with all that it takes to run lanes on a Debian machine without a GPU: a newer
# Debian suite with a software Vulkan driver, and per lane
#
#   directml-dll   DirectML.dll and its host (onnxgather/native/hosts), under Wine
#   directml       ONNX Runtime's DirectML provider and its host, in the same Wine
#   cpu@windows    ONNX Runtime's CPU provider for Windows in that host, and onnxgather's operators
#   webgpu         Python with ONNX Runtime's WebGPU provider
#
#   setup.sh [--lanes LANE,...] [FOLDER]   make them, or finish what was begun; a second run is quick
#   setup.sh --remove [FOLDER]             remove what it made
#
# cpu@windows has the operators that this checkout's sources give with MinGW; --operators FILE takes
# those of FILE, a DLL or a wheel for Windows, until setup.sh runs without it.
# Without --lanes it makes all four. A folder keeps the lanes that it has. FOLDER is
# ${XDG_CACHE_HOME:-$HOME/.cache}/onnxgather/directml by default and grows to 2.9 GB.
# Nothing outside it changes. Needs root, to mount and to change roots; every mount is in a
# namespace of its own, so no mount is left behind. Debian packages come from the sources of the
# machine's apt, with its proxy and its keys; the wheels come through the machine's pip. At the end
# it runs one gather and checks its numbers.
#
# If a step fails, or if SIGTERM, SIGINT or SIGHUP interrupts it, the last line on standard error
# says why, the exit code is 1, and every program that it started has ended.
set -euo pipefail

suite=trixie
vulkan=(mesa-vulkan-drivers libvulkan1)
wine=(wine64 xvfb g++-mingw-w64-x86-64-win32)
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
package=$(cd "$here/../../onnxgather" && pwd)
native=$package/native/hosts
kernels=$package/native/kernels

fail() {
    echo "setup.sh: $*" >&2
    exit 1
}

remove=no
lanes=directml-dll,directml,cpu@windows,webgpu
operators=
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
    --operators)
        [ -f "${2-}" ] || fail "--operators must have a file behind it, got \"${2-}\""
        operators=$(realpath "$2")
        shift
        ;;
    -*) fail "unknown option $1" ;;
    *) folders+=("$1") ;;
    esac
    shift
done
IFS=, read -ra asked <<<"$lanes"
[ ${#asked[@]} != 0 ] || fail "--lanes must name a lane, got none"
for lane in "${asked[@]}"; do
    case $lane in
    directml-dll | directml | cpu@windows | webgpu) ;;
    *) fail "a lane must be directml-dll, directml, cpu@windows or webgpu, got \"$lane\"" ;;
    esac
done
wants() { [[ ,$lanes, == *,$1,* ]]; }
[ ${#folders[@]} -le 1 ] || fail "takes one folder, got ${#folders[@]}: ${folders[*]}"
cache=${XDG_CACHE_HOME:-${HOME:+$HOME/.cache}}
folder=${folders[0]-${cache:+$cache/onnxgather/directml}}
[ -n "$folder" ] || fail "needs a folder, as neither XDG_CACHE_HOME nor HOME is set"
if [ $remove = yes ] && [ ! -d "$folder" ]; then
    echo "there is no $folder"
    exit 0
fi
[ "$(id -u)" = 0 ] || fail "must be root, to mount and to change roots"
if [ $remove = no ]; then
    for program in apt-get dpkg-deb wget gpgv unshare setpriv flock python3; do
        command -v $program >/dev/null || fail "needs $program"
    done
    python3 -m pip --version >/dev/null 2>&1 || fail "needs python3's pip"
    unshare --mount --pid --fork true 2>/dev/null ||
        fail "needs the right to mount (CAP_SYS_ADMIN), which this container does not give"
    mkdir -p "$folder"
fi
folder=$(cd "$folder" && pwd -P)
root=$folder/root
log=$folder/setup.log
# Marks the folder as one that setup.sh made. Holds a file, a stamp, for every step that is done.
stamps=$folder/.onnxgather-stamps
# Everything that setup.sh makes in the folder. The stamps are last: while they are there, a
# removal that was interrupted can be run again.
made=(apt debootstrap root wheels run-host run-runtime run-windows run-webgpu warm warm.py
    warm-runtime setup.log lock .onnxgather-stamps)

# A folder with files that setup.sh did not make is neither filled nor removed.
if [ ! -d "$stamps" ]; then
    [ $remove = no ] || fail "$folder is not removed, as setup.sh did not make it"
    [ -z "$(ls -A "$folder")" ] || fail "$folder holds files that setup.sh did not make"
    mkdir "$stamps"
fi
exec 9>"$folder/lock"
# The programs that a killed setup.sh left running hold the lock until they end.
flock -w 60 9 || fail "another setup.sh works in $folder"

# --- Removal ---------------------------------------------------------------------------------

if [ $remove = yes ]; then
    # Something is mounted in the folder only if a user did so by hand. If umount fails,
    # --one-file-system keeps rm away from what is mounted.
    awk -v under="$folder/" '{ gsub(/\\040/, " ", $2) } index($2, under) == 1 { print $2 }' \
        FS=' ' /proc/mounts | sort -r | while IFS= read -r mounted; do umount "$mounted"; done
    for name in "${made[@]}"; do
        rm -rf --one-file-system "${folder:?}/$name" || fail "$folder/$name is still in use"
    done
    rmdir "$folder" 2>/dev/null ||
        fail "$folder stays, as it holds files that setup.sh did not make"
    echo "removed $folder"
    exit 0
fi

# --- Steps -----------------------------------------------------------------------------------

# Kills a process and all below it, children first. Milder signals do not end a step: the first
# process of a namespace ignores those that it has no handler for, and unshare blocks them. A
# namespace ends with its unshare.
kill_tree() {
    local child
    # shellcheck disable=SC2013  # words
    for child in $(cat "/proc/$1/task/"*/children 2>/dev/null); do kill_tree "$child"; done
    kill -KILL "$1" 2>/dev/null || true
}

running=
ticking=
interrupted() {
    trap '' TERM INT HUP
    [ -z "$ticking" ] || kill_tree "$ticking"
    [ -z "$running" ] || kill_tree "$running"
    echo "interrupted"
    fail "interrupted by SIG$1 (run again to go on)"
}
for signal in TERM INT HUP; do
    # shellcheck disable=SC2064  # the signal's name now
    trap "interrupted $signal" $signal
done

# Runs a command in the new root, in namespaces of its own: its mounts and processes end with it.
inside() {
    # shellcheck disable=SC2016  # for the inner shell
    unshare --mount --pid --fork --kill-child --propagation private sh -ec '
        root=$1
        shift
        mount -t proc proc "$root/proc"
        mount --rbind /dev "$root/dev"
        exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 \
            DEBIAN_FRONTEND=noninteractive chroot "$root" "$@"' sh "$root" "$@"
}

# reason BYTE: prints why a command failed whose output begins at that byte of the log. That is
# the first line that looks like an error, or else the last line.
reason() {
    tail -c "+$1" "$log" | tr '\r' '\n' | awk '
        NF { last = $0 }
        telling == "" && /^(E:|ERROR:|setup\.sh:)|error:/ { telling = $0 }
        END { print telling == "" ? last : telling }'
}

# The steps that must run again after a step of some kind has run, by their kinds.
declare -A run_again=([root]="vulkan wine prefix wheels host operators python"
    [wine]="prefix host operators")

# tick TEXT: shows that time goes on, until it is killed: on a terminal by the seconds, elsewhere by
# a dot every ten seconds.
tick() {
    local begun=$SECONDS
    if [ -t 1 ]; then
        while sleep 1; do printf '\r%s ... %s s ' "$1" $((SECONDS - begun)); done
    else
        while sleep 10; do printf '. '; done
    fi
}

# step STAMP TEXT COMMAND...: runs a command and then makes its stamp, unless there is one already.
# What the command prints goes to the log. A stamp's name is the step's kind; if the step depends on
# something that may change, a hyphen and that thing's name or digest follow.
step() {
    local stamp=$stamps/$1 kind=${1%%-*} text=$2 begun=$SECONDS start status=0
    shift 2
    if [ -e "$stamp" ]; then
        echo "$text: done before"
        return
    fi
    for kind in "$kind" ${run_again[$kind]-}; do rm -f "$stamps/$kind" "$stamps/$kind"-*; done
    touch "$log"
    start=$(($(stat -c %s "$log") + 1))
    printf '%s ... ' "$text"
    # In the background, as bash runs a trap only while it waits. A signal may reach the command
    # too, for example from timeout, and is ignored there: a process that ended by itself would
    # leave its children behind, out of kill_tree's reach.
    (
        trap '' TERM INT HUP
        "$@"
    ) >>"$log" 2>&1 &
    running=$!
    tick "$text" 2>/dev/null &
    ticking=$!
    disown "$ticking" # so that bash does not say that it was killed
    wait "$running" || status=$?
    running=
    kill_tree "$ticking"
    ticking=
    [ ! -t 1 ] || printf '\r%s ... ' "$text"
    if [ $status != 0 ]; then
        echo "failed after $((SECONDS - begun)) s"
        fail "\"$text\" failed: $(reason "$start") (full output: $log; run again to go on)"
    fi
    touch "$stamp"
    echo "$((SECONDS - begun)) s"
}

# check STAMP TEXT COMMAND...: runs a step whenever it is asked for, and prints its last line.
check() {
    rm -f "$stamps/$1"
    step "$@"
    tail -n 1 "$log"
}

# Runs the machine's apt-get, with its downloads in the folder, and its package lists too if `lists`
# is set. Downloads as root, since the user _apt may have no access to the folder.
lists=
machine_apt() {
    apt-get -o "Dir::Cache=$folder/apt" -o APT::Sandbox::User=root \
        ${lists:+-o "Dir::State::Lists=$lists"} "$@"
}

# Gets package lists into the folder, for a machine whose own lists are missing or old.
get_lists() {
    lists=$folder/apt/lists
    mkdir -p "$lists/partial" "$folder/apt/archives/partial"
    machine_apt update
}

# Prints the address from which the machine's apt gets Debian itself, not its updates.
mirror() {
    # shellcheck disable=SC2016  # for apt
    machine_apt indextargets --format '$(ORIGIN) $(LABEL) $(REPO_URI)' 'Created-By: Packages' |
        awk '!found && $1 == "Debian" && $2 == "Debian" { print found = $3 }'
}

get_debootstrap() {
    rm -rf "$folder/debootstrap"
    mkdir -p "$folder/debootstrap" "$folder/apt/archives/partial"
    cd "$folder/debootstrap"
    if [ -x /usr/sbin/debootstrap ] && [ -e "/usr/share/debootstrap/scripts/$suite" ]; then
        mkdir -p usr/sbin usr/share
        cp -a /usr/sbin/debootstrap usr/sbin
        cp -a /usr/share/debootstrap usr/share
    else
        if ! machine_apt download debootstrap; then
            get_lists
            machine_apt download debootstrap
        fi
        dpkg-deb -x debootstrap_*.deb .
    fi
}

make_root() {
    local from
    from=$(mirror)
    if [ -z "$from" ]; then
        get_lists
        from=$(mirror)
    fi
    [ -n "$from" ] || fail "the machine's apt has no source of Debian packages"
    rm -rf --one-file-system "$root"
    # debootstrap downloads with wget, which takes its proxy from the environment.
    local proxy
    proxy=$(apt-config dump --format '%v' Acquire::http::Proxy)
    # debootstrap does not take a path with a space, so the folder is mounted at /mnt.
    # shellcheck disable=SC2016  # for the inner shell
    env ${proxy:+"http_proxy=$proxy"} \
        unshare --mount --pid --fork --kill-child --propagation private sh -ec '
        mount --bind "$1" /mnt
        DEBOOTSTRAP_DIR=/mnt/debootstrap/usr/share/debootstrap
        export DEBOOTSTRAP_DIR
        exec /mnt/debootstrap/usr/sbin/debootstrap --variant=minbase --arch=amd64 \
            --keyring=/usr/share/keyrings/debian-archive-keyring.gpg "$2" /mnt/root "$3"
        ' sh "$folder" "$suite" "$from"
    rm -rf "$folder/apt"
    # Gives the new root's apt the machine's proxy, passwords, certificates and name servers.
    local apt=$root/etc/apt
    apt-config dump | awk '/^Acquire::(http|https|Check|Retries)/' >"$apt/apt.conf.d/90machine"
    cp -a /etc/apt/auth.conf* "$apt/" || true
    cp -aL /etc/ssl/certs "$root/etc/ssl/" || true
    cp -L /etc/resolv.conf /etc/hosts "$root/etc/"
    echo "deb $from $suite main" >"$apt/sources.list"
    # Makes installing quick and small: no translations, documentation or recommended packages, and
    # no care for a power failure, as the root can always be made again.
    printf '%s;\n' 'Acquire::Languages "none"' 'APT::Install-Recommends "false"' \
        >"$apt/apt.conf.d/91lane"
    printf '%s\n' force-unsafe-io 'path-exclude=/usr/share/doc/*' 'path-exclude=/usr/share/man/*' \
        'path-exclude=/usr/share/locale/*' >"$root/etc/dpkg/dpkg.cfg.d/lane"
}

# install PACKAGE...: installs packages in the new root.
install() {
    inside dpkg --configure -a
    inside apt-get update
    inside apt-get install -y --fix-broken "$@"
    inside apt-get clean
    rm -rf "$root"/var/lib/apt/lists/*
}

# Gets DirectML.dll, ONNX Runtime and the four DLLs that they import, out of their wheels.
get_dlls() {
    rm -rf "$folder/wheels"
    python3 -m pip download --quiet --no-cache-dir --no-deps --only-binary=:all: --require-hashes \
        --platform win_amd64 --python-version 3.11 --implementation cp --abi cp311 \
        --requirement "$here/requirements.txt" --dest "$folder/wheels"
    mkdir -p "$root/lane"
    python3 - "$folder/wheels" "$root/lane" <<'PYTHON'
import pathlib, sys, zipfile

wheels, lane = map(pathlib.Path, sys.argv[1:])
runtime = ("msvcp140", "msvcp140_1", "vcruntime140", "vcruntime140_1")
wanted = {"DirectML.dll", "onnxruntime.dll", *(f"{name}.dll" for name in runtime)}
found: set[str] = set()
for wheel in wheels.glob("*.whl"):
    with zipfile.ZipFile(wheel) as members:
        for member in members.namelist():
            name = member.rpartition("/")[2]
            if name in wanted:
                (lane / name).write_bytes(members.read(member))
                found.add(name)
missing = ", ".join(sorted(wanted - found))
sys.exit(f"the wheels lack {missing}" if missing else 0)
PYTHON
    rm -rf "$folder/wheels"
}

# Installs Python with ONNX Runtime's WebGPU provider and the numpy that it needs.
get_python() {
    local to=$root/lane/webgpu
    install python3
    rm -rf "$folder/wheels" "$to"
    python3 -m pip download --quiet --no-cache-dir --no-deps --only-binary=:all: --require-hashes \
        --platform manylinux_2_27_x86_64 --python-version 3.13 --implementation cp --abi cp313 \
        --requirement "$here/webgpu.txt" --dest "$folder/wheels"
    mkdir -p "$to"
    local wheel
    for wheel in "$folder/wheels/"*.whl; do python3 -m zipfile -e "$wheel" "$to"; done
    rm -rf "$folder/wheels"
}

# Makes the folder that Wine shows to programs as Windows. Its Direct3D runs on Vulkan, so that the
# software driver is an adapter.
make_prefix() {
    rm -rf "$root/prefix"
    # shellcheck disable=SC2016  # for the inner shell
    inside sh -c '
        export WINEPREFIX=/prefix WINEDEBUG=-all WINEDLLOVERRIDES="mscoree,mshtml="
        wine=$(command -v wine || command -v wine64 || echo /usr/lib/wine/wine64)
        "$wine" wineboot --init
        "$wine" reg add "HKCU\\Software\\Wine\\Direct3D" /v renderer /d vulkan /f
        # Wait until the registry is written.
        /usr/lib/wine/wineserver64 -w 2>/dev/null || wineserver -w
    '
    grep -q vulkan "$root/prefix/user.reg"
}

build_hosts() {
    rm -rf "$root/lane/native"
    cp -r "$native" "$root/lane/native"
    local host
    for host in directml_host runtime_host; do
        inside x86_64-w64-mingw32-g++-win32 -std=c++20 -O2 -Wall -Wextra -Werror -static -s \
            -o "/lane/$host.exe" "/lane/native/$host.cpp" -ld3d12 -ldxgi -ldxguid -lversion
    done
}

# Makes onnxgather's own operators for Windows: from their sources, or out of --operators.
get_operators() {
    local to=$root/lane/onnxgather_operators.dll given=$operators
    if [ -z "$operators" ]; then
        rm -rf "$root/lane/kernels" "$to"
        cp -r "$kernels" "$root/lane/kernels"
        rm "$root/lane/kernels/python.c" # of the Python module
        # shellcheck disable=SC2016  # for the inner shell
        inside sh -c 'x86_64-w64-mingw32-gcc-win32 -std=c11 -O2 -Wall -Wextra -Werror -shared -s \
            -static-libgcc -o /lane/onnxgather_operators.dll /lane/kernels/*.c'
        return
    fi
    rm -rf "$folder/wheels"
    if [[ $operators == *.whl ]]; then
        python3 -m zipfile -e "$operators" "$folder/wheels" || true
        given=$folder/wheels/onnxgather/onnxgather_operators.dll
    fi
    # A DLL of Windows begins so.
    [ "$(head -c 2 "$given")" = MZ ] ||
        fail "--operators must be a DLL of Windows or a wheel with one, got \"$operators\""
    cp "$given" "$to"
    rm -rf "$folder/wheels"
}

write_wine_scripts() {
    # Runs inside the root: starts a screen, copies the registry for this run alone, and runs a
    # host. As the first process of its namespace it takes all that it started with it. Windows'
    # services, and the start of Windows that begins them, take longer than a host itself, and no
    # host needs them; explorer.exe stays, as it brings the screen, and with it the adapter.
    cat >"$root/lane/run" <<'RUN'
#!/bin/sh
mkdir /tmp/wine
cp /prefix/*.reg /prefix/.update-timestamp /tmp/wine/
cp -a /prefix/dosdevices /tmp/wine/
ln -s /prefix/drive_c /tmp/wine/drive_c
Xvfb :0 -screen 0 64x64x24 -nolisten tcp </dev/null >/dev/null 2>&1 &
tries=0
until [ -S /tmp/.X11-unix/X0 ] || [ $tries = 200 ]; do
    sleep 0.05
    tries=$((tries + 1))
done
# ONNX Runtime writes files into the current folder. This one is the run's own.
cd /tmp
/usr/lib/wine/wine64 "$@"
RUN
    chmod +x "$root/lane/run"
    write_script run-host /lane/directml_host.exe
    write_script run-runtime /lane/runtime_host.exe onnxruntime.dll
    # What was lent has other names from now on.
    rm -rf --one-file-system "${folder:?}/warm"
    cp "$here/warm.py" "$folder/"
    cat >"$folder/warm-runtime" <<'RUN'
#!/bin/sh
# run-runtime, or the one that an earlier command left. Written by setup.sh.
folder=$(cd "$(dirname "$0")" && pwd -P)
exec setpriv --pdeathsig KILL python3 -IS "$folder/warm.py" "$folder/run-runtime"
RUN
    chmod +x "$folder/warm-runtime"
}

# write_script NAME COMMAND...: writes the script that runs a host.
write_script() {
    local script=$folder/$1
    shift
    sed "s#COMMAND#$*#" >"$script" <<'RUN'
#!/bin/sh
# Runs COMMAND under Wine, with the input and output of this script. When this script ends, or what
# started it, even killed, all that it started ends too. Any number may run at once. Written by
# setup.sh.
root=$(cd "$(dirname "$0")" && pwd -P)/root
# shellcheck disable=SC2016  # for the inner shell
exec setpriv --pdeathsig KILL \
    unshare --mount --pid --net --ipc --fork --kill-child --propagation private sh -ec '
    root=$1
    shift
    mount -t proc proc "$root/proc"
    mount --rbind /dev "$root/dev"
    mount -t tmpfs tmpfs "$root/tmp"
    exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/tmp XDG_RUNTIME_DIR=/tmp LC_ALL=C.UTF-8 \
        DISPLAY=:0 WINEPREFIX=/tmp/wine WINEDEBUG="${WINEDEBUG--all}" \
        WINEDLLOVERRIDES="mscoree,mshtml=;wineboot.exe,services.exe=d" \
        chroot "$root" /lane/run COMMAND "$@"' sh "$root" "$@"
RUN
    chmod +x "$script"
}

# Runs a model on the CPU provider of ONNX Runtime for Windows, with onnxgather's operators
# registered, as a worker has it run.
run_windows() {
    python3 - "$folder/run-windows" "$here/gather.onnx" <<'PYTHON'
import array, json, pathlib, struct, subprocess, sys

model = pathlib.Path(sys.argv[2]).read_bytes()
data, indices = array.array("f", [11, 12, 13, 14]), array.array("I", [3, 1, 3, 0, 2])
feed = {
    "InputTensor": ["float32", [4], len(model)],
    "IndicesTensor": ["uint32", [5], len(model) + 16],
}
session = {
    "provider": "CPUExecutionProvider",
    "threads": 1,
    "operators": "Z:\\lane\\onnxgather_operators.dll",
}
asked = json.dumps({"model": len(model), "session": session, "feeds": [feed], "keep": 0})
frame = b"\n".join([asked.encode(), model + data.tobytes() + indices.tobytes()])
frame = struct.pack("<Q", len(frame)) + frame
told = subprocess.run([sys.argv[1]], input=frame, stdout=subprocess.PIPE, check=True).stdout
header, _, content = told[16:].partition(b"\n")  # after the greeting and the length
if content != array.array("f", [data[k] for k in indices]).tobytes():
    sys.exit(f"setup.sh: the operators gave no right answer: {header.decode(errors='replace')}")
output = map(int, array.array("f", content))
print("11 12 13 14 at 3, 1, 3, 0, 2:", *output, "(CPUExecutionProvider on Windows)")
PYTHON
}

write_python_script() {
    cat >"$folder/run-webgpu" <<'RUN'
#!/bin/sh
# A Python interpreter with ONNX Runtime's WebGPU provider on a software device. All its libraries
# come from the folder's Debian, all other files from the machine. Written by setup.sh.
root=$(cd "$(dirname "$0")" && pwd -P)/root
libraries=$root/usr/lib/x86_64-linux-gnu
export PYTHONHOME="$root/usr" PYTHONPATH="$root/lane/webgpu" PYTHONNOUSERSITE=1 \
    VK_DRIVER_FILES="$root/usr/share/vulkan/icd.d/lvp_icd.json" VK_LOADER_LAYERS_DISABLE='~all~'
exec "$libraries/ld-linux-x86-64.so.2" --argv0 "$0" --library-path "$libraries" \
    "$root/usr/bin/python3" "$@"
RUN
    chmod +x "$folder/run-webgpu"
}

# Runs a model on the WebGPU provider, with proof, as a worker does.
run_webgpu() {
    "$folder/run-webgpu" - "$package/core/execution" "$here/gather.onnx" <<'PYTHON'
import sys

sys.path.append(sys.argv[1])
import numpy
import runtime

data = numpy.array([11, 12, 13, 14], numpy.float32)
indices = numpy.array([3, 1, 3, 0, 2], numpy.uint32)
opened = runtime.Opened(sys.argv[2], runtime.Setup(runtime.WEBGPU))
output = opened.run({"InputTensor": data, "IndicesTensor": indices})
assert output.tobytes() == data[indices].tobytes(), output
print("11 12 13 14 at 3, 1, 3, 0, 2:", *output.astype(int), "(WebGpuExecutionProvider)")
PYTHON
}

# --- The work --------------------------------------------------------------------------------

echo "${asked[*]} in $folder"
digest() { sha256sum | cut -c 1-16; }
step debootstrap "debootstrap, unpacked" get_debootstrap
step "root-$suite" "Debian $suite, minimal" make_root
step "vulkan-$(echo "${vulkan[@]}" | digest)" "Vulkan driver" install "${vulkan[@]}"
if wants directml || wants directml-dll || wants cpu@windows; then
    step "wine-$(echo "${wine[@]}" | digest)" "Wine, Xvfb, MinGW" install "${wine[@]}"
    step prefix "Wine's folder for Windows" make_prefix
    step "wheels-$({ declare -f get_dlls && cat "$here/requirements.txt"; } | digest)" \
        "DirectML.dll, ONNX Runtime and the Visual C++ runtime" get_dlls
    step "host-$(cat "$native"/*.* | digest)" "The hosts" build_hosts
    write_wine_scripts
fi
if wants directml || wants directml-dll; then
    check gather "One gather on DirectML" "$folder/run-host" --example
fi
if wants cpu@windows; then
    sources=("$kernels"/*.[ch])
    [ -z "$operators" ] || sources=("$operators")
    step "operators-$({ declare -f get_operators && cat "${sources[@]}"; } | digest)" \
        "The operators for Windows" get_operators
    write_script run-windows /lane/runtime_host.exe onnxruntime.dll
    check windows "One gather on Windows' CPU provider" run_windows
fi
if wants webgpu; then
    step "python-$({ declare -f get_python && cat "$here/webgpu.txt"; } | digest)" \
        "Python and ONNX Runtime with WebGPU" get_python
    write_python_script
    check webgpu "One gather on WebGPU" run_webgpu
fi
options=(--lanes "$lanes")
# The lanes look in the default folder; another one must be named.
if [ ! "$folder" -ef "${cache:-/nowhere}/onnxgather/directml" ]; then
    options=()
    for lane in "${asked[@]}"; do options+=(--lane "$(printf %q "$lane=$folder")"); done
fi
echo "Ready after $SECONDS s: onnxgather check --corpus --shard 1/15 ${options[*]}"
