//! Network namespaces: checks the permission to create them, and lets a thread enter one and return.
//!
//! Each thread is in a network namespace. A process can enter namespaces created in its own user namespace. An
//! ordinary user's process cannot return to its first network namespace, which belongs to the initial user namespace.

use std::ffi::{CStr, CString};
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use hairpin_model::environment::NetworkNamespace;
use hairpin_model::{Failure, RoundOrder, WhyNot};

use super::wiring;
use crate::netlink::{LOOPBACK_INDEX, Netlink};
use crate::sysctl;
use crate::system::namespace::{self, NamespaceStep, Refusal, RootMap};

static PREPARED: OnceLock<NetworkNamespace> = OnceLock::new();

/// The network namespace for this process's loopback rounds.
pub fn prepared() -> NetworkNamespace {
    PREPARED.get().copied().unwrap_or_default()
}

/// Enables this process to create, enter and leave network namespaces; call this first. A process with the needed
/// capabilities stays where it is. Any other process must have a single thread, and moves permanently into its own
/// user namespace, in which it is root, and into a new network namespace.
pub fn prepare() -> Result<NetworkNamespace, WhyNot> {
    if is_capable() {
        return Ok(prepared());
    }
    refuse_threads()?;
    namespace::move_out(Some(&RootMap::of_this_process())).map_err(|refusal| with_hint(&refusal))?;
    let up = Netlink::open().and_then(|mut netlink| netlink.set_up(LOOPBACK_INDEX));
    up.map_err(|error| {
        WhyNot::new(
            format!("the loopback interface of a new network namespace cannot be set up: {error}"),
            "run as root",
        )
    })?;
    Ok(*PREPARED.get_or_init(|| NetworkNamespace::Own))
}

/// Whether [`prepare`] would succeed and a network namespace can be created. Tries both in a separate process.
pub fn may_prepare() -> Result<(), WhyNot> {
    try_in_child(None)?.map_err(|refusal| with_hint(&refusal))
}

/// Whether the kernel setting `name` can be changed in a new network namespace. Tries this in a separate process.
pub fn may_set(name: &str) -> Result<(), WhyNot> {
    let file = CString::new(sysctl::file_of(name)).map_err(|_| not_settable(name, "its name has a zero byte"))?;
    try_in_child(Some(&file))?.map_err(|refusal| match refusal.step {
        NamespaceStep::Setting if refusal.error.kind() == io::ErrorKind::NotFound => {
            not_settable(name, "a new network namespace has no such setting")
        }
        NamespaceStep::Setting => not_settable(name, &format!("it cannot be written there: {}", refusal.error)),
        _ => with_hint(&refusal),
    })
}

fn not_settable(name: &str, problem: &str) -> WhyNot {
    WhyNot::new(
        format!("kernel setting `{name}` cannot be changed for a single round: {problem}"),
        "only settings of a network namespace can; have the administrator change any other, make a run with each \
               value and use `hairpin compare`"
            .to_owned(),
    )
}

/// Tries, in a separate process, to move into new namespaces and to open the file `setting` there for writing.
fn try_in_child(setting: Option<&CStr>) -> Result<Result<(), Refusal>, WhyNot> {
    let map = if is_capable() { None } else { Some(RootMap::of_this_process()) };
    if map.is_some() {
        refuse_threads()?;
    }
    namespace::try_to_move_out(map.as_ref(), setting).map_err(|error| {
        WhyNot::new(
            format!("cannot start a process to try it: {error}"),
            "is a limit on processes (ulimit -u) reached?",
        )
    })
}

/// Creates a network namespace with only a loopback interface. The namespace exists until the file is closed and no
/// process uses the namespace. The calling thread stays in its own namespace.
pub fn fresh() -> Result<File, Failure> {
    let _visit = Visit { home: home()? };
    wiring::new_namespace()
}

/// The path by which other processes of this user can enter a namespace while this process has the file open.
pub fn path_of(namespace: &File) -> PathBuf {
    PathBuf::from(format!("/proc/{}/fd/{}", std::process::id(), namespace.as_raw_fd()))
}

/// Writes the kernel settings of the order's case in `namespace`.
pub(crate) fn set(order: &RoundOrder, namespace: &Path) -> Result<(), Failure> {
    let _visit = visit(namespace)?;
    sysctl::set(order)
}

/// Writes these kernel settings in `namespace`: names and values.
pub fn set_all(namespace: &Path, settings: &[(String, String)]) -> Result<(), Failure> {
    // Not every process may return to its own namespace.
    if settings.is_empty() {
        return Ok(());
    }
    let _visit = visit(namespace)?;
    settings.iter().try_for_each(|(name, value)| {
        sysctl::write(name, value).map_err(|error| {
            let hint =
                "only settings of a network namespace can be changed: net.ipv4.*, net.ipv6.* and some of net.core.*";
            Failure::new(&error, format!("cannot set {name}={value}: {error}"), hint)
        })
    })
}

/// Moves the calling thread permanently into a network namespace (setns(2)).
pub fn enter(namespace: &Path) -> Result<(), Failure> {
    let file = File::open(namespace).map_err(|error| not_entered(namespace, &error))?;
    namespace::enter_network(file.as_fd()).map_err(|error| not_entered(namespace, &error))
}

/// A visit of the calling thread to another network namespace. Dropping it makes the thread return.
#[derive(Debug)]
pub struct Visit {
    home: File,
}

/// Moves the calling thread into a network namespace until the visit is dropped, which must happen on the same thread.
pub fn visit(namespace: &Path) -> Result<Visit, Failure> {
    let home = home()?;
    enter(namespace)?;
    Ok(Visit { home })
}

/// The calling thread's network namespace. Checks that the thread can enter it, and so return from a visit.
fn home() -> Result<File, Failure> {
    let here = Path::new("/proc/thread-self/ns/net");
    let home = File::open(here).map_err(|error| not_entered(here, &error))?;
    namespace::enter_network(home.as_fd()).map_err(|error| not_entered(here, &error))?;
    Ok(home)
}

impl Drop for Visit {
    fn drop(&mut self) {
        // The check at the start of the visit succeeded, and nothing it depends on has changed.
        drop(namespace::enter_network(self.home.as_fd()));
    }
}

fn not_entered(namespace: &Path, error: &io::Error) -> Failure {
    let hint = match error.raw_os_error() {
        Some(libc::ENOENT) => "has the link ended?",
        _ => "this needs root, or its own user namespace; see `hairpin link list`",
    };
    Failure::new(error, format!("cannot enter the network namespace {}: {error}", namespace.display()), hint)
}

/// The effective capabilities needed for namespaces, interfaces and packet sockets (`linux/capability.h`).
const CAP_NET_ADMIN: u64 = 1 << 12;
const CAP_NET_RAW: u64 = 1 << 13;
const CAP_SYS_ADMIN: u64 = 1 << 21;

fn is_capable() -> bool {
    const NEEDED: u64 = CAP_NET_ADMIN | CAP_NET_RAW | CAP_SYS_ADMIN;
    status("CapEff").and_then(|text| u64::from_str_radix(&text, 16).ok()).is_some_and(|held| held & NEEDED == NEEDED)
}

/// The value of a line of this process's `/proc/self/status`.
fn status(name: &str) -> Option<String> {
    let text = fs::read_to_string("/proc/self/status").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    Some(line.trim().to_owned())
}

fn refuse_threads() -> Result<(), WhyNot> {
    match status("Threads").as_deref() {
        Some("1") | None => Ok(()),
        Some(threads) => Err(WhyNot::new(
            format!("this process has {threads} threads, but only a process with one can leave its user namespace"),
            "use a process with one thread, or run as root",
        )),
    }
}

/// Converts a refusal, with a hint for this system.
fn with_hint(refusal: &Refusal) -> WhyNot {
    let setting = |name: &str| {
        let path = format!("/proc/sys/{}", name.replace('.', "/"));
        Some(fs::read_to_string(path).ok()?.trim().to_owned())
    };
    why_not(refusal, &setting, status("Seccomp").is_some_and(|mode| mode != "0"))
}

pub(super) fn failure(refusal: &Refusal) -> Failure {
    let WhyNot { reason, hint } = with_hint(refusal);
    Failure::new(&refusal.error, reason, hint)
}

/// The reason and a hint, which depends on the kernel's settings and on whether a system call filter is active.
fn why_not(refusal: &Refusal, setting: &dyn Fn(&str) -> Option<String>, filtered: bool) -> WhyNot {
    let Refusal { step, error } = refusal;
    let reason = match step {
        NamespaceStep::UserNamespace => format!("an ordinary user may not create a user namespace here: {error}"),
        NamespaceStep::ActAsRoot => format!("this process may not become root in a new user namespace: {error}"),
        NamespaceStep::NetworkNamespace => format!("cannot create a network namespace: {error}"),
        NamespaceStep::EnterNetwork => format!("cannot enter the link's network namespace: {error}"),
        NamespaceStep::HostNamespaces => format!("cannot create namespaces for mounts, host name and IPC: {error}"),
        NamespaceStep::PrivateMounts => format!("cannot separate mounts from the host: {error}"),
        NamespaceStep::Sysfs => format!("cannot mount /sys of the link: {error}"),
        NamespaceStep::Setting => format!("cannot write a kernel setting: {error}"),
    };
    let is = |name: &str, value: &str| setting(name).as_deref() == Some(value);
    let refused = matches!(error.raw_os_error(), Some(libc::EPERM | libc::EACCES));
    let hint = match error.raw_os_error() {
        _ if *step == NamespaceStep::EnterNetwork => "was the link ended from outside?",
        _ if *step == NamespaceStep::Sysfs => "run as root, or where the host's own /sys is mounted completely",
        Some(libc::ENOSPC) if *step == NamespaceStep::NetworkNamespace => {
            "raise the limit: sysctl -w user.max_net_namespaces=1000"
        }
        Some(libc::ENOSPC) if *step == NamespaceStep::HostNamespaces => {
            "raise them: sysctl -w user.max_mnt_namespaces=1000 user.max_uts_namespaces=1000 user.max_ipc_namespaces=1000"
        }
        Some(libc::EINVAL | libc::ENOSYS) if *step == NamespaceStep::HostNamespaces => {
            "a kernel with CONFIG_UTS_NS and CONFIG_IPC_NS is needed"
        }
        Some(libc::EINVAL) if *step == NamespaceStep::PrivateMounts => {
            "run outside of a chroot, or make its directory a mount point (mount --bind DIR DIR before chroot DIR)"
        }
        Some(libc::ENOSPC | libc::EUSERS) => "run as root, or: sysctl -w user.max_user_namespaces=1000",
        Some(libc::EINVAL | libc::ENOSYS) => {
            "a kernel with CONFIG_USER_NS and CONFIG_NET_NS is needed; root needs only CONFIG_NET_NS"
        }
        _ if refused && is("kernel.unprivileged_userns_clone", "0") => {
            "sysctl -w kernel.unprivileged_userns_clone=1, or run as root"
        }
        _ if refused && is("kernel.apparmor_restrict_unprivileged_userns", "1") => {
            "sysctl -w kernel.apparmor_restrict_unprivileged_userns=0, or an AppArmor profile for hairpin with `userns,`, \
             or run as root"
        }
        _ if refused && filtered => {
            "a seccomp filter is active, as in a container: give the container the capabilities SYS_ADMIN, NET_ADMIN \
             and NET_RAW (docker run --cap-add), or no filter (--security-opt seccomp=unconfined)"
        }
        _ => "run as root, or outside of containers and chroots",
    };
    WhyNot::new(reason, hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(step: NamespaceStep, code: i32, settings: &[(&str, &str)], filtered: bool) -> WhyNot {
        let refusal = Refusal { step, error: io::Error::from_raw_os_error(code) };
        let setting =
            |name: &str| settings.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
        why_not(&refusal, &setting, filtered)
    }

    #[test]
    fn a_refusal_has_a_hint_for_this_system() {
        let closed = [("kernel.unprivileged_userns_clone", "0")];
        let confined = [("kernel.apparmor_restrict_unprivileged_userns", "1")];
        let open = [("kernel.unprivileged_userns_clone", "1"), ("kernel.apparmor_restrict_unprivileged_userns", "0")];
        let (user, root, network) =
            (NamespaceStep::UserNamespace, NamespaceStep::ActAsRoot, NamespaceStep::NetworkNamespace);
        let (entered, host, mounts, sys) = (
            NamespaceStep::EnterNetwork,
            NamespaceStep::HostNamespaces,
            NamespaceStep::PrivateMounts,
            NamespaceStep::Sysfs,
        );
        type Failed<'a> = (NamespaceStep, i32, &'a [(&'a str, &'a str)], bool, &'a str);
        let cases: [Failed<'_>; 16] = [
            (user, libc::EPERM, &closed, false, "kernel.unprivileged_userns_clone=1"),
            (user, libc::EPERM, &closed, true, "kernel.unprivileged_userns_clone=1"),
            (root, libc::EPERM, &confined, false, "kernel.apparmor_restrict_unprivileged_userns=0"),
            (network, libc::EPERM, &confined, false, "kernel.apparmor_restrict_unprivileged_userns=0"),
            (root, libc::EACCES, &confined, false, "kernel.apparmor_restrict_unprivileged_userns=0"),
            (user, libc::EPERM, &open, true, "--security-opt seccomp=unconfined"),
            (user, libc::EPERM, &open, false, "run as root"),
            (user, libc::ENOSPC, &open, false, "user.max_user_namespaces"),
            (user, libc::EUSERS, &open, false, "user.max_user_namespaces"),
            (network, libc::ENOSPC, &open, false, "user.max_net_namespaces"),
            (user, libc::EINVAL, &open, false, "CONFIG_USER_NS"),
            (entered, libc::EINVAL, &open, false, "was the link ended"),
            (host, libc::ENOSPC, &open, false, "user.max_mnt_namespaces"),
            (host, libc::EINVAL, &open, false, "CONFIG_UTS_NS"),
            (mounts, libc::EINVAL, &open, false, "outside of a chroot"),
            (sys, libc::EPERM, &closed, true, "the host's own /sys"),
        ];
        for (step, code, settings, filtered, help) in cases {
            let why = said(step, code, settings, filtered);
            assert!(why.hint.contains(help), "{step:?} {code}: {why}");
            assert!(why.reason.contains("os error"), "the reason includes the system's error: {why}");
        }
    }

    #[test]
    fn a_trial_gives_the_same_result_and_does_not_move_the_thread() {
        let here = || fs::read_link("/proc/thread-self/ns/net").unwrap();
        let before = here();
        let trial = may_prepare();
        assert_eq!(here(), before);
        // Tests run in several threads, so `prepare` succeeds only if the process need not move.
        assert_eq!(trial.is_ok(), is_capable(), "{trial:?}");
        if is_capable() {
            assert_eq!(prepare(), Ok(NetworkNamespace::Original));
            assert_eq!(here(), before);
        }
    }

    #[test]
    fn only_namespaces_are_entered() {
        let failure = enter(Path::new("/no/such/namespace")).unwrap_err();
        assert!(failure.cause.starts_with("cannot enter the network namespace /no/such/namespace: "), "{failure:?}");
        assert_eq!(failure.hint, "has the link ended?");
        assert!(enter(Path::new("/dev/null")).unwrap_err().cause.contains("Invalid argument"));
    }
}
