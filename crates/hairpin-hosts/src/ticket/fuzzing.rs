//! The fuzz target `tickets`: no text panics, and a parsed ticket is the same after it is written and parsed again.

use super::{CHECKSUM_LETTERS, Ticket, URL_SAFE_NO_PAD, checksum, redacted};
use base64::Engine as _;

/// Parses the input unchanged and with a corrected checksum. Returns whether the unchanged input is a ticket.
pub fn tickets(input: &[u8]) -> bool {
    let text = String::from_utf8_lossy(input);
    let accepted = ticket(&text);
    if let Some((before, _)) = text.split_at_checked(text.len().saturating_sub(CHECKSUM_LETTERS)) {
        ticket(&format!("{before}{}", URL_SAFE_NO_PAD.encode(checksum(before))));
    }
    accepted
}

fn ticket(text: &str) -> bool {
    let words = redacted(&[text.to_owned(), format!("--to={text}")]);
    let Ok(ticket) = Ticket::parse(text) else { return false };
    assert_eq!(Ticket::parse(&ticket.word()).as_ref(), Ok(&ticket));
    assert_eq!(redacted(&[ticket.word()]), [ticket.redacted()]);
    assert!(words.iter().all(|word| word.ends_with("#...")), "a secret is shown: {words:?}");
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ticket::Secret;

    fn word(host: &str, port: u16, expires_unix_s: u64) -> Vec<u8> {
        let host = host.to_owned();
        Ticket { host, port, fingerprint: [0xa5; 32], secret: Secret([7; 16]), expires_unix_s }.word().into_bytes()
    }

    #[test]
    fn the_corpus_of_tickets_is_replayed() {
        let valid = [
            ("name", word("lab.example.org", 7420, 1_800_000_000)),
            ("ipv4", word("192.0.2.7", 1, 0)),
            ("ipv6", word("2001:db8::1", u16::MAX, u64::MAX)),
            ("ipv6-with-zone", word("fe80::1%eth0", 7420, 1)),
            ("longest", word(&"a".repeat(253), 65535, 1)),
        ];
        hairpin_testing::corpus::replay("tickets", &valid, tickets);
    }
}
