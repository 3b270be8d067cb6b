//! Network namespaces: the permission to create them, and how a thread enters one and returns.
//!
//! A network namespace belongs to a thread. A process can enter and leave those created in its own user namespace; the
//! one in which an ordinary user's program starts belongs to the system's user namespace and cannot be entered again.

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

static HOME: OnceLock<NetworkNamespace> = OnceLock::new();

/// The namespace of this process's loopback rounds.
pub fn prepared() -> NetworkNamespace {
    HOME.get().copied().unwrap_or_default()
}

/// Makes this process able to create, enter and leave network namespaces; call it before any of that. With the
/// capabilities for it, it already is. Otherwise it moves for good into its own user namespace, where it acts as root
/// over what it creates there, and into a fresh network namespace; it must have one thread.
pub fn prepare() -> Result<NetworkNamespace, WhyNot> {
    if is_capable() {
        return Ok(prepared());
    }
    refuse_threads()?;
    namespace::move_out(Some(&RootMap::of_this_process())).map_err(|refusal| explained(&refusal))?;
    let up = Netlink::open().and_then(|mut netlink| netlink.set_up(LOOPBACK_INDEX));
    up.map_err(|error| {
        WhyNot::new(
            format!("the loopback interface of a new network namespace cannot be set up: {error}"),
            "run as root",
        )
    })?;
    Ok(*HOME.get_or_init(|| NetworkNamespace::Own))
}

/// Whether [`prepare`] would succeed and a network namespace can be created, tried in a separate process.
pub fn may_prepare() -> Result<(), WhyNot> {
    tried(None)?.map_err(|refusal| explained(&refusal))
}

/// Whether the kernel setting of that name can be changed in a new network namespace, tried in a separate process.
pub fn may_set(name: &str) -> Result<(), WhyNot> {
    let file = CString::new(sysctl::file_of(name)).map_err(|_| not_settable(name, "its name has a zero byte"))?;
    tried(Some(&file))?.map_err(|refusal| match refusal.step {
        NamespaceStep::Setting if refusal.error.kind() == io::ErrorKind::NotFound => {
            not_settable(name, "a new network namespace has no such setting")
        }
        NamespaceStep::Setting => not_settable(name, &format!("it cannot be written there: {}", refusal.error)),
        _ => explained(&refusal),
    })
}

fn not_settable(name: &str, problem: &str) -> WhyNot {
    WhyNot::new(
        format!("kernel setting `{name}` cannot be changed for a round alone: {problem}"),
        "only settings of each network namespace can; have the administrator set another, make a run with each \
               value and use `hairpin compare`"
            .to_owned(),
    )
}

/// Tries to move into new namespaces in a separate process, and to open that file there for writing.
fn tried(setting: Option<&CStr>) -> Result<Result<(), Refusal>, WhyNot> {
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

/// A new network namespace with only a loopback interface. It ends when the file is closed and nothing uses it any
/// more. The calling thread stays in its namespace.
pub(crate) fn fresh() -> Result<File, Failure> {
    let _visit = Visit { home: home()? };
    wiring::new_namespace()
}

/// The path by which other processes of this user can enter a namespace while it is held.
pub(crate) fn path_of(namespace: &File) -> PathBuf {
    PathBuf::from(format!("/proc/{}/fd/{}", std::process::id(), namespace.as_raw_fd()))
}

/// Writes the kernel settings of the order's case in that namespace.
pub(crate) fn set(order: &RoundOrder, namespace: &Path) -> Result<(), Failure> {
    let _visit = visit(namespace)?;
    sysctl::set(order)
}

/// Moves the calling thread into the network namespace of that file (setns(2)) for good.
pub fn enter(namespace: &Path) -> Result<(), Failure> {
    let file = File::open(namespace).map_err(|error| not_entered(namespace, &error))?;
    namespace::enter_network(file.as_fd()).map_err(|error| not_entered(namespace, &error))
}

/// A stay of the calling thread in another network namespace. Dropping it returns the thread.
#[derive(Debug)]
pub struct Visit {
    home: File,
}

/// Moves the calling thread into the network namespace of that file until the visit is dropped, on the same thread.
pub fn visit(namespace: &Path) -> Result<Visit, Failure> {
    let home = home()?;
    enter(namespace)?;
    Ok(Visit { home })
}

/// The calling thread's network namespace. Tries the return before leaving: a thread that cannot return must not leave.
fn home() -> Result<File, Failure> {
    let here = Path::new("/proc/thread-self/ns/net");
    let home = File::open(here).map_err(|error| not_entered(here, &error))?;
    namespace::enter_network(home.as_fd()).map_err(|error| not_entered(here, &error))?;
    Ok(home)
}

impl Drop for Visit {
    fn drop(&mut self) {
        // It was possible when the visit began, and nothing it depends on has changed.
        drop(namespace::enter_network(self.home.as_fd()));
    }
}

fn not_entered(namespace: &Path, error: &io::Error) -> Failure {
    let hint = match error.raw_os_error() {
        Some(libc::ENOENT) => "has the link ended?",
        _ => "it needs root, or a user namespace of its own; see `hairpin link list`",
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

/// A line of this process's `/proc/self/status`.
fn status(name: &str) -> Option<String> {
    let text = fs::read_to_string("/proc/self/status").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    Some(line.trim().to_owned())
}

fn refuse_threads() -> Result<(), WhyNot> {
    match status("Threads").as_deref() {
        Some("1") | None => Ok(()),
        Some(threads) => Err(WhyNot::new(
            format!("this process has {threads} threads, and only a process of one may leave its user namespace"),
            "use it from a process of one thread, or run as root",
        )),
    }
}

/// The refusal with a hint for this system.
fn explained(refusal: &Refusal) -> WhyNot {
    let setting = |name: &str| {
        let path = format!("/proc/sys/{}", name.replace('.', "/"));
        Some(fs::read_to_string(path).ok()?.trim().to_owned())
    };
    why_not(refusal, &setting, status("Seccomp").is_some_and(|mode| mode != "0"))
}

/// A refusal to a program in a link, as a failure.
pub(super) fn failure(refusal: &Refusal) -> Failure {
    let WhyNot { reason, hint } = explained(refusal);
    Failure::new(&refusal.error, reason, hint)
}

/// The reason and the hint, based on the kernel's settings and on whether a filter of system calls is active.
fn why_not(refusal: &Refusal, setting: &dyn Fn(&str) -> Option<String>, filtered: bool) -> WhyNot {
    let Refusal { step, error } = refusal;
    let reason = match step {
        NamespaceStep::UserNamespace => format!("an ordinary user may not make a user namespace here: {error}"),
        NamespaceStep::ActAsRoot => format!("acting as root in a user namespace of its own is refused: {error}"),
        NamespaceStep::NetworkNamespace => format!("a network namespace cannot be made: {error}"),
        NamespaceStep::EnterNetwork => format!("the link's network namespace cannot be entered: {error}"),
        NamespaceStep::HostNamespaces => format!("namespaces for mounts, host name and IPC cannot be made: {error}"),
        NamespaceStep::PrivateMounts => format!("mounts cannot be kept from the host: {error}"),
        NamespaceStep::Sysfs => format!("/sys of the link cannot be mounted: {error}"),
        NamespaceStep::Setting => format!("a kernel setting cannot be written: {error}"),
    };
    let is = |name: &str, value: &str| setting(name).as_deref() == Some(value);
    let refused = matches!(error.raw_os_error(), Some(libc::EPERM | libc::EACCES));
    let hint = match error.raw_os_error() {
        _ if *step == NamespaceStep::EnterNetwork => "was the link ended from outside?",
        _ if *step == NamespaceStep::Sysfs => "run as root, or where the host's own /sys is mounted whole",
        Some(libc::ENOSPC) if *step == NamespaceStep::NetworkNamespace => {
            "raise it: sysctl -w user.max_net_namespaces=1000"
        }
        Some(libc::ENOSPC) if *step == NamespaceStep::HostNamespaces => {
            "raise them: sysctl -w user.max_mnt_namespaces=1000 user.max_uts_namespaces=1000 user.max_ipc_namespaces=1000"
        }
        Some(libc::EINVAL | libc::ENOSYS) if *step == NamespaceStep::HostNamespaces => {
            "a kernel with CONFIG_UTS_NS and CONFIG_IPC_NS is needed"
        }
        Some(libc::EINVAL) if *step == NamespaceStep::PrivateMounts => {
            "run outside of a changed root directory, or one that is a mount (mount --bind DIR DIR before chroot DIR)"
        }
        Some(libc::ENOSPC | libc::EUSERS) => "raise it: sysctl -w user.max_user_namespaces=1000, or run as root",
        Some(libc::EINVAL | libc::ENOSYS) => {
            "a kernel with CONFIG_USER_NS and CONFIG_NET_NS is needed; as root only the second"
        }
        _ if refused && is("kernel.unprivileged_userns_clone", "0") => {
            "sysctl -w kernel.unprivileged_userns_clone=1, or run as root"
        }
        _ if refused && is("kernel.apparmor_restrict_unprivileged_userns", "1") => {
            "sysctl -w kernel.apparmor_restrict_unprivileged_userns=0, or an AppArmor profile for hairpin with `userns,`, \
             or run as root"
        }
        _ if refused && filtered => {
            "a filter of system calls is in force, as in a container: give that the capabilities SYS_ADMIN, NET_ADMIN \
             and NET_RAW (docker run --cap-add), or no filter (--security-opt seccomp=unconfined)"
        }
        _ => "run as root, or outside of a container and of a changed root directory",
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
    fn a_refusal_names_what_would_help_here() {
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
            (mounts, libc::EINVAL, &open, false, "changed root directory"),
            (sys, libc::EPERM, &closed, true, "the host's own /sys"),
        ];
        for (step, code, settings, filtered, help) in cases {
            let why = said(step, code, settings, filtered);
            assert!(why.hint.contains(help), "{step:?} {code}: {why}");
            assert!(why.reason.contains("os error"), "the system's own words: {why}");
        }
    }

    #[test]
    fn a_trial_gives_the_same_result_and_does_not_move_the_thread() {
        let here = || fs::read_link("/proc/thread-self/ns/net").unwrap();
        let before = here();
        let trial = may_prepare();
        assert_eq!(here(), before);
        // Tests have several threads, so only a process that need not move can prepare here.
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
