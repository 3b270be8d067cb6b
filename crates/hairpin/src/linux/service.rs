//! The service manager that started this program.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// Tells systemd about the state of the service (sd_notify(3)).
pub(crate) fn notify(state: &str) {
    let Some(path) = std::env::var_os("NOTIFY_SOCKET") else { return };
    let path = path.to_string_lossy();
    let address = match path.strip_prefix('@') {
        Some(name) => SocketAddr::from_abstract_name(name),
        None => SocketAddr::from_pathname(&*path),
    };
    // Without an answer, systemd reports that the service did not start in time.
    drop(address.and_then(|to| UnixDatagram::unbound()?.send_to_addr(state.as_bytes(), &to)));
}
