# `cargo xtask fresh` runs this in new mount and PID namespaces as the first process: when it ends, for whatever reason,
# the kernel removes all its mounts and processes. The commands run in an empty network namespace.
#
# $1: an empty folder; $2: the repository; $3: the toolchain; $4: cargo's registry
set -eu
root=$1/debian home=$1/debian/srv/user
# An unnamed file on the disk, to which --busy writes.
exec 9>"$1/written"
rm "$1/written"
mount -t tmpfs -o size=90% none "$1"
debootstrap --variant=minbase --include=ca-certificates,gcc,git,libc6-dev bookworm "$root" >"$1/log" 2>&1 ||
    { tail -n 5 "$1/log"; exit 1; }
mount -t proc none "$root/proc"
mount --rbind /sys "$root/sys"
mount --rbind /dev "$root/dev"
mount -t tmpfs none "$root/dev/shm"
mkdir -p "$root/opt/rust" "$home/.cargo/registry"
mount --bind -o ro "$3" "$root/opt/rust"
chroot "$root" useradd --uid 1000 --no-create-home --home-dir /srv/user user
git clone --quiet "$2" "$home/hairpin"
git -C "$home/hairpin" checkout --quiet "$COMMIT"
cargo fetch --quiet --locked --manifest-path "$home/hairpin/Cargo.toml"
cp -r "$4/index" "$4/cache" "$home/.cargo/registry/"
owner=1000:1000
[ "$AS" = user ] || owner=0:0
chown -R "$owner" "$home"

# In a root of chroot(2), the kernel refuses to create user namespaces; in a root of pivot_root(2), it allows this.
chrooted='exec chroot --userspec="$2" "$1" sh -c "$3"'
pivoted='mount --rbind "$1" "$1" && cd "$1" && pivot_root . old && umount -l old &&
    exec setpriv --reuid "${2%:*}" --regid "${2%:*}" --clear-groups sh -c "$3"'
mkdir "$root/old"
enter=$pivoted
[ "$NAMESPACES" = true ] || enter=$chrooted

inside() {
    env -i PATH=/opt/rust/bin:/usr/bin:/bin:/usr/sbin:/sbin HOME=/srv/user CARGO_NET_OFFLINE=true \
        unshare --mount --net sh -c "ip link set lo up && $enter" sh "$root" "$owner" "cd /srv/user/hairpin && $1" 9>&-
}

if [ "$BUSY" = true ]; then
    inside "$TESTS --no-run" >"$1/tests" 2>&1 || true
    for _ in $(seq $((2 * $(nproc)))); do (while :; do :; done) & done
    (while :; do dd if=/dev/zero of=/dev/fd/9 bs=1M count=64 conv=fdatasync 2>/dev/null; done) &
fi

timed() {
    began=$(date +%s)
    inside "$2" >"$1" 2>&1 && code=0 || code=$?
    printf '%s\t%s\t%s\n' "$2" "$(($(date +%s) - began))" "$code"
}

[ "$RUN" = "" ] || { timed "$1/run" "$RUN"; tail -n 3 "$1/run"; }
for number in $(seq "$TIMES"); do
    timed "$1/tests" "$TESTS"
    grep -E '^(test .*(FAILED|ignored)|not tested: )' "$1/tests" | grep -v '^test result' || true
    grep -E '^(test result|error)' "$1/tests" || tail -n 20 "$1/tests"
    grep -B 2 -A 12 'panicked at' "$1/tests" | head -n 200 || true
done
