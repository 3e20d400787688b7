#!/bin/bash
# Makes, in one folder, what runs DirectML.dll on a Debian machine without a GPU: a newer Debian
# suite with Wine and a software Vulkan driver, DirectML.dll itself, and the program host.exe.
#
#   setup.sh [FOLDER]            make it, or finish what was begun; a second run is quick
#   setup.sh --remove [FOLDER]   remove what it made
#
# FOLDER is ${XDG_CACHE_HOME:-$HOME/.cache}/onnxgather/directml by default and grows to 2.6 GB;
# nothing outside it changes. Needs root, as it mounts and changes roots; every mount is in a
# namespace of its own, so none is left behind. Package sources, their proxy and their keys are
# those of the machine's apt; the wheels come through the machine's pip. Ends by running one gather
# and checking its numbers. Where that cannot be had, or where SIGTERM, SIGINT or SIGHUP ends it,
# the last line on standard error is a sentence of why, and the exit code is 1; nothing that it
# started goes on.
set -euo pipefail

suite=trixie
packages=(wine64 mesa-vulkan-drivers libvulkan1 xvfb g++-mingw-w64-x86-64-win32)
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

fail() {
    echo "setup.sh: $*" >&2
    exit 1
}

remove=no
folders=()
for argument; do
    case $argument in
    --remove) remove=yes ;;
    -*) fail "unknown option $argument" ;;
    *) folders+=("$argument") ;;
    esac
done
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
    for program in apt-get dpkg-deb wget gpgv unshare flock python3; do
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
# Says whose folder it is, and which steps are done.
stamps=$folder/.onnxgather-stamps
# What is made in the folder, the stamps last.
made=(apt debootstrap root wheels run-host setup.log lock .onnxgather-stamps)

# A folder of somebody else's is neither filled nor removed.
if [ ! -d "$stamps" ]; then
    [ $remove = no ] || fail "$folder is not removed, as setup.sh did not make it"
    [ -z "$(ls -A "$folder")" ] || fail "$folder holds what setup.sh did not make"
    mkdir "$stamps"
fi
exec 9>"$folder/lock"
# What a killed setup.sh left running still holds the lock until it ends.
flock -w 60 9 || fail "another setup.sh works in $folder"

# --- Removal ---------------------------------------------------------------------------------

if [ $remove = yes ]; then
    # Nothing is mounted unless somebody did so by hand; --one-file-system guards what still is.
    awk -v under="$folder/" '{ gsub(/\\040/, " ", $2) } index($2, under) == 1 { print $2 }' \
        FS=' ' /proc/mounts | sort -r | while IFS= read -r place; do umount "$place"; done
    for name in "${made[@]}"; do
        rm -rf --one-file-system "${folder:?}/$name" || fail "$folder/$name is still in use"
    done
    rmdir "$folder" 2>/dev/null || fail "$folder stays, as it holds what setup.sh did not make"
    echo "removed $folder"
    exit 0
fi

# --- Steps -----------------------------------------------------------------------------------

# The first process of a namespace ignores signals that it has no handler for, and unshare blocks
# them; so what runs is killed, from the leaves up, and a namespace ends with its unshare.
kill_tree() {
    local child
    # shellcheck disable=SC2013  # words
    for child in $(cat "/proc/$1/task/"*/children 2>/dev/null); do kill_tree "$child"; done
    kill -KILL "$1" 2>/dev/null || true
}

running=
interrupted() {
    trap '' TERM INT HUP
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

# Prints what says best why a command failed whose output in the log begins at a byte.
reason() {
    tail -c "+$1" "$log" | tr '\r' '\n' | awk '
        NF { last = $0 }
        telling == "" && /^(E:|ERROR:|setup\.sh:)|error:/ { telling = $0 }
        END { print telling == "" ? last : telling }'
}

# What a step that works makes others out of date of, by the kinds of their stamps.
declare -A above=([root]="packages prefix wheels host" [packages]="prefix host")

# step STAMP TEXT COMMAND...: runs a command unless its stamp says that it once finished. What it
# prints goes to the log. A stamp is a kind, or a kind, a hyphen and what the step depends on.
step() {
    local stamp=$stamps/$1 kind=${1%%-*} text=$2 begun=$SECONDS place status=0
    shift 2
    if [ -e "$stamp" ]; then
        echo "$text: done before"
        return
    fi
    for kind in "$kind" ${above[$kind]-}; do rm -f "$stamps/$kind" "$stamps/$kind"-*; done
    touch "$log"
    place=$(($(stat -c %s "$log") + 1))
    printf '%s ... ' "$text"
    # Waited for, so that a signal is heard meanwhile. It is ignored in here, where timeout sends it
    # too: what ended by itself would leave its children behind, out of kill_tree's reach.
    (
        trap '' TERM INT HUP
        "$@"
    ) >>"$log" 2>&1 &
    running=$!
    wait "$running" || status=$?
    running=
    if [ $status != 0 ]; then
        echo "failed after $((SECONDS - begun)) s"
        fail "\"$text\" failed: $(reason "$place") (all of it: $log; run again to go on)"
    fi
    touch "$stamp"
    echo "$((SECONDS - begun)) s"
}

# The machine's apt, which keeps its files in the folder: also the package lists where `lists` says
# so. Not as the user _apt, who may not reach the folder.
lists=
machine_apt() {
    apt-get -o "Dir::Cache=$folder/apt" -o APT::Sandbox::User=root \
        ${lists:+-o "Dir::State::Lists=$lists"} "$@"
}

# For a machine whose own package lists are missing or old.
get_lists() {
    lists=$folder/apt/lists
    mkdir -p "$lists/partial" "$folder/apt/archives/partial"
    machine_apt update
}

# Prints where the machine's apt gets Debian from, without the updates and security suites.
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
    # debootstrap fetches with wget, which takes its proxy from the environment.
    local proxy
    proxy=$(apt-config dump --format '%v' Acquire::http::Proxy)
    # It does not take a folder with a space, so the folder is mounted in a place without one.
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
    # apt in the new root reaches the same sources in the same way.
    local apt=$root/etc/apt
    apt-config dump | awk '/^Acquire::(http|https|Check|Retries)/' >"$apt/apt.conf.d/90machine"
    cp -a /etc/apt/auth.conf* "$apt/" || true
    cp -aL /etc/ssl/certs "$root/etc/ssl/" || true
    cp -L /etc/resolv.conf /etc/hosts "$root/etc/"
    echo "deb $from $suite main" >"$apt/sources.list"
    # Quick and small, as the root can always be made again.
    printf '%s;\n' 'Acquire::Languages "none"' 'APT::Install-Recommends "false"' \
        >"$apt/apt.conf.d/91lane"
    printf '%s\n' force-unsafe-io 'path-exclude=/usr/share/doc/*' 'path-exclude=/usr/share/man/*' \
        'path-exclude=/usr/share/locale/*' >"$root/etc/dpkg/dpkg.cfg.d/lane"
}

install_packages() {
    inside dpkg --configure -a
    inside apt-get update
    inside apt-get install -y --fix-broken "${packages[@]}"
    inside apt-get clean
    rm -rf "$root"/var/lib/apt/lists/*
}

# DirectML.dll and the four DLLs that it imports, out of their wheels.
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
wanted = {"DirectML.dll", *(f"{name}.dll" for name in runtime)}
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

# Wine's folder for Windows: Direct3D on Vulkan, which makes the software driver an adapter.
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

build_host() {
    cp "$here/host.cpp" "$here/directml.h" "$root/lane/"
    inside x86_64-w64-mingw32-g++-win32 -std=c++20 -O2 -Wall -Wextra -Werror -static -s \
        -o /lane/host.exe /lane/host.cpp -ld3d12 -ldxgi -ldxguid -lversion
}

write_run_host() {
    # Inside: a screen, a registry of this instance's own, and the program. The first process of
    # the namespace: what it started ends with it.
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
/usr/lib/wine/wine64 /lane/host.exe "$@"
RUN
    cat >"$folder/run-host" <<'RUN'
#!/bin/sh
# Runs host.exe under Wine, its input and output those of this script; ends with it, and everything
# that it started, killed or not. Any number may run at once. Written by setup.sh.
root=$(cd "$(dirname "$0")" && pwd -P)/root
# shellcheck disable=SC2016  # for the inner shell
exec unshare --mount --pid --net --ipc --fork --kill-child --propagation private sh -ec '
    root=$1
    shift
    mount -t proc proc "$root/proc"
    mount --rbind /dev "$root/dev"
    mount -t tmpfs tmpfs "$root/tmp"
    exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/tmp XDG_RUNTIME_DIR=/tmp LC_ALL=C.UTF-8 \
        DISPLAY=:0 WINEPREFIX=/tmp/wine WINEDEBUG="${WINEDEBUG--all}" \
        WINEDLLOVERRIDES="mscoree,mshtml=" chroot "$root" /lane/run "$@"' sh "$root" "$@"
RUN
    chmod +x "$root/lane/run" "$folder/run-host"
}

# --- The work --------------------------------------------------------------------------------

echo "DirectML.dll in $folder"
digest() { sha256sum | cut -c 1-16; }
step debootstrap "debootstrap, unpacked" get_debootstrap
step "root-$suite" "Debian $suite, minimal" make_root
step "packages-$(printf '%s\n' "${packages[@]}" | digest)" "Wine, Vulkan driver, Xvfb, MinGW" \
    install_packages
step prefix "Wine's folder for Windows" make_prefix
step "wheels-$(digest <"$here/requirements.txt")" "DirectML.dll and the Visual C++ runtime" get_dlls
step "host-$(cat "$here/host.cpp" "$here/directml.h" | digest)" "host.exe" build_host
write_run_host
rm -f "$stamps/gather"
step gather "One gather" "$folder/run-host" --example
tail -n 1 "$log"
echo "Ready after $SECONDS s: $folder/run-host"
