//! Manages interfaces, addresses and queueing disciplines over netlink (rtnetlink(7)), in the network namespace in
//! which the socket was opened.
//!
//! A request is a type-specific header (`struct ifinfomsg`, `ifaddrmsg`, `rtmsg` or `tcmsg`) followed by attributes, as
//! in the kernel's `include/uapi/linux/rtnetlink.h`.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use rustix::net::netdevice::index_to_name;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{
    AddressFamily, Protocol, RecvFlags, SendFlags, SocketFlags, SocketType, connect, recv, send, socket_with,
};

/// The loopback interface has index 1 in every network namespace.
pub(crate) const LOOPBACK_INDEX: u32 = 1;

/// Maximum number of datagrams in one answer of the kernel.
const MAX_DATAGRAMS: usize = 10_000;
/// Larger than any datagram that the kernel sends (`NLMSG_GOODSIZE`, and 32 KiB for dumps).
const MAX_DATAGRAM_BYTES: usize = 64 * 1024;

const HEADER_BYTES: usize = size_of::<libc::nlmsghdr>();
const IFADDRMSG_BYTES: usize = 8;
const TCMSG_BYTES: usize = 20;

// Constants that libc lacks: include/uapi/linux/{veth,if_link,gen_stats}.h.
const VETH_INFO_PEER: u16 = 1;
const IFLA_INET6_ADDR_GEN_MODE: u16 = 8;
const IN6_ADDR_GEN_MODE_NONE: u8 = 1;
const RTAX_CC_ALGO: u16 = 16;
const TCA_STATS2: u16 = 7;
const TCA_STATS_QUEUE: u16 = 3;
const TC_H_ROOT: u32 = u32::MAX;

/// An interface: its name, its index in its namespace and its hardware address.
#[derive(Clone, Copy, Debug)]
pub(super) struct Interface {
    pub(super) name: &'static str,
    pub(super) index: u32,
    pub(super) mac: [u8; 6],
}

#[derive(Clone, Copy, Debug)]
pub(super) struct VethEnd<'a> {
    pub(super) interface: Interface,
    pub(super) mtu_bytes: u32,
    /// The namespace in which to create the interface; `None` for the socket's own.
    pub(super) namespace: Option<BorrowedFd<'a>>,
}

pub(crate) struct Netlink {
    socket: OwnedFd,
    sequence: u32,
    received: Vec<u8>,
}

impl Netlink {
    /// Opens a socket in the calling thread's network namespace.
    pub(crate) fn open() -> io::Result<Self> {
        Self::open_of(None)
    }

    /// Like [`Self::open`], for another family of messages than rtnetlink's.
    pub(super) fn open_of(protocol: Option<Protocol>) -> io::Result<Self> {
        let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, protocol)?;
        connect(&socket, &SocketAddrNetlink::new(0, 0))?;
        Ok(Self { socket, sequence: 0, received: vec![0; MAX_DATAGRAM_BYTES] })
    }

    /// Creates a pair of interfaces. Both are down.
    pub(super) fn add_pair(&mut self, near: VethEnd<'_>, far: VethEnd<'_>) -> io::Result<()> {
        let mut request = Request::link(libc::RTM_NEWLINK, near.interface.index, 0);
        request.veth_end(near);
        request.nested(libc::IFLA_LINKINFO, |info| {
            info.attribute(libc::IFLA_INFO_KIND, b"veth");
            info.nested(libc::IFLA_INFO_DATA, |data| {
                data.nested(VETH_INFO_PEER, |peer| {
                    peer.ifinfomsg(far.interface.index, 0);
                    peer.veth_end(far);
                });
            });
        });
        self.ask(request, libc::NLM_F_CREATE | libc::NLM_F_EXCL)
    }

    /// Stops the kernel from assigning an IPv6 address to an interface and announcing it.
    pub(super) fn no_own_ipv6_address(&mut self, index: u32) -> io::Result<()> {
        let mut request = Request::link(libc::RTM_SETLINK, index, 0);
        request.nested(libc::IFLA_AF_SPEC, |families| {
            families.nested(family_number(libc::AF_INET6).into(), |inet6| {
                inet6.attribute(IFLA_INET6_ADDR_GEN_MODE, &[IN6_ADDR_GEN_MODE_NONE]);
            });
        });
        self.ask(request, 0)
    }

    pub(super) fn set_up(&mut self, index: u32) -> io::Result<()> {
        self.ask(Request::link(libc::RTM_SETLINK, index, libc::IFF_UP), 0)
    }

    /// Sets an interface up without ARP (`IFF_NOARP`).
    pub(super) fn set_up_silent(&mut self, index: u32) -> io::Result<()> {
        self.ask(Request::link(libc::RTM_SETLINK, index, libc::IFF_UP | libc::IFF_NOARP), 0)
    }

    /// Adds an address to an interface, without duplicate address detection.
    pub(super) fn add_address(&mut self, index: u32, address: IpAddr, prefix_bits: u8) -> io::Result<()> {
        let mut request = Request::new(libc::RTM_NEWADDR);
        request.bytes.extend([family(address), prefix_bits, 0, libc::RT_SCOPE_UNIVERSE]);
        request.word(index);
        request.address(libc::IFA_LOCAL, address);
        request.address(libc::IFA_ADDRESS, address);
        request.attribute(libc::IFA_FLAGS, &libc::IFA_F_NODAD.to_ne_bytes());
        self.ask(request, libc::NLM_F_CREATE | libc::NLM_F_EXCL)
    }

    pub(super) fn set_congestion_control(
        &mut self,
        index: u32,
        address: IpAddr,
        prefix_bits: u8,
        name: &str,
    ) -> io::Result<()> {
        /// The metric of the kernel's routes for IPv6 addresses (`IP6_RT_PRIO_ADDRCONF`).
        const IPV6_METRIC: u32 = 256;
        let scope = if address.is_ipv4() { libc::RT_SCOPE_LINK } else { libc::RT_SCOPE_UNIVERSE };
        let mut request = Request::new(libc::RTM_NEWROUTE);
        request.bytes.extend([family(address), prefix_bits, 0, 0]);
        request.bytes.extend([libc::RT_TABLE_MAIN, libc::RTPROT_KERNEL, scope, libc::RTN_UNICAST]);
        request.word(0);
        request.attribute(libc::RTA_OIF, &index.to_ne_bytes());
        request.nested(libc::RTA_METRICS, |metrics| metrics.text(RTAX_CC_ALGO, name));
        match address {
            IpAddr::V4(v4) => {
                let network = Ipv4Addr::from_bits(v4.to_bits() & !(u32::MAX >> prefix_bits));
                request.address(libc::RTA_DST, network.into());
                request.address(libc::RTA_PREFSRC, address);
            }
            IpAddr::V6(v6) => {
                let network = Ipv6Addr::from_bits(v6.to_bits() & !(u128::MAX >> prefix_bits));
                request.address(libc::RTA_DST, network.into());
                request.attribute(libc::RTA_PRIORITY, &IPV6_METRIC.to_ne_bytes());
            }
        }
        self.ask(request, libc::NLM_F_REPLACE)
    }

    /// Packets dropped by the queueing disciplines of `interface`, or of all interfaces. Reads the counter of the root
    /// discipline, which includes its children.
    pub(crate) fn qdisc_drops(&mut self, interface: Option<u32>) -> io::Result<u64> {
        let mut drops = 0;
        self.each_qdisc(|index, parent, attributes| {
            if parent == TC_H_ROOT && interface.is_none_or(|interface| interface == index) {
                let queue = find(attributes, TCA_STATS2).and_then(|stats| find(stats, TCA_STATS_QUEUE));
                // `struct gnet_stats_queue`: length, backlog, drops, ...
                drops += u64::from(queue.and_then(|queue| word(queue, 8)).unwrap_or(0));
            }
        })?;
        Ok(drops)
    }

    /// The name of an interface's first queueing discipline, such as `noqueue` or `fq`.
    pub(crate) fn qdisc_kind(&mut self, interface: u32) -> io::Result<Option<String>> {
        let mut kind = None;
        self.each_qdisc(|index, _, attributes| {
            if index == interface && kind.is_none() {
                kind = text(attributes, libc::TCA_KIND);
            }
        })?;
        Ok(kind)
    }

    /// The name of the interface with this address.
    pub(crate) fn interface_with(&mut self, address: IpAddr) -> io::Result<Option<String>> {
        let mut request = Request::new(libc::RTM_GETADDR);
        request.bytes.extend([0; IFADDRMSG_BYTES]);
        let mut found = None;
        self.each(request, libc::RTM_NEWADDR, |body| {
            let attributes = body.get(IFADDRMSG_BYTES..).unwrap_or_default();
            let own = find(attributes, libc::IFA_LOCAL).or_else(|| find(attributes, libc::IFA_ADDRESS));
            if found.is_none() && own == Some(octets(address).as_slice()) {
                // Only IPv4 addresses have a label.
                found = word(body, 4).map(|index| (text(attributes, libc::IFA_LABEL), index));
            }
        })?;
        Ok(found.and_then(|(label, index)| label.or_else(|| index_to_name(&self.socket, index).ok())))
    }

    /// Calls `of` with the interface, parent and attributes of each queueing discipline.
    fn each_qdisc(&mut self, mut of: impl FnMut(u32, u32, &[u8])) -> io::Result<()> {
        let mut request = Request::new(libc::RTM_GETQDISC);
        request.bytes.extend([0; TCMSG_BYTES]);
        self.each(request, libc::RTM_NEWQDISC, |body| {
            if let (Some(index), Some(parent)) = (word(body, 4), word(body, 12)) {
                of(index, parent, body.get(TCMSG_BYTES..).unwrap_or_default());
            }
        })
    }

    /// Calls `of` with the body of each message of this kind in the kernel's answer.
    pub(super) fn each(&mut self, request: Request, kind: u16, mut of: impl FnMut(&[u8])) -> io::Result<()> {
        self.send(request, libc::NLM_F_DUMP)?;
        for _ in 0..MAX_DATAGRAMS {
            let datagram = self.receive()?;
            for message in messages(datagram) {
                match message.kind {
                    found if found == kind => of(message.body),
                    DONE => return Ok(()),
                    _ => message.acknowledged()?,
                }
            }
        }
        Err(io::Error::other("the kernel's list does not end"))
    }

    /// Calls `of` with the body of the one message that answers the request.
    pub(super) fn one<T>(
        &mut self,
        request: Request,
        kind: u16,
        of: impl FnOnce(&[u8]) -> Option<T>,
    ) -> io::Result<T> {
        self.send(request, 0)?;
        let datagram = self.receive()?;
        let answer = messages(datagram).next().ok_or_else(|| io::Error::other("the kernel's answer is too short"))?;
        if answer.kind != kind {
            answer.acknowledged()?;
        }
        of(answer.body).ok_or_else(|| io::Error::other("the kernel's answer is too short"))
    }

    fn ask(&mut self, request: Request, flags: i32) -> io::Result<()> {
        self.send(request, libc::NLM_F_ACK | flags)?;
        let datagram = self.receive()?;
        let answer = messages(datagram).next();
        answer
            .map_or_else(|| Err(io::Error::other("the kernel's answer is too short")), |answer| answer.acknowledged())
    }

    fn send(&mut self, mut request: Request, flags: i32) -> io::Result<()> {
        self.sequence += 1;
        request.finish(self.sequence, libc::NLM_F_REQUEST | flags);
        send(&self.socket, &request.bytes, SendFlags::empty())?;
        Ok(())
    }

    fn receive(&mut self) -> io::Result<&[u8]> {
        let (_, bytes) = recv(&self.socket, self.received.as_mut_slice(), RecvFlags::TRUNC)?;
        self.received.get(..bytes).ok_or_else(|| io::Error::other("the kernel's answer is too long"))
    }
}

/// A request being built.
pub(super) struct Request {
    pub(super) bytes: Vec<u8>,
}

impl Request {
    pub(super) fn new(kind: u16) -> Self {
        let mut bytes = vec![0; HEADER_BYTES];
        bytes[4..6].copy_from_slice(&kind.to_ne_bytes());
        Self { bytes }
    }

    /// A request that sets `flags` of an interface.
    fn link(kind: u16, index: u32, flags: i32) -> Self {
        let mut request = Self::new(kind);
        request.ifinfomsg(index, flags);
        request
    }

    /// `struct ifinfomsg`.
    fn ifinfomsg(&mut self, index: u32, flags: i32) {
        self.bytes.extend([0; 4]);
        self.word(index);
        self.bytes.extend(flags.to_ne_bytes());
        self.bytes.extend(flags.to_ne_bytes());
    }

    fn veth_end(&mut self, end: VethEnd<'_>) {
        self.text(libc::IFLA_IFNAME, end.interface.name);
        self.attribute(libc::IFLA_ADDRESS, &end.interface.mac);
        self.attribute(libc::IFLA_MTU, &end.mtu_bytes.to_ne_bytes());
        if let Some(namespace) = end.namespace {
            self.attribute(libc::IFLA_NET_NS_FD, &namespace.as_raw_fd().to_ne_bytes());
        }
    }

    fn word(&mut self, word: u32) {
        self.bytes.extend(word.to_ne_bytes());
    }

    fn address(&mut self, kind: u16, address: IpAddr) {
        self.attribute(kind, &octets(address));
    }

    fn text(&mut self, kind: u16, text: &str) {
        self.attribute(kind, &[text.as_bytes(), b"\0"].concat());
    }

    fn attribute(&mut self, kind: u16, value: &[u8]) {
        self.nested(kind, |attribute| attribute.bytes.extend(value));
    }

    /// Appends a `struct rtattr` whose content `write` adds, padded to 4 bytes.
    fn nested(&mut self, kind: u16, write: impl FnOnce(&mut Self)) {
        let begin = self.bytes.len();
        self.bytes.extend([0, 0]);
        self.bytes.extend(kind.to_ne_bytes());
        write(self);
        let length = u16::try_from(self.bytes.len() - begin).expect("requests have a few hundred bytes");
        self.bytes[begin..begin + 2].copy_from_slice(&length.to_ne_bytes());
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }

    fn finish(&mut self, sequence: u32, flags: i32) {
        let length = u32::try_from(self.bytes.len()).expect("requests have a few hundred bytes");
        self.bytes[..4].copy_from_slice(&length.to_ne_bytes());
        let flags = u16::try_from(flags).expect("the flags have 16 bits");
        self.bytes[6..8].copy_from_slice(&flags.to_ne_bytes());
        self.bytes[8..12].copy_from_slice(&sequence.to_ne_bytes());
    }
}

#[expect(clippy::cast_possible_truncation, reason = "message types have 16 bits")]
const DONE: u16 = libc::NLMSG_DONE as u16;
#[expect(clippy::cast_possible_truncation, reason = "message types have 16 bits")]
const ERROR: u16 = libc::NLMSG_ERROR as u16;

struct Message<'a> {
    kind: u16,
    body: &'a [u8],
}

impl Message<'_> {
    /// Fails if the kernel did not carry out the request.
    fn acknowledged(&self) -> io::Result<()> {
        match word(self.body, 0).filter(|_| self.kind == ERROR).map(u32::cast_signed) {
            Some(0) => Ok(()),
            Some(error) => Err(io::Error::from_raw_os_error(error.wrapping_neg())),
            None => Err(io::Error::other(format!("the kernel answered with a message of type {}", self.kind))),
        }
    }
}

/// The messages of a datagram, up to the first truncated message.
fn messages(mut rest: &[u8]) -> impl Iterator<Item = Message<'_>> {
    std::iter::from_fn(move || {
        let length = usize::try_from(word(rest, 0)?).ok()?;
        let message = Message { kind: half(rest, 4)?, body: rest.get(HEADER_BYTES..length)? };
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some(message)
    })
}

/// The value of the first attribute of kind `wanted`.
pub(super) fn find(mut attributes: &[u8], wanted: u16) -> Option<&[u8]> {
    loop {
        let length = usize::from(half(attributes, 0)?);
        let value = attributes.get(4..length)?;
        if half(attributes, 2)? == wanted {
            return Some(value);
        }
        attributes = attributes.get(length.next_multiple_of(4)..)?;
    }
}

/// The text of the first attribute of kind `wanted`.
fn text(attributes: &[u8], wanted: u16) -> Option<String> {
    find(attributes, wanted).map(|text| String::from_utf8_lossy(text).trim_end_matches('\0').to_owned())
}

pub(super) fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn half(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(v4) => v4.octets().to_vec(),
        IpAddr::V6(v6) => v6.octets().to_vec(),
    }
}

fn family_number(family: i32) -> u8 {
    u8::try_from(family).expect("IP's families are 2 and 10")
}

fn family(address: IpAddr) -> u8 {
    family_number(if address.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_interface_has_no_queueing_discipline() {
        let mut netlink = Netlink::open().unwrap();
        assert!(netlink.qdisc_kind(LOOPBACK_INDEX).unwrap().is_some_and(|kind| !kind.is_empty()));
        assert_eq!(netlink.qdisc_kind(u32::MAX).unwrap(), None);
    }

    #[test]
    fn a_refused_request_has_the_errno_of_the_kernel() {
        let refused = Netlink::open().unwrap().set_up(1 << 30).unwrap_err();
        assert!(matches!(refused.raw_os_error(), Some(libc::EPERM | libc::ENODEV)), "{refused:?}");
    }

    #[test]
    fn a_truncated_datagram_has_fewer_messages_and_no_attributes() {
        let mut request = Request::new(libc::RTM_NEWQDISC);
        request.bytes.extend([0; TCMSG_BYTES]);
        request.text(libc::TCA_KIND, "fq");
        request.finish(1, 0);
        let kind = |datagram: &[u8]| {
            let message = messages(datagram).next()?;
            find(message.body.get(TCMSG_BYTES..)?, libc::TCA_KIND).map(<[u8]>::to_vec)
        };
        assert_eq!(kind(&request.bytes).as_deref(), Some(&b"fq\0"[..]));
        for length in 0..request.bytes.len() {
            assert_eq!(kind(&request.bytes[..length]), None, "{length}");
        }
        let twice = request.bytes.repeat(2);
        assert_eq!((messages(&twice).count(), messages(&twice[..twice.len() - 1]).count()), (2, 1));
        assert!(messages(&[0; 16]).next().is_none(), "a length of 0 ends the datagram");
    }
}
