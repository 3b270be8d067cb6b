//! Offloads and state of a network device, by ioctl.

use std::ffi::c_char;
use std::io;
use std::mem;
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr::{from_mut, null_mut};

use rustix::net::netdevice::name_to_index;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

use super::done;

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

#[repr(C)]
struct Value {
    command: u32,
    data: u32,
}

/// The offloads of `device`, `on` or `off`; empty if the kernel does not report them.
pub(crate) fn offloads(device: &str) -> Vec<(String, String)> {
    let state = |(name, command, bits): &(&str, u32, u32)| {
        let mut value = Value { command: *command, data: 0 };
        ethtool(device, &mut value).ok()?;
        Some(((*name).to_owned(), if value.data & bits == 0 { "off" } else { "on" }.to_owned()))
    };
    QUERIES.iter().filter_map(state).collect()
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
    let mut has = Features { command: GET, words: FEATURE_WORDS as u32, ..Features::default() };
    ethtool(device, &mut has)?;
    let mut off = Changes { command: SET, words: has.words, ..Changes::default() };
    for (change, [available, _, _, never_changed]) in off.features.iter_mut().zip(has.features) {
        *change = [available & !never_changed, 0];
    }
    // The kernel accepts only its own number of words, and the array has room for them.
    ethtool(device, &mut off)?;
    let harmless = ["rx_checksum", "scatter_gather"];
    let on = offloads(device).into_iter().find(|(name, state)| state == "on" && !harmless.contains(&name.as_str()));
    on.map_or(Ok(()), |(name, _)| Err(io::Error::other(format!("{name} cannot be switched off"))))
}

/// Whether `device` and its peer are up, so that the device carries packets.
pub(crate) fn is_running(device: &str) -> io::Result<bool> {
    // SAFETY: the operation takes no data, and the kernel writes this member of its answer.
    let flags = i32::from(unsafe { ask(device, libc::SIOCGIFFLAGS, null_mut())?.ifru_flags });
    Ok(flags & libc::IFF_UP != 0 && flags & libc::IFF_RUNNING != 0)
}

pub(crate) fn index(device: &str) -> io::Result<u32> {
    Ok(name_to_index(socket()?, device)?)
}

/// Calls `SIOCETHTOOL` with a structure of `linux/ethtool.h` whose first field is the command.
pub(super) fn ethtool<T>(device: &str, about: &mut T) -> io::Result<()> {
    // SAFETY: the structure outlives the call and has room for the answer to its command.
    unsafe { ask(device, libc::SIOCETHTOOL, from_mut(about).cast()) }.map(drop)
}

/// Makes an ioctl about a device (netdevice(7)). Returns the kernel's answer.
///
/// # Safety
/// `data` points to what the operation reads and writes, or is null for an operation without data.
pub(super) unsafe fn ask(
    device: &str,
    operation: libc::c_ulong,
    data: *mut c_char,
) -> io::Result<libc::__c_anonymous_ifr_ifru> {
    // SAFETY: ifreq is plain data, for which all zeroes is a valid value.
    let mut request: libc::ifreq = unsafe { mem::zeroed() };
    for (place, byte) in request.ifr_name.iter_mut().zip(device.bytes().take(libc::IFNAMSIZ - 1)) {
        *place = c_char::from_ne_bytes([byte]);
    }
    request.ifr_ifru.ifru_data = data;
    // SAFETY: the request names a device and outlives the call; the caller guarantees that its data are valid.
    done(unsafe { libc::ioctl(socket()?.as_raw_fd(), operation as _, &raw mut request) })?;
    Ok(request.ifr_ifru)
}

/// A socket for an ioctl about a device, which works on any socket (netdevice(7)).
fn socket() -> io::Result<OwnedFd> {
    Ok(socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?)
}
