#!/bin/sh
# Runs a program for aarch64, and those that it starts: `unshare --map-root-user --mount --net sh aarch64.sh PROGRAM ...`
# The user namespace has formats of programs of its own (Linux 6.7), so those of the system remain as they are.
set -e
ip link set lo up
mount -t binfmt_misc binfmt_misc /proc/sys/fs/binfmt_misc
zeros='\x00\x00\x00\x00\x00\x00\x00\x00'
magic='\x7fELF\x02\x01\x01\x00'$zeros'\x02\x00\xb7\x00'
mask='\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff'
printf '%s' ":aarch64:M::$magic:$mask:$(command -v qemu-aarch64):F" >/proc/sys/fs/binfmt_misc/register
exec "$@"
