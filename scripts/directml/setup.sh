#!/bin/bash
# Makes, in one folder, what runs DirectML.dll on a Debian machine without a GPU: a newer Debian
# suite with Wine and a software Vulkan driver, DirectML.dll itself, and the program host.exe.
#
#   setup.sh [FOLDER]            make it, or finish what was begun; a second run is quick
#   setup.sh --remove [FOLDER]   remove it
#
# FOLDER is ${XDG_CACHE_HOME:-$HOME/.cache}/onnxgather/directml by default and grows to 2.6 GB;
# nothing outside it changes. Needs root, as it mounts and changes roots; every mount is in a
# namespace of its own, so none is left behind. Package sources, their proxy and their keys are
# those of the machine's apt; the wheels come through the machine's pip. Ends by running one gather.
# Where that cannot be had, the last line on standard error is a sentence of why, and the exit code
# is 1.
set -euo pipefail

suite=trixie
packages=(wine64 mesa-vulkan-drivers libvulkan1 xvfb g++-mingw-w64-x86-64-win32)
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

fail() {
    echo "setup.sh: $*" >&2
    exit 1
}

remove=no
if [ "${1-}" = --remove ]; then
    remove=yes
    shift
fi
case ${1-} in -*) fail "unknown option $1" ;; esac
folder=${1:-${XDG_CACHE_HOME:-$HOME/.cache}/onnxgather/directml}
[ "$(id -u)" = 0 ] || fail "must be root, to mount and to change roots"
if [ $remove = no ]; then
    for program in apt-get dpkg-deb wget gpgv unshare flock python3; do
        command -v $program >/dev/null || fail "needs $program"
    done
    python3 -m pip --version >/dev/null 2>&1 || fail "needs python3's pip"
    unshare --mount --pid --fork true 2>/dev/null ||
        fail "needs the right to mount (CAP_SYS_ADMIN), which this container does not give"
    mkdir -p "$folder"
elif [ ! -d "$folder" ]; then
    echo "$folder does not exist"
    exit 0
fi
folder=$(cd "$folder" && pwd -P)
root=$folder/root
stamps=$folder/stamps
log=$folder/setup.log

# A folder of somebody else's is neither filled nor removed.
[ -d "$stamps" ] || [ -z "$(ls -A "$folder")" ] || fail "$folder holds what setup.sh did not make"
mkdir -p "$stamps"
exec 9>"$folder/lock"
# What a killed setup.sh left running still holds the lock until it ends.
flock -w 60 9 || fail "another setup.sh works in $folder"

# --- Removal ---------------------------------------------------------------------------------

if [ $remove = yes ]; then
    # Nothing is mounted unless somebody did so by hand; --one-file-system guards what still is.
    awk -v under="$folder/" '{ gsub(/\\040/, " ", $2) } index($2, under) == 1 { print $2 }' \
        FS=' ' /proc/mounts | sort -r | while IFS= read -r place; do umount "$place"; done
    # The stamps last: they say whose folder it is.
    for place in "$root" "$folder"; do
        rm -rf --one-file-system "$place" || fail "$folder is still in use"
    done
    echo "removed $folder"
    exit 0
fi

# --- Steps -----------------------------------------------------------------------------------

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

# step STAMP TEXT COMMAND...: runs a command unless its stamp says that it once finished. What it
# prints goes to the log.
step() {
    local stamp=$stamps/$1 text=$2 begun=$SECONDS place
    shift 2
    touch "$log"
    place=$(($(stat -c %s "$log") + 1))
    if [ -e "$stamp" ]; then
        echo "$text: done before"
        return
    fi
    printf '%s ... ' "$text"
    # Not in a condition, where bash would ignore set -e.
    set +e
    (
        set -e
        "$@"
    ) >>"$log" 2>&1
    local status=$?
    set -e
    if [ $status != 0 ]; then
        echo "failed after $((SECONDS - begun)) s"
        fail "\"$text\" failed: $(reason "$place") (all of it: $log; run again to go on)"
    fi
    touch "$stamp"
    echo "$((SECONDS - begun)) s"
}

# Prints where the machine's apt gets Debian from, without the updates and security suites.
mirror() {
    # shellcheck disable=SC2016  # for apt
    apt-get indextargets --format '$(ORIGIN) $(LABEL) $(REPO_URI)' 'Created-By: Packages' |
        awk '$1 == "Debian" && $2 == "Debian" { print $3; exit }'
}

get_debootstrap() {
    mkdir -p "$folder/debootstrap"
    cd "$folder/debootstrap"
    if [ -x /usr/sbin/debootstrap ] && [ -e "/usr/share/debootstrap/scripts/$suite" ]; then
        mkdir -p usr/sbin usr/share
        cp -a /usr/sbin/debootstrap usr/sbin
        cp -a /usr/share/debootstrap usr/share
    else
        apt-get download debootstrap
        dpkg-deb -x debootstrap_*.deb .
    fi
}

make_root() {
    local from
    from=$(mirror)
    [ -n "$from" ] || from=$(apt-get update >&2 && mirror)
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
    python3 -m pip download --quiet --no-deps --only-binary=:all: --require-hashes \
        --platform win_amd64 --python-version 3.11 --implementation cp --abi cp311 \
        --requirement "$here/requirements.txt" --dest "$folder/wheels"
    mkdir -p "$root/lane"
    python3 - "$folder/wheels" "$root/lane" <<'PYTHON'
import pathlib, sys, zipfile

wheels, lane = map(pathlib.Path, sys.argv[1:])
runtime = ("msvcp140", "msvcp140_1", "vcruntime140", "vcruntime140_1")
wanted = {"DirectML.dll", *(f"{name}.dll" for name in runtime)}
for wheel in wheels.glob("*.whl"):
    with zipfile.ZipFile(wheel) as members:
        for member in members.namelist():
            name = member.rpartition("/")[2]
            if name in wanted:
                (lane / name).write_bytes(members.read(member))
missing = wanted - {path.name for path in lane.iterdir()}
sys.exit(f"the wheels lack {', '.join(sorted(missing))}" if missing else 0)
PYTHON
    rm -r "$folder/wheels"
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
sources=$(cat "$here/host.cpp" "$here/directml.h" | sha256sum | cut -c 1-16)
wheels=$(sha256sum <"$here/requirements.txt" | cut -c 1-16)
step debootstrap "debootstrap, unpacked" get_debootstrap
step "root-$suite" "Debian $suite, minimal" make_root
step "packages-$suite" "Wine, Vulkan driver, Xvfb, MinGW" install_packages
step prefix "Wine's folder for Windows" make_prefix
step "wheels-$wheels" "DirectML.dll and the Visual C++ runtime" get_dlls
step "host-$sources" "host.exe" build_host
write_run_host
gather=$("$folder/run-host" --example) ||
    fail "the gather at the end ${gather:-printed nothing}; run-host is $folder/run-host"
echo "One gather: $gather"
echo "Ready after $SECONDS s: $folder/run-host"
