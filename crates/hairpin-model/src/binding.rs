//! Source address and ports of a client.

use std::net::IpAddr;
use std::num::NonZeroU32;

use serde::{Deserialize, Serialize};

use crate::refused::Refused;

/// Local address, interface and ports of a client's sockets. The kernel chooses those that are `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Binding {
    pub address: Option<IpAddr>,
    /// Index of the interface (netdevice(7)).
    pub interface: Option<NonZeroU32>,
    /// First and last port.
    pub ports: Option<[u16; 2]>,
}

impl Binding {
    /// Parses `192.0.2.7`, `eth0`, `:40000-40999`, `eth0:40000-40999` or `[2001:db8::7]:40000-40999`; `index_of`
    /// finds interfaces.
    ///
    /// # Errors Any other form, an unknown interface, port 0, or a last port below the first.
    pub fn parse(text: &str, index_of: impl Fn(&str) -> Option<NonZeroU32>) -> Result<Self, Refused> {
        if text.to_ascii_lowercase().trim_start_matches('[').starts_with("fe80:") {
            return Err(Refused::new(
                "a link-local address needs its interface",
                "give the interface, for instance eth0",
            ));
        }
        if let Ok(address) = text.parse() {
            return Ok(Self { address: Some(address), ..Self::default() });
        }
        let (place, ports) = match text.rsplit_once(':') {
            Some((place, ports)) => (place, Some(parse_ports(ports)?)),
            None => (text, None),
        };
        let bare = place.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(place);
        if let Ok(address) = bare.parse() {
            return Ok(Self { address: Some(address), interface: None, ports });
        }
        if place.is_empty() && ports.is_some() {
            return Ok(Self { ports, ..Self::default() });
        }
        let interface = index_of(place).ok_or_else(|| {
            let what = format!("`{place}` is not a valid address or an interface of this host");
            Refused::new(what, "for instance 192.0.2.7, eth0, :40000-40999 or eth0:40000-40999")
        })?;
        Ok(Self { address: None, interface: Some(interface), ports })
    }
}

fn parse_ports(text: &str) -> Result<[u16; 2], Refused> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let port = |text: &str| text.parse::<u16>().ok().filter(|port| *port > 0);
    match (port(first), port(last)) {
        (Some(first), Some(last)) if first <= last => Ok([first, last]),
        _ => Err(Refused::new(format!("`{text}` is not a valid port range"), "for instance 40000-40999")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Binding, String> {
        let index_of = |name: &str| (name == "eth0").then_some(NonZeroU32::new(3)).flatten();
        Binding::parse(text, index_of).map_err(|error| error.to_string())
    }

    #[test]
    fn an_address_an_interface_and_ports_are_read() {
        let v4 = "192.0.2.7".parse().ok();
        let v6 = "2001:db8::7".parse().ok();
        let interface = NonZeroU32::new(3);
        for (text, address, interface, ports) in [
            ("192.0.2.7", v4, None, None),
            ("2001:db8::7", v6, None, None),
            ("[2001:db8::7]:9", v6, None, Some([9, 9])),
            ("192.0.2.7:40000-40999", v4, None, Some([40_000, 40_999])),
            ("eth0", None, interface, None),
            ("eth0:1-2", None, interface, Some([1, 2])),
            (":40000-40999", None, None, Some([40_000, 40_999])),
        ] {
            assert_eq!(parse(text), Ok(Binding { address, interface, ports }), "{text}");
        }
    }

    #[test]
    fn anything_else_is_refused() {
        let link_local = ["fe80::2", "fe80::2%eth0", "[fe80::2]:4000"];
        let others = ["", ":", "eth1", "eth0:", "eth0:0", "eth0:2-1", ":1-", ":70000", "[::1", "eth0:1-2-3"];
        for text in link_local.into_iter().chain(others) {
            assert!(parse(text).is_err(), "{text}");
        }
        assert_eq!(
            parse("eth9").unwrap_err(),
            "`eth9` is not a valid address or an interface of this host (hint: for instance 192.0.2.7, eth0, \
            :40000-40999 or eth0:40000-40999)"
        );
    }
}
