//! Tests that need their own machine, long times or rare programs; `cargo xtask ci` runs them.
//!
//! Two hosts with nothing shared ([`Lab`]): each has its own network, mount, host name and IPC namespace, its own
//! user if root runs the tests, and sees no file of the other host. A router between both may translate addresses,
//! filter, and fail.
//!
//! A sleeping process keeps the namespaces of a host alive. The kernel kills each process here with the thread that
//! started it, so nothing is left however a test ends.

#![expect(clippy::print_stderr, reason = "what a failed or long test saw")]

#[macro_use]
extern crate hairpin_testing;

mod addresses;
mod budget;
mod control;
mod crowds;
mod decrypted;
mod faults;
mod feedback;
mod firewall;
mod host;
mod hostile_folders;
mod interop;
mod kills;
mod nat;
mod over_ssh;
mod paths;
mod programs;
mod scripting;
#[path = "../support/mod.rs"]
mod support;

use std::sync::Arc;

use hairpin_testing::{program, works};

pub(crate) use self::host::{Host, Served};
use crate::support::Place;

/// Programs that create and connect hosts.
const PROGRAMS: [&str; 5] = ["ip", "nft", "unshare", "nsenter", "setpriv"];

#[derive(Clone, Copy, Debug)]
pub(crate) struct Addresses {
    pub(crate) v4: &'static str,
    pub(crate) v6: &'static str,
}

/// Default port of a server.
pub(crate) const PORT: u16 = 7420;

/// Addresses of the client, from the ranges for documentation (RFC 5737, RFC 3849).
pub(crate) const CLIENT: Addresses = Addresses { v4: "192.0.2.2", v6: "2001:db8:1::2" };
/// Addresses of the server if a cable connects it to the client.
const BESIDE: Addresses = Addresses { v4: "192.0.2.3", v6: "2001:db8:1::3" };
const BEHIND: Addresses = Addresses { v4: "198.51.100.2", v6: "2001:db8:2::2" };
/// Addresses of the router, on the client's side and on the server's side.
pub(crate) const ROUTER: [Addresses; 2] =
    [Addresses { v4: "192.0.2.1", v6: "2001:db8:1::1" }, Addresses { v4: "198.51.100.1", v6: "2001:db8:2::1" }];

/// One cable between both hosts. Words in capitals are replaced by the ids of the processes that hold the namespaces.
const CABLE: &str = "ip link add eth0 netns CLIENT type veth peer name eth0 netns SERVER";

/// A cable from each host to the router, each in its own network.
const TWO_CABLES: &str = "
    ip link add toclient type veth peer name eth0 netns CLIENT
    ip link add toserver type veth peer name eth0 netns SERVER
    echo 1 > /proc/sys/net/ipv4/ip_forward
    echo 1 > /proc/sys/net/ipv6/conf/all/forwarding";

/// Two hosts. Dropping this ends both hosts, and fails if a process or temporary file is left on them.
pub(crate) struct Lab {
    pub(crate) client: Host,
    pub(crate) server: Host,
    /// The router between both hosts, with [`Lab::routed`].
    pub(crate) router: Host,
}

impl Lab {
    /// Two hosts with a cable between them. The error says why they cannot be created here.
    pub(crate) fn direct() -> Result<Self, String> {
        let lab = Self::new(CABLE, BESIDE)?;
        lab.client.join("eth0", CLIENT, None);
        lab.server.join("eth0", BESIDE, None);
        Ok(lab)
    }

    /// Two hosts in two networks, with a router between them that forwards everything.
    pub(crate) fn routed() -> Result<Self, String> {
        let lab = Self::new(TWO_CABLES, BEHIND)?;
        lab.router.join("toclient", ROUTER[0], None);
        lab.router.join("toserver", ROUTER[1], None);
        lab.client.join("eth0", CLIENT, Some(ROUTER[0]));
        lab.server.join("eth0", BEHIND, Some(ROUTER[1]));
        Ok(lab)
    }

    fn new(wiring: &str, server: Addresses) -> Result<Self, String> {
        PROGRAMS.into_iter().try_for_each(|name| program(name).map(drop))?;
        works(&[&host::first_namespaces()[..], &["true"]].concat())?;
        let place = Arc::new(Place::new());
        let router = Host::first(&place, ROUTER[1]);
        let client = Host::beside(&router, ("client", 1), CLIENT);
        let server = Host::beside(&router, ("server", 2), server);
        let wiring = wiring.replace("CLIENT", &client.id().to_string()).replace("SERVER", &server.id().to_string());
        router.as_root(&wiring);
        Ok(Self { client, server, router })
    }

    /// Replaces the router's rules, in the syntax of nft(8).
    pub(crate) fn rules(&self, rules: &str) {
        self.router.as_root(&format!("nft -f - <<'END'\nflush ruleset\n{rules}\nEND"));
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.client.assert_nothing_left();
            self.server.assert_nothing_left();
        }
    }
}

fn main() -> std::process::ExitCode {
    hairpin_testing::run_tests()
}
