//! Interfaces and addresses by netlink (rtnetlink(7)), in the network namespace that a socket was opened in.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsRawFd, BorrowedFd};

use netlink_packet_core::{
    NLM_F_ACK, NLM_F_CREATE, NLM_F_DUMP, NLM_F_EXCL, NLM_F_REPLACE, NLM_F_REQUEST, NetlinkMessage, NetlinkPayload,
};
use netlink_packet_route::address::{AddressAttribute, AddressFlags, AddressMessage, AddressScope};
use netlink_packet_route::link::{
    AfSpecInet6, AfSpecUnspec, In6AddrGenMode, InfoData, InfoKind, InfoVeth, LinkAttribute, LinkFlags, LinkInfo,
    LinkMessage,
};
use netlink_packet_route::route::{
    RouteAttribute, RouteHeader, RouteMessage, RouteMetric, RouteProtocol, RouteScope, RouteType,
};
use netlink_packet_route::tc::{TcAttribute, TcHandle, TcMessage, TcStats2};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};

/// The loopback interface is the first of every network namespace.
pub(crate) const LOOPBACK_INDEX: u32 = 1;

/// The most datagrams that the kernel answers a question with.
const MOST_DATAGRAMS: usize = 10_000;

/// A hardware address.
pub(super) type Mac = [u8; 6];

/// One end of a pair of interfaces.
#[derive(Clone, Copy, Debug)]
pub(super) struct VethEnd<'a> {
    /// The interface's name.
    pub(super) name: &'a str,
    /// Its number in its namespace.
    pub(super) index: u32,
    /// Its hardware address.
    pub(super) mac: Mac,
    /// Its MTU.
    pub(super) mtu_bytes: u32,
    /// The namespace that it is made in; none for the socket's own.
    pub(super) namespace: Option<BorrowedFd<'a>>,
}

/// A socket to the kernel.
pub(crate) struct Netlink {
    socket: Socket,
    sequence: u32,
}

impl Netlink {
    /// Opens one in the calling thread's network namespace.
    pub(crate) fn open() -> io::Result<Self> {
        let socket = Socket::new(NETLINK_ROUTE)?;
        socket.connect(&SocketAddr::new(0, 0))?;
        Ok(Self { socket, sequence: 0 })
    }

    /// Makes a pair of interfaces, down.
    pub(super) fn add_pair(&mut self, near: VethEnd<'_>, far: VethEnd<'_>) -> io::Result<()> {
        let peer = end(far);
        let mut message = end(near);
        message.attributes.push(LinkAttribute::LinkInfo(vec![
            LinkInfo::Kind(InfoKind::Veth),
            LinkInfo::Data(InfoData::Veth(InfoVeth::Peer(peer))),
        ]));
        self.ask(RouteNetlinkMessage::NewLink(message), NLM_F_CREATE | NLM_F_EXCL)
    }

    /// Has the kernel give an interface no IPv6 address of its own accord, and so no announcement of one.
    pub(super) fn no_own_ipv6_address(&mut self, index: u32) -> io::Result<()> {
        let mut message = LinkMessage::default();
        message.header.index = index;
        message.attributes.push(LinkAttribute::AfSpecUnspec(vec![AfSpecUnspec::Inet6(vec![
            AfSpecInet6::AddrGenMode(In6AddrGenMode::None),
        ])]));
        self.ask(RouteNetlinkMessage::SetLink(message), 0)
    }

    /// Sets an interface up.
    pub(super) fn set_up(&mut self, index: u32) -> io::Result<()> {
        self.set_flags(index, LinkFlags::Up)
    }

    /// Sets an interface up that asks nobody for addresses and tells nobody its own (`IFF_NOARP`).
    pub(super) fn set_up_silent(&mut self, index: u32) -> io::Result<()> {
        self.set_flags(index, LinkFlags::Up | LinkFlags::Noarp)
    }

    fn set_flags(&mut self, index: u32, flags: LinkFlags) -> io::Result<()> {
        let mut message = LinkMessage::default();
        message.header.index = index;
        message.header.flags = flags;
        message.header.change_mask = flags;
        self.ask(RouteNetlinkMessage::SetLink(message), 0)
    }

    /// Gives an interface an address, at once: no other host is asked whether it has it.
    pub(super) fn add_address(&mut self, index: u32, address: IpAddr, prefix_bits: u8) -> io::Result<()> {
        let mut message = AddressMessage::default();
        message.header.family = family(address);
        message.header.prefix_len = prefix_bits;
        message.header.scope = AddressScope::Universe;
        message.header.index = index;
        message.attributes = vec![
            AddressAttribute::Local(address),
            AddressAttribute::Address(address),
            AddressAttribute::Flags(AddressFlags::Nodad),
        ];
        self.ask(RouteNetlinkMessage::NewAddress(message), NLM_F_CREATE | NLM_F_EXCL)
    }

    /// Has TCP use that congestion control over the route that came with an address.
    pub(super) fn set_congestion_control(
        &mut self,
        index: u32,
        address: IpAddr,
        prefix_bits: u8,
        name: &str,
    ) -> io::Result<()> {
        /// The metric of routes that the kernel makes for IPv6 addresses (`IP6_RT_PRIO_ADDRCONF`).
        const IPV6_METRIC: u32 = 256;
        let mut message = RouteMessage::default();
        message.header.address_family = family(address);
        message.header.destination_prefix_length = prefix_bits;
        message.header.table = RouteHeader::RT_TABLE_MAIN;
        message.header.protocol = RouteProtocol::Kernel;
        message.header.scope = if address.is_ipv4() { RouteScope::Link } else { RouteScope::Universe };
        message.header.kind = RouteType::Unicast;
        message.attributes =
            vec![RouteAttribute::Oif(index), RouteAttribute::Metrics(vec![RouteMetric::CcAlgo(name.to_owned())])];
        message.attributes.extend(match address {
            IpAddr::V4(v4) => {
                let network = Ipv4Addr::from_bits(v4.to_bits() & !(u32::MAX >> prefix_bits));
                vec![RouteAttribute::Destination(network.into()), RouteAttribute::PrefSource(v4.into())]
            }
            IpAddr::V6(v6) => {
                let network = Ipv6Addr::from_bits(v6.to_bits() & !(u128::MAX >> prefix_bits));
                vec![RouteAttribute::Destination(network.into()), RouteAttribute::Priority(IPV6_METRIC)]
            }
        });
        self.ask(RouteNetlinkMessage::NewRoute(message), NLM_F_REPLACE)
    }

    /// The packets that queue disciplines have dropped: of that interface, or of all. A discipline counts what those below it
    /// drop, so the root of each interface counts.
    pub(crate) fn qdisc_drops(&mut self, interface: Option<u32>) -> io::Result<u64> {
        self.send(RouteNetlinkMessage::GetQueueDiscipline(TcMessage::default()), NLM_F_DUMP)?;
        let mut drops = 0;
        // The kernel ends a dump after as many datagrams as there are interfaces at the most.
        for _ in 0..MOST_DATAGRAMS {
            let (datagram, _) = self.socket.recv_from_full()?;
            let mut rest = datagram.as_slice();
            while !rest.is_empty() {
                let message = NetlinkMessage::<RouteNetlinkMessage>::deserialize(rest).map_err(io::Error::other)?;
                match &message.payload {
                    NetlinkPayload::Done(_) => return Ok(drops),
                    NetlinkPayload::Error(error) => return Err(error.to_io()),
                    NetlinkPayload::InnerMessage(RouteNetlinkMessage::NewQueueDiscipline(qdisc))
                        if is_root_of(qdisc, interface) =>
                    {
                        drops += dropped(qdisc);
                    }
                    _ => {}
                }
                let length = usize::try_from(message.header.length).unwrap_or(usize::MAX);
                rest = rest.get(length.next_multiple_of(4).max(4)..).unwrap_or_default();
            }
        }
        Err(io::Error::other("the kernel's list of queue disciplines does not end"))
    }

    fn ask(&mut self, request: RouteNetlinkMessage, flags: u16) -> io::Result<()> {
        self.send(request, NLM_F_ACK | flags)?;
        let (answer, _) = self.socket.recv_from_full()?;
        let answer = NetlinkMessage::<RouteNetlinkMessage>::deserialize(&answer).map_err(io::Error::other)?;
        match answer.payload {
            NetlinkPayload::Error(answer) if answer.code.is_none() => Ok(()),
            NetlinkPayload::Error(answer) => Err(answer.to_io()),
            other => Err(io::Error::other(format!("the kernel answered {other:?}"))),
        }
    }

    fn send(&mut self, request: RouteNetlinkMessage, flags: u16) -> io::Result<()> {
        self.sequence += 1;
        let mut message = NetlinkMessage::from(request);
        message.header.flags = NLM_F_REQUEST | flags;
        message.header.sequence_number = self.sequence;
        message.finalize();
        let mut bytes = vec![0; message.buffer_len()];
        message.serialize(&mut bytes);
        self.socket.send(&bytes, 0).map(|_| ())
    }
}

fn is_root_of(qdisc: &TcMessage, interface: Option<u32>) -> bool {
    let index = u32::try_from(qdisc.header.index).ok();
    qdisc.header.parent == TcHandle::ROOT && interface.is_none_or(|interface| index == Some(interface))
}

/// The drops of a queue discipline (`TCA_STATS2`, `TCA_STATS_QUEUE`).
fn dropped(qdisc: &TcMessage) -> u64 {
    let stats = qdisc.attributes.iter().filter_map(|attribute| match attribute {
        TcAttribute::Stats2(stats) => Some(stats),
        _ => None,
    });
    let drops = stats.flatten().find_map(|stats| match stats {
        TcStats2::Queue(queue) => Some(u64::from(queue.drops)),
        _ => None,
    });
    drops.unwrap_or(0)
}

fn end(end: VethEnd<'_>) -> LinkMessage {
    let mut message = LinkMessage::default();
    message.header.index = end.index;
    message.attributes = vec![
        LinkAttribute::IfName(end.name.to_owned()),
        LinkAttribute::Address(end.mac.to_vec()),
        LinkAttribute::Mtu(end.mtu_bytes),
    ];
    message.attributes.extend(end.namespace.map(|namespace| LinkAttribute::NetNsFd(namespace.as_raw_fd())));
    message
}

fn family(address: IpAddr) -> AddressFamily {
    if address.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 }
}
