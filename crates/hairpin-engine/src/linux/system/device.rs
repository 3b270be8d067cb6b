//! Offloads and state of a network device, by ioctl.

use std::io;
use std::mem;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// `ethtool` commands of `linux/ethtool.h` that read one value: common name, command, and the bits that mean "on".
const QUERIES: &[(&str, u32, u32)] = &[
    ("rx_checksum", 0x14, u32::MAX),
    ("tx_checksum", 0x16, u32::MAX),
    ("scatter_gather", 0x18, u32::MAX),
    ("tcp_segmentation_offload", 0x1e, u32::MAX),
    ("generic_segmentation_offload", 0x23, u32::MAX),
    ("generic_receive_offload", 0x2b, u32::MAX),
    // `ETH_FLAG_LRO` of `ETHTOOL_GFLAGS`.
    ("large_receive_offload", 0x25, 1 << 15),
];

/// `struct ethtool_value` of `linux/ethtool.h`.
#[repr(C)]
struct Value {
    command: u32,
    data: u32,
}

/// The offloads of `device`, `on` or `off`; empty if the kernel does not report them.
pub(crate) fn offloads(device: &str) -> Vec<(String, String)> {
    let Some(socket) = socket(libc::AF_INET, libc::SOCK_DGRAM, 0) else { return Vec::new() };
    QUERIES
        .iter()
        .filter_map(|(name, command, bits)| Some(((*name).to_owned(), query(&socket, device, *command, *bits)?)))
        .collect()
}

fn query(socket: &OwnedFd, device: &str, command: u32, bits: u32) -> Option<String> {
    let mut value = Value { command, data: 0 };
    let mut request = request_for(device);
    request.ifr_ifru.ifru_data = (&raw mut value).cast();
    // SAFETY: the request names a device and points to an ethtool_value that outlives the call.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCETHTOOL as _, &raw mut request) };
    (result == 0).then(|| if value.data & bits == 0 { "off" } else { "on" }.to_owned())
}

pub(super) fn request_for(device: &str) -> libc::ifreq {
    // SAFETY: ifreq is plain data, for which all zeroes is a valid value.
    let mut request: libc::ifreq = unsafe { mem::zeroed() };
    for (place, byte) in request.ifr_name.iter_mut().zip(device.bytes().take(libc::IFNAMSIZ - 1)) {
        *place = libc::c_char::from_ne_bytes([byte]);
    }
    request
}

/// Capacity for features, in 32-bit words; kernels have 2 words.
const FEATURE_WORDS: usize = 8;

/// `struct ethtool_gfeatures` of `linux/ethtool.h`.
#[repr(C)]
#[derive(Default)]
struct Features {
    command: u32,
    words: u32,
    /// Available, requested, active and unchangeable features.
    features: [[u32; 4]; FEATURE_WORDS],
}

/// `struct ethtool_sfeatures` of `linux/ethtool.h`.
#[repr(C)]
#[derive(Default)]
struct Changes {
    command: u32,
    words: u32,
    /// The mask of features to change, and their new values.
    features: [[u32; 2]; FEATURE_WORDS],
}

/// Switches off every feature of `device` that can be switched off: checksum offloads, segmentation of TCP, UDP, SCTP
/// and tunnels, receive aggregation. The device then sends and receives exactly the packets on the wire.
pub(crate) fn switch_off_offloads(device: &str) -> io::Result<()> {
    const GET: u32 = 0x3a;
    const SET: u32 = 0x3b;
    let socket = socket(libc::AF_INET, libc::SOCK_DGRAM, 0).ok_or_else(io::Error::last_os_error)?;
    let mut request = request_for(device);
    let mut has = Features { command: GET, words: FEATURE_WORDS as u32, ..Features::default() };
    request.ifr_ifru.ifru_data = (&raw mut has).cast();
    // SAFETY: the request names a device and points to features that outlive the call, with room for the stated number.
    if unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCETHTOOL as _, &raw mut request) } < 0 {
        return Err(io::Error::last_os_error());
    }
    let mut off = Changes { command: SET, words: has.words, ..Changes::default() };
    for (change, [available, _, _, never_changed]) in off.features.iter_mut().zip(has.features) {
        *change = [available & !never_changed, 0];
    }
    request.ifr_ifru.ifru_data = (&raw mut off).cast();
    // SAFETY: as above. The kernel accepts only its own number of words, and the array has room for them.
    if unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCETHTOOL as _, &raw mut request) } < 0 {
        return Err(io::Error::last_os_error());
    }
    let harmless = ["rx_checksum", "scatter_gather"];
    let on = offloads(device).into_iter().find(|(name, state)| state == "on" && !harmless.contains(&name.as_str()));
    on.map_or(Ok(()), |(name, _)| Err(io::Error::other(format!("{name} cannot be switched off"))))
}

/// Whether `device` and its peer are up, so that the device carries packets.
pub(crate) fn is_running(device: &str) -> io::Result<bool> {
    let socket = socket(libc::AF_INET, libc::SOCK_DGRAM, 0).ok_or_else(io::Error::last_os_error)?;
    let mut request = request_for(device);
    // SAFETY: the request names an interface, outlives the call, and receives the kernel's answer.
    if unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCGIFFLAGS as _, &raw mut request) } < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call succeeded, so the kernel has written this member of the union.
    let flags = i32::from(unsafe { request.ifr_ifru.ifru_flags });
    Ok(flags & libc::IFF_UP != 0 && flags & libc::IFF_RUNNING != 0)
}

pub(super) fn socket(family: i32, sort: i32, protocol: i32) -> Option<OwnedFd> {
    // SAFETY: takes three integers and returns a new descriptor or -1.
    let raw = unsafe { libc::socket(family, sort | libc::SOCK_CLOEXEC, protocol) };
    // SAFETY: a new descriptor without another owner.
    (raw >= 0).then(|| unsafe { OwnedFd::from_raw_fd(raw) })
}
