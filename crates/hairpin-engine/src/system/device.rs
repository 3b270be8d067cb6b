//! A network device's offloads, by the ethtool ioctls.

use std::mem;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// `ethtool` commands of `linux/ethtool.h` that read one on/off value, with the words users know them by.
const QUERIES: &[(&str, u32)] = &[
    ("rx_checksum", 0x14),
    ("tx_checksum", 0x16),
    ("scatter_gather", 0x18),
    ("tcp_segmentation_offload", 0x1e),
    ("generic_segmentation_offload", 0x23),
    ("generic_receive_offload", 0x2b),
];

/// `struct ethtool_value` of `linux/ethtool.h`.
#[repr(C)]
struct Value {
    command: u32,
    data: u32,
}

/// The offloads of `device`, `on` or `off`; empty where the kernel does not tell.
pub(crate) fn offloads(device: &str) -> Vec<(String, String)> {
    // SAFETY: takes three integers and returns a new descriptor or -1.
    let raw = unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) };
    if raw < 0 {
        return Vec::new();
    }
    // SAFETY: the descriptor was just made and nobody else owns it.
    let socket = unsafe { OwnedFd::from_raw_fd(raw) };
    QUERIES
        .iter()
        .filter_map(|(name, command)| Some(((*name).to_owned(), query(&socket, device, *command)?)))
        .collect()
}

fn query(socket: &OwnedFd, device: &str, command: u32) -> Option<String> {
    let mut value = Value { command, data: 0 };
    // SAFETY: ifreq is plain data, for which all zeroes is a valid value.
    let mut request: libc::ifreq = unsafe { mem::zeroed() };
    for (place, byte) in request.ifr_name.iter_mut().zip(device.bytes().take(libc::IFNAMSIZ - 1)) {
        *place = byte.cast_signed();
    }
    request.ifr_ifru.ifru_data = (&raw mut value).cast();
    // SAFETY: the request names a device and points to an ethtool_value that outlives the call.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCETHTOOL as _, &raw mut request) };
    (result == 0).then(|| if value.data == 0 { "off" } else { "on" }.to_owned())
}
