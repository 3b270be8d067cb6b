#!/bin/sh
# Runs an aarch64 program and its children: `unshare --map-root-user --mount --net sh aarch64.sh PROGRAM ...`
# A user namespace has its own binfmt_misc entries (Linux 6.7), so the system's entries stay unchanged.
set -e
ip link set lo up
mount -t binfmt_misc binfmt_misc /proc/sys/fs/binfmt_misc
zeros='\x00\x00\x00\x00\x00\x00\x00\x00'
magic='\x7fELF\x02\x01\x01\x00'$zeros'\x02\x00\xb7\x00'
mask='\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff'
printf '%s' ":aarch64:M::$magic:$mask:$(command -v qemu-aarch64):F" >/proc/sys/fs/binfmt_misc/register
exec "$@"
