//! The ticket that `hairpin serve` prints: one word with the address, the certificate's fingerprint and a secret.
//!
//! The word is `host:port#` and 82 characters in base64url, without padding (RFC 4648): a version (1 byte), the SHA-256
//! fingerprint of the server's certificate (32), the secret (16), the expiry (8, seconds since 1970, big endian), and a
//! checksum (4). The checksum is the lower half of FNV-1a over all text before it. It detects every error in a single
//! character, since each step of FNV-1a is a bijection of the lower 32 bits.

#[cfg(any(test, fuzzing))]
pub mod fuzzing;

use std::fmt;
use std::num::NonZeroU16;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hairpin_model::Refused;

const VERSION: u8 = 1;
/// Version, fingerprint, secret, expiry.
const PAYLOAD_BYTES: usize = 1 + 32 + 16 + 8;
/// Characters of the payload in base64.
const PAYLOAD_LETTERS: usize = 76;
/// Characters of the checksum in base64.
const CHECKSUM_LETTERS: usize = 6;
/// Longest host name, in characters (RFC 1035, section 2.3.4).
const MAX_HOST_LETTERS: usize = 253;
/// Longest ticket, in characters.
const MAX_LETTERS: usize = MAX_HOST_LETTERS + "[]:65535#".len() + PAYLOAD_LETTERS + CHECKSUM_LETTERS;

/// The secret with which both ends authenticate. It is printed only in a ticket, and never sent.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(pub [u8; 16]);

impl fmt::Debug for Secret {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("Secret(..)")
    }
}

/// A ticket. `Debug` and [`Ticket::redacted`] omit its secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ticket {
    /// Name or address of the server's host.
    pub host: String,
    /// The server's port for TCP and UDP.
    pub port: u16,
    /// SHA-256 of the server's certificate.
    pub fingerprint: [u8; 32],
    pub secret: Secret,
    /// First second in which the ticket is no longer valid, since 1970-01-01 UTC.
    pub expires_unix_s: u64,
}

impl Ticket {
    pub fn word(&self) -> String {
        let mut payload = Vec::with_capacity(PAYLOAD_BYTES);
        payload.push(VERSION);
        payload.extend_from_slice(&self.fingerprint);
        payload.extend_from_slice(&self.secret.0);
        payload.extend_from_slice(&self.expires_unix_s.to_be_bytes());
        let text = format!("{}#{}", self.address(), URL_SAFE_NO_PAD.encode(payload));
        format!("{text}{}", URL_SAFE_NO_PAD.encode(checksum(&text)))
    }

    /// Returns `host:port`, with brackets around an IPv6 address.
    pub fn address(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }

    /// Returns the ticket without its secret, for logs and saved command lines.
    pub fn redacted(&self) -> String {
        format!("{}#...", self.address())
    }

    /// Parses `host:port`; `None` if invalid.
    pub fn parse_address(text: &str) -> Option<(String, u16)> {
        let (host, port) = host_and_port(text)?;
        Some((host, port?))
    }

    /// Parses a ticket.
    ///
    /// # Errors
    /// The text is not a ticket, its checksum is wrong, or it has another version.
    pub fn parse(text: &str) -> Result<Self, Refused> {
        let invalid = |why: &str| {
            Refused::new(format!("not a ticket: {why}"), "copy the whole word that `hairpin serve` printed")
        };
        if text.len() > MAX_LETTERS || !text.is_ascii() {
            return Err(invalid("it is too long, or has invalid characters"));
        }
        let (address, letters) = text.split_once('#').ok_or_else(|| invalid("it has no `#`"))?;
        if letters.len() != PAYLOAD_LETTERS + CHECKSUM_LETTERS {
            let expected = PAYLOAD_LETTERS + CHECKSUM_LETTERS;
            return Err(invalid(&format!("it has {} characters after the `#`, not {expected}", letters.len())));
        }
        let (before, sum) = text.split_at(text.len() - CHECKSUM_LETTERS);
        if URL_SAFE_NO_PAD.decode(sum).ok().as_deref() != Some(&checksum(before)[..]) {
            return Err(Refused::new(
                "the ticket has a wrong letter, or its host or port was edited: its checksum does not fit",
                "copy it again; `hairpin serve --advertise HOST` prints one with another host",
            ));
        }
        let payload = URL_SAFE_NO_PAD.decode(&letters[..PAYLOAD_LETTERS]).map_err(|_| invalid("it is not base64"))?;
        let (host, port) = Self::parse_address(address).ok_or_else(|| invalid("no host and port before the `#`"))?;
        let [version, rest @ ..] = payload.as_slice() else { return Err(invalid("it is empty")) };
        if *version != VERSION {
            return Err(Refused::new(
                format!("the ticket has version {version}; this Hairpin knows version {VERSION}"),
                "use the same version of Hairpin at both ends",
            ));
        }
        let (fingerprint, rest) = rest.split_first_chunk().ok_or_else(|| invalid("it is too short"))?;
        let (secret, rest) = rest.split_first_chunk().ok_or_else(|| invalid("it is too short"))?;
        let (expires, _) = rest.split_first_chunk().ok_or_else(|| invalid("it is too short"))?;
        Ok(Self {
            host,
            port,
            fingerprint: *fingerprint,
            secret: Secret(*secret),
            expires_unix_s: u64::from_be_bytes(*expires),
        })
    }
}

/// Replaces each ticket in a command line by `host:port#...`.
pub fn redacted(words: &[String]) -> Vec<String> {
    let redact = |word: &String| {
        // White space around a ticket is allowed.
        let word = &word.trim().to_owned();
        let (before, value) = word.split_once('=').map_or(("", word.as_str()), |(flag, value)| {
            if flag.starts_with("--") { (&word[..=flag.len()], value) } else { ("", word.as_str()) }
        });
        // Even an invalid ticket may contain most of a secret.
        match value.trim_start().split_once('#') {
            Some((address, letters)) if Ticket::parse_address(address).is_some() && !letters.is_empty() => {
                format!("{before}{address}#...")
            }
            _ => word.clone(),
        }
    };
    words.iter().map(redact).collect()
}

/// Parses `host:port` or `host`; `None` if invalid. An IPv6 address must be in brackets.
pub fn host_and_port(address: &str) -> Option<(String, Option<u16>)> {
    let (host, port) = match address.rsplit_once(':') {
        Some((host, port)) if !address.ends_with(']') => {
            let is_number = port.bytes().all(|letter| letter.is_ascii_digit());
            (host, Some(port.parse::<NonZeroU16>().ok().filter(|_| is_number)?.get()))
        }
        _ => (address, None),
    };
    let host = match host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
        Some(inner) => Some(inner).filter(|inner| inner.contains(':')),
        None => Some(host).filter(|host| !host.contains(':')),
    }?;
    let is_valid = |letter: u8| letter.is_ascii_alphanumeric() || b".-_:%".contains(&letter);
    let is_host = !host.is_empty() && host.len() <= MAX_HOST_LETTERS && host.bytes().all(is_valid);
    is_host.then(|| (host.to_owned(), port))
}

/// Returns the lower half of 64-bit FNV-1a (draft-eastlake-fnv).
fn checksum(text: &str) -> [u8; 4] {
    let hash = hairpin_model::digest::fnv1a(text.bytes());
    let [.., a, b, c, d] = hash.to_be_bytes();
    [a, b, c, d]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ticket(host: &str) -> Ticket {
        Ticket {
            host: host.to_owned(),
            port: 7420,
            fingerprint: [0xa5; 32],
            secret: Secret(*b"sixteen letters."),
            expires_unix_s: 1_800_000_000,
        }
    }

    #[test]
    fn a_ticket_is_one_word_and_is_read_back() {
        for host in ["lab.example.org", "192.0.2.7", "2001:db8::1", "fe80::1%eth0"] {
            let ticket = ticket(host);
            let word = ticket.word();
            assert!(!word.contains(char::is_whitespace) && word.contains('#'), "{word}");
            assert_eq!(Ticket::parse(&word).unwrap(), ticket);
        }
        assert!(ticket("2001:db8::1").word().starts_with("[2001:db8::1]:7420#"));
    }

    #[test]
    fn one_wrong_letter_anywhere_is_detected() {
        let word = ticket("192.0.2.7").word();
        for index in 0..word.len() {
            for other in ["x", "7", "-", "A"] {
                let mut wrong = word.clone();
                wrong.replace_range(index..=index, other);
                if wrong != word {
                    assert!(Ticket::parse(&wrong).is_err(), "{wrong}");
                }
            }
        }
        let mut wrong = word.clone();
        wrong.replace_range(
            word.len() - 20..word.len() - 19,
            if word.as_bytes()[word.len() - 20] == b'q' { "r" } else { "q" },
        );
        assert_eq!(
            Ticket::parse(&wrong).unwrap_err().to_string(),
            "the ticket has a wrong letter, or its host or port was edited: its checksum does not fit (hint: copy it again; \
             `hairpin serve --advertise HOST` prints one with another host)"
        );
    }

    #[test]
    fn a_text_that_is_not_a_ticket_is_refused_with_the_reason() {
        let why = |text: &str| Ticket::parse(text).unwrap_err().what;
        assert_eq!(why("lab:7420"), "not a ticket: it has no `#`");
        assert_eq!(why("lab:7420#abc"), "not a ticket: it has 3 characters after the `#`, not 82");
        assert!(why(&"x".repeat(10_000)).contains("too long"));
        let mut newer =
            URL_SAFE_NO_PAD.decode(&ticket("lab").word()["lab:7420#".len()..][..PAYLOAD_LETTERS]).unwrap();
        newer[0] = 2;
        let text = format!("lab:7420#{}", URL_SAFE_NO_PAD.encode(newer));
        let word = format!("{text}{}", URL_SAFE_NO_PAD.encode(checksum(&text)));
        assert_eq!(why(&word), "the ticket has version 2; this Hairpin knows version 1");
    }

    #[test]
    fn neither_a_log_nor_a_saved_command_line_has_the_secret() {
        let ticket = ticket("192.0.2.7");
        let word = ticket.word();
        let secret = URL_SAFE_NO_PAD.encode(ticket.secret.0);
        for text in [format!("{ticket:?}"), ticket.redacted()] {
            assert!(!text.contains("sixteen") && !text.contains(&secret), "{text}");
        }
        let line = ["round-trip", "--to", &word, &format!("--to={word}"), "--link", "delay=5ms#x"].map(str::to_owned);
        let expected =
            ["round-trip", "--to", "192.0.2.7:7420#...", "--to=192.0.2.7:7420#...", "--link", "delay=5ms#x"];
        assert_eq!(redacted(&line), expected);
        let padded = [format!(" {word}\n"), format!("--to= {word}")];
        assert_eq!(redacted(&padded), ["192.0.2.7:7420#...", "--to=192.0.2.7:7420#..."]);
    }

    proptest! {
        #[test]
        fn no_text_panics(text in ".{0,400}") {
            let _ = Ticket::parse(&text);
            let _ = redacted(&[text]);
        }

        #[test]
        fn no_text_similar_to_a_ticket_panics(host in "[\\[\\]a-z0-9.:%-]{0,40}", letters in "[A-Za-z0-9_-]{80,84}") {
            let _ = Ticket::parse(&format!("{host}#{letters}"));
        }
    }
}
