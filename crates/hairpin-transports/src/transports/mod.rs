//! All built-in transports, one file each. A test fails if a file in this folder is not in [`ALL`].

#[cfg(target_os = "linux")]
mod fifo;
#[cfg(all(target_os = "linux", feature = "grpc"))]
mod grpc;
#[cfg(all(target_os = "linux", feature = "grpc"))]
mod grpc_stream;
#[cfg(all(target_os = "linux", feature = "http"))]
mod http1;
#[cfg(all(target_os = "linux", feature = "http"))]
mod http2;
#[cfg(target_os = "linux")]
mod icmp;
mod memory;
#[cfg(target_os = "linux")]
mod mptcp;
#[cfg(target_os = "linux")]
mod pipe;
#[cfg(all(target_os = "linux", feature = "quic"))]
mod quic;
#[cfg(all(target_os = "linux", feature = "quic"))]
mod quic_datagram;
#[cfg(all(target_os = "linux", feature = "http"))]
mod rest;
#[cfg(target_os = "linux")]
mod shm;
#[cfg(target_os = "linux")]
mod tcp;
#[cfg(target_os = "linux")]
mod tcp_streams;
#[cfg(target_os = "linux")]
mod tls;
#[cfg(target_os = "linux")]
mod udp;
#[cfg(target_os = "linux")]
mod unix_datagram;
#[cfg(target_os = "linux")]
mod unix_seqpacket;
#[cfg(target_os = "linux")]
mod unix_stream;
#[cfg(all(target_os = "linux", feature = "websocket"))]
mod websocket;

use std::sync::OnceLock;

use hairpin_model::{Card, Refused};

use crate::foreign::{Scheme, Url};
use crate::wire::Transport;

/// The built-in transports, the shortest path first.
#[cfg(target_os = "linux")]
pub const ALL: &[&dyn Transport] = &[
    &memory::Memory,
    &shm::Shm,
    &pipe::PIPE,
    &fifo::FIFO,
    &unix_stream::UNIX_STREAM,
    &unix_seqpacket::UNIX_SEQPACKET,
    &unix_datagram::UNIX_DATAGRAM,
    &udp::UDP,
    &udp::UDP6,
    &tcp::TCP,
    &tcp::TCP6,
    &mptcp::MPTCP,
    &tcp_streams::TCP_STREAMS,
    &tls::TLS,
    #[cfg(feature = "websocket")]
    &websocket::WEBSOCKET,
    #[cfg(feature = "websocket")]
    &websocket::WEBSOCKET_TLS,
    #[cfg(feature = "websocket")]
    &websocket::WEBSOCKET_UNIX,
    #[cfg(feature = "http")]
    &http1::HTTP1,
    #[cfg(feature = "http")]
    &http1::HTTP1_TLS,
    #[cfg(feature = "http")]
    &http1::HTTP1_UNIX,
    #[cfg(feature = "http")]
    &rest::REST,
    #[cfg(feature = "http")]
    &rest::REST_TLS,
    #[cfg(feature = "http")]
    &rest::REST_UNIX,
    #[cfg(feature = "http")]
    &http2::HTTP2,
    #[cfg(feature = "http")]
    &http2::HTTP2_TLS,
    #[cfg(feature = "http")]
    &http2::HTTP2_UNIX,
    #[cfg(feature = "grpc")]
    &grpc::GRPC,
    #[cfg(feature = "grpc")]
    &grpc::GRPC_TLS,
    #[cfg(feature = "grpc")]
    &grpc::GRPC_UNIX,
    #[cfg(feature = "grpc")]
    &grpc_stream::GRPC_STREAM,
    #[cfg(feature = "grpc")]
    &grpc_stream::GRPC_STREAM_TLS,
    #[cfg(feature = "grpc")]
    &grpc_stream::GRPC_STREAM_UNIX,
    #[cfg(feature = "quic")]
    &quic::QUIC,
    #[cfg(feature = "quic")]
    &quic_datagram::QUIC_DATAGRAM,
    &icmp::Icmp,
];

/// Flags of echo servers that are named after transports.
#[cfg(target_os = "linux")]
pub(crate) const ECHO_FLAGS: [&str; 3] = ["grpc", "websocket", "quic"];

/// Features of the crate `hairpin` that this build lacks, and the transports that need each.
#[cfg(target_os = "linux")]
pub const OMITTED: &[(&str, &[&str])] = &[
    #[cfg(not(feature = "websocket"))]
    ("websocket", &["websocket", "websocket-tls", "websocket-unix"]),
    #[cfg(not(feature = "http"))]
    (
        "http",
        &["http1", "http1-tls", "http1-unix", "rest", "rest-tls", "rest-unix", "http2", "http2-tls", "http2-unix"],
    ),
    #[cfg(not(feature = "grpc"))]
    ("grpc", &["grpc", "grpc-tls", "grpc-unix", "grpc-stream", "grpc-stream-tls", "grpc-stream-unix"]),
    #[cfg(not(feature = "quic"))]
    ("quic", &["quic", "quic-datagram"]),
];

#[cfg(not(target_os = "linux"))]
pub const OMITTED: &[(&str, &[&str])] = &[];

/// The transports that run on every system.
#[cfg(not(target_os = "linux"))]
pub const ALL: &[&dyn Transport] = &[&memory::Memory];

/// The transports of other crates. Both ends of a round have the same list, since they run the same program.
static OWN: OnceLock<&[&dyn Transport]> = OnceLock::new();

/// Adds transports of other crates, before the first round.
///
/// # Panics
/// Two transports have the same name, a transport in `own` is the reference, or other transports were added before.
pub fn register(own: &'static [&'static dyn Transport]) {
    assert_eq!(find_invalid(own), None, "a registered transport needs a new name and must not be the reference");
    let names = |list: &[&dyn Transport]| list.iter().map(|transport| transport.card().name).collect::<Vec<_>>();
    assert_eq!(names(OWN.get_or_init(|| own)), names(own), "other transports are already registered");
}

/// Returns the name of the first transport that cannot be registered.
fn find_invalid(own: &[&dyn Transport]) -> Option<&'static str> {
    let names: Vec<&str> = ALL.iter().chain(own).map(|transport| transport.card().name).collect();
    let is_invalid = |card: &Card| card.is_reference || names.iter().filter(|name| **name == card.name).count() > 1;
    own.iter().map(|transport| transport.card()).find(is_invalid).map(|card| card.name)
}

/// The transports of other crates, see [`register`].
pub fn own() -> &'static [&'static dyn Transport] {
    OWN.get().copied().unwrap_or_default()
}

/// All transports of this process, the built-in transports first.
pub fn all() -> impl Iterator<Item = &'static dyn Transport> {
    ALL.iter().chain(own()).copied()
}

pub fn find(name: &str) -> Option<&'static dyn Transport> {
    all().find(|transport| transport.card().name == name)
}

/// Parses the URL of a foreign server. Also returns the transports that can measure it, the default first.
///
/// # Errors
/// [`Refused`] for a text that is no such URL.
pub fn find_foreign(text: &str) -> Result<(Url, Vec<&'static str>), Refused> {
    let known = || all().filter_map(|one| Some((one.card().name, one.foreign()?.schemes)));
    let mut schemes: Vec<Scheme> = known().flat_map(|(_, schemes)| schemes.iter().copied()).collect();
    schemes.dedup();
    let url = Url::parse(text, &schemes)?;
    let fits = known().filter(|(_, schemes)| schemes.contains(&url.scheme)).map(|(name, _)| name).collect();
    Ok((url, fits))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use hairpin_model::upgrade::earlier_cards;
    use hairpin_model::{Protocol, Reach, SavedCards};

    use super::*;

    #[test]
    fn the_files_in_this_folder_and_the_list_have_the_same_transports() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/transports");
        let files: BTreeSet<String> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().path().file_stem().unwrap().to_string_lossy().replace('_', "-"))
            .filter(|stem| stem != "mod")
            .collect();
        // One file implements a protocol over both IP versions, and over TLS and Unix sockets.
        let base =
            |name: &str| name.trim_end_matches('6').trim_end_matches("-tls").trim_end_matches("-unix").to_owned();
        let omitted = OMITTED.iter().flat_map(|(_, names)| *names).map(|name| base(name));
        let listed = ALL.iter().map(|transport| base(transport.card().name));
        let listed: BTreeSet<String> = listed.chain(omitted).collect();
        assert_eq!(files, listed);
    }

    #[test]
    fn names_are_unique_and_cards_make_sense() {
        let names: BTreeSet<_> = ALL.iter().map(|transport| transport.card().name).collect();
        assert_eq!(names.len(), ALL.len());
        for card in ALL.iter().map(|transport| transport.card()) {
            assert!(find(card.name).is_some_and(|found| found.card() == card), "{}", card.name);
            assert!((1..card.max_message_bytes).contains(&card.min_message_bytes), "{}", card.name);
            assert_eq!(card.min_mtu_bytes > 0, card.reach == Reach::Network, "{}", card.name);
            assert_eq!(card.protocol != Protocol::None, card.reach == Reach::Network, "{}", card.name);
            assert!(!card.waitings.is_empty() && !card.summary.is_empty(), "{}", card.name);
        }
        assert!(find("no-such-transport").is_none());
        assert_eq!(ALL.iter().filter(|transport| transport.card().is_reference).count(), 1);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn registered_transports_need_new_names_and_must_not_be_the_reference() {
        let double = |card| crate::wires::socket_transport::SocketTransport { card, ..unix_stream::UNIX_STREAM };
        let named = |name| double(Card { name, ..unix_stream::UNIX_STREAM.card });
        let (one, other) = (named("one"), named("other"));
        assert_eq!(find_invalid(&[&one, &other]), None);
        assert_eq!(find_invalid(&[&other, &one, &one]), Some("one"));
        assert_eq!(find_invalid(&[&one, &named("tcp")]), Some("tcp"));
        let reference = double(Card { name: "one", is_reference: true, ..other.card });
        assert_eq!(find_invalid(&[&reference]), Some("one"));
    }

    #[test]
    #[cfg(all(target_os = "linux", feature = "http", feature = "websocket"))]
    fn ends_without_a_common_protocol_over_tls_say_so() {
        use std::time::Duration;

        use hairpin_model::Waiting;

        use crate::wire::Setup;

        let setup = Setup::new(Waiting::Block, Duration::from_secs(20), 100);
        for (client, server) in [
            (http1::HTTP1_TLS, http2::HTTP2_TLS),
            (http2::HTTP2_TLS, websocket::WEBSOCKET_TLS),
            (websocket::WEBSOCKET_TLS.over_tls("ws-2", "", b"ws-2"), http1::HTTP1_TLS),
            // An end that names no protocol.
            (tls::TLS, http2::HTTP2_TLS),
        ] {
            let mut listener = server.listen(&setup).unwrap();
            let address = listener.address();
            let [connected, accepted] = std::thread::scope(|scope| {
                let connecting = scope.spawn(|| client.connect(&address, &setup).map(drop));
                let accepted = listener.accept(&mut || false).map(drop);
                [connecting.join().unwrap(), accepted].map(|answer| answer.map_err(|error| error.to_string()))
            });
            let accepted = accepted.unwrap_err();
            assert!(accepted.contains("peer doesn't support any known protocol"), "{accepted}");
            if client.card.name != "tls" {
                let connected = connected.unwrap_err();
                assert!(connected.contains("NoApplicationProtocol"), "{connected}");
            }
        }
    }

    /// The contract test checks what the rest of a card says.
    #[test]
    fn the_versions_of_libraries_are_those_of_the_lock_file() {
        let lock = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../Cargo.lock");
        let lock = std::fs::read_to_string(lock).unwrap();
        let libraries: Vec<_> = ALL.iter().filter_map(|transport| transport.card().library).collect();
        assert!(!libraries.is_empty());
        for library in libraries {
            let entry = format!("name = \"{}\"\nversion = \"{}\"\n", library.name, library.version);
            assert!(lock.contains(&entry), "{entry}");
        }
    }

    /// Old runs, which were saved without cards, use `earlier_cards`.
    #[test]
    fn the_cards_of_old_runs_match_the_transports() {
        let cards =
            ALL.iter().map(|transport| transport.card()).filter(|card| earlier_cards().get(card.name).is_some());
        assert_eq!(cards.map(|card| (card.name, card.saved())).collect::<SavedCards>(), earlier_cards());
    }
}
