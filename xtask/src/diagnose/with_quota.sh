# sh -c SCRIPT sh PERCENT PROGRAM ARGUMENT...: runs a program in a control group with a quota of PERCENT of a CPU.
set -eu
percent=$1
shift
root=/sys/fs/cgroup
if [ -d "$root/cpu" ]; then
    root=$root/cpu
    group=$root/hairpin-quota-$$
    mkdir "$group"
    echo 100000 >"$group/cpu.cfs_period_us"
    echo "${percent}000" >"$group/cpu.cfs_quota_us"
else
    echo +cpu >"$root/cgroup.subtree_control"
    group=$root/hairpin-quota-$$
    mkdir "$group"
    echo "${percent}000 100000" >"$group/cpu.max"
fi
trap 'rmdir "$group"' EXIT
code=0
(
    sh -c 'echo $PPID' >"$group/cgroup.procs"
    exec "$@"
) || code=$?
exit $code
