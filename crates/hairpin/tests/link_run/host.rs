//! A program across a link can change nothing of the host that other programs of the same user cannot change.

use std::os::unix::fs::MetadataExt;

use hairpin_testing::{or_skip, program, skip};

use crate::support::across::run;
use crate::support::{Place, can_link, in_namespaces};

/// Changes everything of the host that namespaces isolate, and prints what it then sees.
const HARM: &str = "set -e
    hostname harmed
    umount mine
    mount -t tmpfs none other
    ipcmk -Q >made
    cat /proc/sys/kernel/hostname
    ls -d /sys/class/net/*/
    ls /sys/fs/cgroup
    umount -l /sys";

const HOST: &str = "cat /proc/sys/kernel/hostname /proc/self/mountinfo /proc/sysvipc/msg; ls -d /sys/class/net/*/";

/// Lets both ends of a link try to harm the host. Here, separate namespaces act as the host and contain a failure.
fn harmed(place: &Place, namespaces: &str) -> Result<(), String> {
    for folder in ["mine", "other"] {
        std::fs::create_dir_all(place.path(folder)).expect("the place can be written to");
    }
    for (name, script) in [("harm", HARM), ("host", HOST)] {
        std::fs::write(place.path(name), script).expect("the place can be written to");
    }
    // With shared propagation, mounts in a namespace also appear in namespaces derived from it.
    let script = "mount --make-rshared / && mount -t tmpfs none mine && sh host >before && \
                  ls /sys/fs/cgroup >cgroup; \
                  \"$0\" link run --link delay=1ms --far 'sh harm' -- sh harm; \
                  code=$?; sh host >after; exit $code";
    let ran = in_namespaces(place, namespaces, script)?.with_code(0);
    let read = |name: &str| std::fs::read_to_string(place.path(name)).expect("it was printed");
    let cgroup = read("cgroup");
    let seen = format!("harmed\n/sys/class/net/eth0/\n/sys/class/net/lo/\n{cgroup}");
    assert_eq!(ran.stdout, seen, "the link's devices, and what else is mounted beneath /sys: {ran:#?}");
    assert!(ran.stderr.starts_with(&seen), "the same at the far end: {ran:#?}");
    assert!(read("before").contains(" none "), "the host's own mount exists");
    assert_eq!(read("after"), read("before"));
    Ok(())
}

#[test]
fn a_program_changes_its_own_mounts_host_name_and_ipc_objects_and_not_the_hosts() {
    or_skip!(can_link());
    or_skip!(program("hostname"));
    or_skip!(harmed(&Place::new(), "-rmui"));
    if std::fs::metadata("/proc/self").expect("it is there").uid() != 0 {
        skip!("the part as root needs root");
    }
    or_skip!(harmed(&Place::new(), "-mui"));
}

#[test]
fn the_limit_on_file_sizes_ends_a_command_as_without_a_link() {
    or_skip!(can_link());
    let place = Place::new();
    let script = "ulimit -f 1; bash -c 'head -c 100000 /dev/zero >large'; echo $?";
    let ran = run(&place, "--link delay=1ms --quiet", script).with_code(0);
    assert_eq!(ran.stdout, "153\n", "128 and SIGXFSZ: {ran:#?}");
}
