//! The cards of the transports that existed before runs saved cards.

use crate::card::{Protocol, SavedCard, SavedCards};

pub fn earlier_cards() -> SavedCards {
    const STREAM: SavedCard = SavedCard {
        protocol: Protocol::None,
        ordered: true,
        reliable: true,
        boundaries: false,
        cpu_only: false,
        is_reference: false,
        is_encrypted: false,
        between_processes: true,
    };
    const MESSAGES: SavedCard = SavedCard { boundaries: true, ..STREAM };
    const MEMORY: SavedCard = SavedCard { cpu_only: true, ..MESSAGES };
    const TCP: SavedCard = SavedCard { protocol: Protocol::Tcp, ..STREAM };
    const UDP: SavedCard = SavedCard { protocol: Protocol::Udp, ordered: false, reliable: false, ..MESSAGES };
    [
        ("memory", SavedCard { between_processes: false, ..MEMORY }),
        ("shm", MEMORY),
        ("pipe", STREAM),
        ("fifo", STREAM),
        ("unix-stream", STREAM),
        ("unix-seqpacket", MESSAGES),
        ("unix-datagram", MESSAGES),
        ("udp", UDP),
        ("udp6", UDP),
        ("tcp", SavedCard { is_reference: true, ..TCP }),
        ("tcp6", TCP),
        ("mptcp", TCP),
        ("icmp", SavedCard { protocol: Protocol::Icmp, ..UDP }),
    ]
    .into_iter()
    .collect()
}
