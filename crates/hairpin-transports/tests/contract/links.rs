//! What a transport does where its far end is across a link: another address of this host stands in for it.

use std::net::{Ipv4Addr, Ipv6Addr, UdpSocket};

use hairpin_model::card::{AnsweredBy, Reach};
use hairpin_transports::{FarAddresses, Setup, TransportError};

use super::ends::{Checked, LONG, SHORT, Subject, is_closed, shown, text};
use crate::ensure;

const FAR: FarAddresses = FarAddresses { v4: Ipv4Addr::new(127, 0, 0, 2), v6: Ipv6Addr::LOCALHOST };

fn across(subject: &Subject) -> Setup {
    Setup { far: Some(FAR), ..subject.setup(100, LONG) }
}

pub(crate) fn far_end(subject: &Subject) -> Checked {
    let setup = across(subject);
    if subject.card.reach != Reach::Network {
        let listened = subject.transport.listen(&setup).map(drop);
        let connected = subject.transport.connect("anywhere", &setup).map(drop);
        for answer in [listened, connected] {
            let told =
                matches!(&answer, Err(TransportError::Impossible(why)) if why.contains("crosses no link (hint: "));
            ensure!(told, "{answer:?}");
        }
        return Ok(());
    }
    // Linux's loopback device has one IPv6 address: there only IPv4 tells the two ends apart.
    let elsewhere = ["127.0.0.1", "127.0.0.1:7777", "[fd00::1]:7777"];
    for address in elsewhere {
        let error = subject.transport.connect(address, &Setup { timeout: SHORT, ..setup.clone() }).err();
        let told = error.map(text).unwrap_or_default();
        ensure!(told.contains("not an address of the form"), "{address} is taken for the far end: `{told}`");
    }
    if subject.card.answered_by == AnsweredBy::Kernel {
        let mut near = subject.transport.connect("127.0.0.2", &setup).map_err(text)?;
        return subject.exchange(&mut *near, None, b"across");
    }
    let address = subject.transport.listen(&setup).map_err(text)?.address();
    ensure!(address.starts_with("127.0.0.2:") || address.starts_with("[::1]:"), "it listens at {address}");
    let (mut near, mut far) = subject.pair(&setup)?;
    subject.exchange(&mut *near, Some(&mut *far), b"across")
}

/// Only where nothing else tells the other end is the farewell more than nothing.
pub(crate) fn farewell(subject: &Subject) -> Checked {
    let (mut near, mut far) = subject.pair(&subject.setup(100, LONG))?;
    far.send(b"on its way").map_err(text)?;
    near.farewell();
    if subject.card.boundaries && subject.card.reach == Reach::Network {
        let heard = far.receive(&mut [0; 100]);
        ensure!(is_closed(&heard), "the far end hears {}", shown(&heard));
    }
    let answer = subject.receive_whole(&mut *near, 10)?;
    ensure!(answer == b"on its way", "{answer:?} came back");
    Ok(())
}

/// A hello that comes again after the first message is no message, and is answered.
pub(crate) fn overtaken_greeting(subject: &Subject) -> Checked {
    if !subject.card.boundaries || subject.card.reach != Reach::Network {
        return Ok(());
    }
    let (hello, setup) = (hello_of(subject)?, across(subject));
    let listener = subject.transport.listen(&setup).map_err(text)?;
    let (address, any) =
        (listener.address(), if listener.address().starts_with('[') { "[::1]:0" } else { "127.0.0.1:0" });
    let near = UdpSocket::bind(any).and_then(|near| near.connect(&address).map(|()| near)).map_err(text)?;
    near.set_read_timeout(Some(LONG)).map_err(text)?;
    let mut welcome = [0; 100];
    near.send(&hello).map_err(text)?;
    let mut far = listener.accept().map_err(text)?;
    let first = near.recv(&mut welcome).map_err(text)?;
    for datagram in [&b"one"[..], &hello, b"two"] {
        near.send(datagram).map_err(text)?;
    }
    for message in [b"one", b"two"] {
        let came = subject.receive_whole(&mut *far, 3)?;
        ensure!(came == message, "{came:?} came as a message");
    }
    let again = near.recv(&mut welcome).map_err(text)?;
    ensure!((first, again) == (hello.len(), hello.len()), "welcomes of {first} and {again} bytes");
    Ok(())
}

/// The first datagram of a near end.
fn hello_of(subject: &Subject) -> Result<Vec<u8>, String> {
    let any = if subject.card.name.ends_with('6') { "[::1]:0" } else { "127.0.0.1:0" };
    let far = UdpSocket::bind(any).map_err(text)?;
    far.set_read_timeout(Some(LONG)).map_err(text)?;
    let address = far.local_addr().map_err(text)?.to_string();
    // Nobody welcomes it.
    let opened = subject.transport.connect(&address, &subject.setup(100, SHORT)).err();
    ensure!(matches!(opened, Some(TransportError::TimedOut { .. })), "{opened:?}");
    let mut hello = [0; 100];
    let length = far.recv(&mut hello).map_err(text)?;
    Ok(hello[..length].to_vec())
}
