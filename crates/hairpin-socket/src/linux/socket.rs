//! The settings of a socket.

use std::os::fd::{AsFd, BorrowedFd};

use super::system;
use crate::profile::Profile;
use crate::report::{Ended, Outcome, Setting, Status, Value, because};

pub(crate) fn apply_to_socket(profile: &Profile, socket: &(impl AsFd + ?Sized)) -> Vec<Outcome> {
    let socket = socket.as_fd();
    let outcome = |(setting, wanted): (Setting, Value)| {
        let (number, shown): (u64, fn(u64) -> Value) = match wanted {
            Value::Switch(on) => (on.into(), |now| Value::Switch(now != 0)),
            Value::Number(number) => (number, Value::Number),
            Value::Cpus(_) | Value::Class(..) => unreachable!("settings of threads"),
        };
        let ended = request(socket, profile.raises_buffers, setting, number);
        Outcome::new(setting, wanted, read(socket, setting).map(shown), ended)
    };
    profile.requests(false).map(outcome).collect()
}

fn request(socket: BorrowedFd<'_>, raises_buffers: bool, setting: Setting, wanted: u64) -> Ended {
    let buffer = limits(setting);
    let not_raised = buffer.filter(|_| raises_buffers).and_then(|limits| not_raised(socket, setting, limits, wanted));
    if let Some(reason) = useless(socket, setting).map(str::to_owned).or(not_raised) {
        return (Status::NotRequested, Some(reason));
    }
    if let Err(error) = system::set_option(socket, number(setting), i32::try_from(wanted).unwrap_or(i32::MAX)) {
        let hint = if error.raw_os_error() == Some(libc::EPERM) { " (hint: needs CAP_NET_ADMIN)" } else { "" };
        return (Status::Refused, Some(format!("{error}{hint}")));
    }
    let now = read(socket, setting);
    match buffer {
        Some(_) if now == Some(2 * wanted) => (Status::Applied, because("doubled for bookkeeping (socket(7))")),
        Some(_) if now > Some(2 * wanted) => (Status::Differs, because("the kernel's minimum")),
        Some((limit, _)) => {
            let value = system::sysctl(limit).map_or("unknown".to_owned(), |value| value.to_string());
            (Status::Differs, Some(format!("limited by {limit} = {value}, then doubled")))
        }
        None if now != Some(wanted) => (Status::Differs, None),
        None if setting == Setting::QuickAck => {
            (Status::Applied, because("does not last (tcp(7)): set it after each read"))
        }
        None => (Status::Applied, None),
    }
}

/// Why a setting can have no effect on this socket.
fn useless(socket: BorrowedFd<'_>, setting: Setting) -> Option<&'static str> {
    let is = |name, value| system::option(socket, (libc::SOL_SOCKET, name)).is_ok_and(|read| read == value);
    let (is_unix, has_no_queue) = (is(libc::SO_DOMAIN, libc::AF_UNIX), is(libc::SO_INCOMING_NAPI_ID, 0));
    match setting {
        Setting::NoDelay | Setting::QuickAck | Setting::NotSentLowat if !is_tcp(socket) => Some("only TCP has it"),
        Setting::ReceiveBuffer if is_unix => Some("data waits in the sender's buffer (unix(7))"),
        Setting::Priority if is_unix => Some("a Unix socket sends no packets"),
        Setting::BusyPoll if has_no_queue => {
            Some("no device queue: SO_INCOMING_NAPI_ID is 0, as on loopback and before the first packet")
        }
        _ => None,
    }
}

/// Why a buffer is not raised: without the option, which ends its autotuning, it is or becomes as large.
fn not_raised(on: BorrowedFd<'_>, setting: Setting, (limit, tuned): Limits, wanted: u64) -> Option<String> {
    let granted = 2 * system::sysctl(limit).map_or(wanted, |limit| wanted.min(limit.unsigned_abs()));
    if read(on, setting)? >= granted {
        return because("as large already");
    }
    let up_to = system::sysctl(tuned).filter(|up_to| is_tcp(on) && up_to.unsigned_abs() >= granted)?;
    Some(format!("the kernel raises it up to {up_to} B ({tuned}), unless it is set: to {granted} B at most"))
}

fn is_tcp(socket: BorrowedFd<'_>) -> bool {
    let protocol = system::option(socket, (libc::SOL_SOCKET, libc::SO_PROTOCOL));
    protocol.is_ok_and(|protocol| matches!(protocol, libc::IPPROTO_TCP | libc::IPPROTO_MPTCP))
}

fn read(socket: BorrowedFd<'_>, setting: Setting) -> Option<u64> {
    system::option(socket, number(setting)).ok().map(|value| value.cast_unsigned().into())
}

/// Of a buffer: the sysctl that limits the option, and that of TCP's autotuning.
type Limits = (&'static str, &'static str);

fn limits(setting: Setting) -> Option<Limits> {
    match setting {
        Setting::SendBuffer => Some(("net.core.wmem_max", "net.ipv4.tcp_wmem")),
        Setting::ReceiveBuffer => Some(("net.core.rmem_max", "net.ipv4.tcp_rmem")),
        _ => None,
    }
}

/// Level and number of the option.
fn number(setting: Setting) -> (i32, i32) {
    match setting {
        Setting::NoDelay => (libc::IPPROTO_TCP, libc::TCP_NODELAY),
        Setting::QuickAck => (libc::IPPROTO_TCP, libc::TCP_QUICKACK),
        Setting::NotSentLowat => (libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT),
        Setting::SendBuffer => (libc::SOL_SOCKET, libc::SO_SNDBUF),
        Setting::ReceiveBuffer => (libc::SOL_SOCKET, libc::SO_RCVBUF),
        Setting::BusyPoll => (libc::SOL_SOCKET, libc::SO_BUSY_POLL),
        _ => (libc::SOL_SOCKET, libc::SO_PRIORITY),
    }
}
