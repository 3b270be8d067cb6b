//! A network device's offloads and state, by ioctls, and its queueing discipline, by netlink.

use std::ffi::CString;
use std::io;
use std::mem;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// `ethtool` commands of `linux/ethtool.h` that read one value, with the words users know them by, and the bits of it that say
/// whether they are on.
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

/// The offloads of `device`, `on` or `off`; empty where the kernel does not tell.
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
        *place = byte.cast_signed();
    }
    request
}

/// Words of 32 features that there is room for; kernels have 2.
const FEATURE_WORDS: usize = 8;

/// `struct ethtool_gfeatures` of `linux/ethtool.h`.
#[repr(C)]
#[derive(Default)]
struct Features {
    command: u32,
    words: u32,
    /// Available, requested, active, never changed.
    features: [[u32; 4]; FEATURE_WORDS],
}

/// `struct ethtool_sfeatures` of `linux/ethtool.h`.
#[repr(C)]
#[derive(Default)]
struct Changes {
    command: u32,
    words: u32,
    /// To be changed, and to what.
    features: [[u32; 2]; FEATURE_WORDS],
}

/// Switches every feature of `device` off that can be: checksums left to hardware, segmentation of TCP, UDP, SCTP and
/// tunnels, aggregation of what is received. What it then sends and receives are the packets of the wire, whole.
pub(crate) fn switch_off_offloads(device: &str) -> io::Result<()> {
    const GET: u32 = 0x3a;
    const SET: u32 = 0x3b;
    let socket = socket(libc::AF_INET, libc::SOCK_DGRAM, 0).ok_or_else(io::Error::last_os_error)?;
    let mut request = request_for(device);
    let mut has = Features { command: GET, words: FEATURE_WORDS as u32, ..Features::default() };
    request.ifr_ifru.ifru_data = (&raw mut has).cast();
    // SAFETY: the request names a device and points to features that outlive the call, with room for as many as told.
    if unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCETHTOOL as _, &raw mut request) } < 0 {
        return Err(io::Error::last_os_error());
    }
    let mut off = Changes { command: SET, words: has.words, ..Changes::default() };
    for (change, [available, _, _, never_changed]) in off.features.iter_mut().zip(has.features) {
        *change = [available & !never_changed, 0];
    }
    request.ifr_ifru.ifru_data = (&raw mut off).cast();
    // SAFETY: as above; the kernel refuses any number of words but its own, which is within the room.
    if unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCETHTOOL as _, &raw mut request) } < 0 {
        return Err(io::Error::last_os_error());
    }
    let harmless = ["rx_checksum", "scatter_gather"];
    let on = offloads(device).into_iter().find(|(name, state)| state == "on" && !harmless.contains(&name.as_str()));
    on.map_or(Ok(()), |(name, _)| Err(io::Error::other(format!("{name} stays on"))))
}

/// Whether `device` is up and its other end too, so that it carries packets.
pub(crate) fn is_running(device: &str) -> io::Result<bool> {
    let socket = socket(libc::AF_INET, libc::SOCK_DGRAM, 0).ok_or_else(io::Error::last_os_error)?;
    let mut request = request_for(device);
    // SAFETY: the request names an interface, outlives the call, and is where the kernel writes the answer.
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
    // SAFETY: the descriptor was just made and nobody else owns it.
    (raw >= 0).then(|| unsafe { OwnedFd::from_raw_fd(raw) })
}

/// `struct tcmsg` of `linux/rtnetlink.h`, behind its message header.
#[repr(C)]
struct QdiscRequest {
    header: libc::nlmsghdr,
    family: u8,
    padding: [u8; 3],
    device: i32,
    rest: [u32; 3],
}

const HEADER_BYTES: usize = mem::size_of::<libc::nlmsghdr>();
const REQUEST_BYTES: usize = mem::size_of::<QdiscRequest>();
/// `TCA_KIND` of `linux/rtnetlink.h`: the name of the discipline.
const KIND: u16 = 1;

/// The queueing discipline of `device`, for instance `noqueue` or `fq`; `None` where the kernel does not tell.
pub(crate) fn queueing_discipline(device: &str) -> Option<String> {
    let name = CString::new(device).ok()?;
    // SAFETY: a NUL-terminated name.
    let device = i32::try_from(unsafe { libc::if_nametoindex(name.as_ptr()) }).ok().filter(|index| *index > 0)?;
    let socket = socket(libc::AF_NETLINK, libc::SOCK_RAW, libc::NETLINK_ROUTE)?;
    let flags = u16::try_from(libc::NLM_F_REQUEST | libc::NLM_F_DUMP).ok()?;
    let nlmsg_len = u32::try_from(REQUEST_BYTES).ok()?;
    let header =
        libc::nlmsghdr { nlmsg_len, nlmsg_type: libc::RTM_GETQDISC, nlmsg_flags: flags, nlmsg_seq: 1, nlmsg_pid: 0 };
    let request = QdiscRequest { header, family: 0, padding: [0; 3], device, rest: [0; 3] };
    let mut answer = vec![0_u8; 32 * 1024];
    // SAFETY: the pointers and lengths are those of a live request and of a live, exclusively borrowed buffer. The
    // kernel answers a request on this socket before the send returns, so the receive need not wait.
    let bytes = unsafe {
        let sent = libc::send(socket.as_raw_fd(), (&raw const request).cast(), REQUEST_BYTES, 0);
        if sent < 0 {
            return None;
        }
        libc::recv(socket.as_raw_fd(), answer.as_mut_ptr().cast(), answer.len(), libc::MSG_DONTWAIT)
    };
    kind_of(answer.get(..usize::try_from(bytes).ok()?)?, device)
}

/// The first discipline of the device in a dump of netlink messages.
fn kind_of(mut messages: &[u8], device: i32) -> Option<String> {
    let word = |bytes: &[u8], at: usize| Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    loop {
        let length = usize::try_from(word(messages, 0)?).ok().filter(|length| *length >= HEADER_BYTES)?;
        let message = messages.get(..length)?;
        if word(message, HEADER_BYTES + 4) == Some(device.cast_unsigned()) {
            return attribute(message.get(REQUEST_BYTES..)?, KIND);
        }
        messages = messages.get(length.next_multiple_of(4)..)?;
    }
}

/// The text of the first attribute of that number.
fn attribute(mut attributes: &[u8], wanted: u16) -> Option<String> {
    let half = |bytes: &[u8], at: usize| Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?));
    loop {
        let length = usize::from(half(attributes, 0)?);
        if half(attributes, 2)? == wanted {
            let text = attributes.get(4..length)?;
            return Some(String::from_utf8_lossy(text).trim_end_matches('\0').to_owned());
        }
        attributes = attributes.get(length.next_multiple_of(4).max(4)..)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_device_has_a_discipline_and_no_other_name_has() {
        assert!(queueing_discipline("lo").is_some_and(|kind| !kind.is_empty()));
        assert_eq!(queueing_discipline("no-such-device"), None);
    }

    #[test]
    fn what_is_cut_short_is_no_answer() {
        let mut message = vec![0; REQUEST_BYTES];
        message[HEADER_BYTES + 4] = 1;
        message.extend([8, 0, 1, 0, b'f', b'q', 0, 0]);
        message[0] = u8::try_from(message.len()).unwrap();
        assert_eq!(kind_of(&message, 1).as_deref(), Some("fq"));
        assert_eq!(kind_of(&message, 2), None);
        for length in 0..message.len() {
            assert_eq!(kind_of(&message[..length], 1), None);
        }
    }
}
