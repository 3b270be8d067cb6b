//! Creates the network namespaces of a link and the interfaces that connect them.
//!
//! Packet number 0 of a link must be the experiment's first packet, so these interfaces send no packets by
//! themselves: no ARP (`IFF_NOARP`), no automatic IPv6 addresses, no duplicate address detection and, without
//! link-local addresses, no router solicitation.
//!
//! Without ARP the kernel uses the interface's own hardware address as the destination (`arp_constructor`,
//! net/ipv4/arp.c; `ndisc_constructor`, net/ipv6/ndisc.c). So both ends have the same hardware address, and the link
//! does not depend on a neighbour table that a program could flush.

use std::fs::File;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use hairpin_model::{DroppedAfter, Failure, FailureKind, LinkEnds};

use super::addresses::{FAR, NEAR_V4, NEAR_V6, have_ipv6};
use super::tcp::{self, By};
use crate::netlink::{Interface, LOOPBACK_INDEX, Netlink, VethEnd};
use crate::netstat;
use crate::system::{device, namespace};

// The two interfaces of a pair have different indices. With equal indices, the kernel would take a second to report
// to one interface that its peer is up (`linkwatch_urgent_event`, net/core/link_watch.c).
const NEAR_END: Interface = Interface { name: "eth0", index: 10, mac: [2, 0, 0, 0, 0, 0x10] };
const TO_NEAR: Interface = Interface { name: "near", index: 11, mac: [2, 0, 0, 0, 0, 0x11] };
const TO_FAR: Interface = Interface { name: "far", index: 21, mac: [2, 0, 0, 0, 0, 0x21] };
const FAR_END: Interface = Interface { name: "eth0", index: 20, mac: NEAR_END.mac };

/// The MTU of the relay's own interfaces: packets of any size reach the relay, which drops and counts packets larger
/// than the link's MTU.
const RELAY_MTU_BYTES: u32 = 65_535;

pub(crate) const END_INTERFACE: &str = NEAR_END.name;

pub(super) const RELAY_INTERFACES: [&str; 2] = [TO_NEAR.name, TO_FAR.name];

/// The namespaces of both ends.
#[derive(Debug)]
pub(super) struct Ends {
    pub(super) near: File,
    pub(super) far: File,
}

/// Creates both ends and a third namespace between them, with an interface towards each end. The calling thread stays
/// in the third namespace. All four interfaces are up. Also returns the TCP settings of the ends.
pub(super) fn through_relay(mtu_bytes: u32, congestion_control: &str) -> Result<(Ends, LinkEnds), Failure> {
    let ends = Ends { near: new_namespace()?, far: new_namespace()? };
    let middle = new_namespace()?;
    let mut netlink = open()?;
    for (here, there, end) in [(TO_NEAR, NEAR_END, &ends.near), (TO_FAR, FAR_END, &ends.far)] {
        let own = VethEnd { interface: here, mtu_bytes: RELAY_MTU_BYTES, namespace: None };
        let peer = VethEnd { interface: there, mtu_bytes, namespace: Some(end.as_fd()) };
        netlink.add_pair(own, peer).map_err(|error| no_pair(&error))?;
        set_up_silent(&mut netlink, here, RELAY_MTU_BYTES)?;
    }
    let ends_use = set_up_ends(&ends, mtu_bytes, congestion_control)?;
    enter(&middle)?;
    RELAY_INTERFACES.iter().try_for_each(|name| wait_for(name))?;
    Ok((ends, ends_use))
}

/// Counts the drops in the namespaces of both ends so far. Leaves the calling thread in the far end's namespace.
pub(super) fn dropped_after(ends: &Ends) -> Result<DroppedAfter, Failure> {
    let dropped = |namespace| enter(namespace).map(|()| netstat::dropped(END_INTERFACE));
    Ok(DroppedAfter { near: dropped(&ends.near)?, far: dropped(&ends.far)? })
}

fn enter(namespace: &File) -> Result<(), Failure> {
    namespace::enter_network(namespace.as_fd()).map_err(|error| failed("enter a network namespace", &error))
}

/// Sets the interfaces of both ends up, and waits until both carry packets.
fn set_up_ends(ends: &Ends, mtu_bytes: u32, congestion_control: &str) -> Result<LinkEnds, Failure> {
    enter(&ends.near)?;
    set_up_end(NEAR_END, (NEAR_V4, NEAR_V6), mtu_bytes, congestion_control)?;
    enter(&ends.far)?;
    let ends_use = set_up_end(FAR_END, (FAR.v4, FAR.v6), mtu_bytes, congestion_control)?;
    wait_for(FAR_END.name)?;
    enter(&ends.near)?;
    wait_for(NEAR_END.name)?;
    Ok(ends_use)
}

/// Creates a network namespace with its loopback interface up. Leaves the calling thread in it.
pub(super) fn new_namespace() -> Result<File, Failure> {
    namespace::new_network().map_err(|error| failed("create a network namespace", &error))?;
    let file = File::open("/proc/thread-self/ns/net").map_err(|error| failed("open a network namespace", &error))?;
    open()?.set_up(LOOPBACK_INDEX).map_err(|error| failed("bring the loopback interface up", &error))?;
    Ok(file)
}

fn open() -> Result<Netlink, Failure> {
    Netlink::open().map_err(|error| failed("open a netlink socket", &error))
}

/// Sets up the interface of one end with its addresses. Returns the end's TCP settings.
fn set_up_end(
    interface: Interface,
    (v4, v6): (Ipv4Addr, Ipv6Addr),
    mtu_bytes: u32,
    congestion_control: &str,
) -> Result<LinkEnds, Failure> {
    let by = tcp::set(congestion_control);
    let mut netlink = open()?;
    let Interface { name, index, .. } = interface;
    set_up_silent(&mut netlink, interface, mtu_bytes)?;
    let mut addresses: Vec<(IpAddr, u8)> = vec![(v4.into(), 24)];
    if have_ipv6(mtu_bytes) {
        addresses.push((v6.into(), 64));
    }
    for (address, prefix_bits) in addresses {
        netlink
            .add_address(index, address, prefix_bits)
            .map_err(|error| failed(&format!("add address {address} to interface {name}"), &error))?;
        if by == By::Route {
            netlink.set_congestion_control(index, address, prefix_bits, congestion_control).map_err(|error| {
                failed(&format!("set congestion control {congestion_control} on the route"), &error)
            })?;
        }
    }
    Ok(tcp::ends(congestion_control, by))
}

/// Sets up an interface so that it sends nothing by itself and has no hardware offloads.
fn set_up_silent(netlink: &mut Netlink, interface: Interface, mtu_bytes: u32) -> Result<(), Failure> {
    let Interface { name, index, .. } = interface;
    let failed = |operation: &str, error: io::Error| failed(&format!("{operation} interface {name}"), &error);
    device::switch_off_offloads(name).map_err(|error| failed("switch off the offloads of", error))?;
    if have_ipv6(mtu_bytes) {
        netlink.no_own_ipv6_address(index).map_err(|error| failed("disable automatic IPv6 addresses of", error))?;
    }
    netlink.set_up_silent(index).map_err(|error| failed("set up", error))
}

/// Waits until an interface carries packets: the kernel connects a pair in the background.
fn wait_for(name: &str) -> Result<(), Failure> {
    let deadline = Instant::now() + Duration::from_secs(5);
    loop {
        match device::is_running(name) {
            Ok(true) => return Ok(()),
            Ok(false) if Instant::now() < deadline => std::thread::sleep(Duration::from_micros(100)),
            Ok(false) => {
                let error = io::Error::other("it carries no packets after 5 s");
                return Err(failed(&format!("set up interface {name}"), &error));
            }
            Err(error) => return Err(failed(&format!("read the state of interface {name}"), &error)),
        }
    }
}

fn no_pair(error: &io::Error) -> Failure {
    match error.raw_os_error() {
        Some(libc::EOPNOTSUPP | libc::ENODEV) => Failure::new(
            FailureKind::Unsupported,
            format!("cannot create a pair of veth interfaces: {error}"),
            "a kernel with CONFIG_VETH is needed; as root, `modprobe veth` may load it",
        ),
        _ => failed("create a pair of veth interfaces", error),
    }
}

pub(super) fn failed(operation: &str, error: &io::Error) -> Failure {
    let hint = match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => "this needs the capabilities SYS_ADMIN, NET_ADMIN and NET_RAW",
        Some(libc::ENOSPC) => "is the limit on network namespaces reached (sysctl user.max_net_namespaces)?",
        Some(libc::EMFILE | libc::ENFILE) => "is a limit on open files (ulimit -n) reached?",
        Some(libc::ENOMEM | libc::ENOBUFS) => "is the system out of memory?",
        _ => "this is a defect of Hairpin; please report it with the kernel's version",
    };
    Failure::new(error, format!("cannot {operation}: {error}"), hint)
}
