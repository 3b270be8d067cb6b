//! How the holder of a ticket proves that it has the secret, without sending it: by an HMAC over what is unique to this TLS
//! connection (its exporter, RFC 9266) and the role of who proves it. So a proof fits no other connection, and no other end.

use ring::hmac;

use crate::ticket::Secret;

/// The label of the exporter (RFC 9266, section 4.2).
pub(crate) const EXPORTER_LABEL: &[u8] = b"EXPORTER-Channel-Binding";
/// Bytes of the exporter.
pub(crate) const EXPORTER_BYTES: usize = 32;
/// Bytes of the name of a ticket.
const ID_BYTES: usize = 4;

/// What is unique to a TLS connection.
pub type Exporter = [u8; EXPORTER_BYTES];

/// Who proves that it has the secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The end that dialled.
    Client,
    /// The end that was dialled.
    Server,
}

impl Role {
    fn word(self) -> &'static [u8] {
        match self {
            Self::Client => b"hairpin/1 client",
            Self::Server => b"hairpin/1 server",
        }
    }
}

/// The proof.
#[must_use]
pub fn proof(secret: &Secret, role: Role, exporter: &Exporter) -> [u8; 32] {
    tag(secret, &[role.word(), exporter]).as_ref().try_into().expect("HMAC-SHA256 has 32 bytes")
}

/// Whether that is the proof; how long it takes does not depend on where it is wrong.
#[must_use]
pub fn is_proof(secret: &Secret, role: Role, exporter: &Exporter, given: &[u8]) -> bool {
    let key = hmac::Key::new(hmac::HMAC_SHA256, &secret.0);
    hmac::verify(&key, &[role.word(), exporter].concat(), given).is_ok()
}

/// The public name of a ticket: 8 hexadecimal digits that say nothing of its secret.
#[must_use]
pub fn ticket_id(secret: &Secret) -> String {
    let tag = tag(secret, &[b"hairpin/1 name of the ticket"]);
    tag.as_ref()[..ID_BYTES].iter().map(|byte| format!("{byte:02x}")).collect()
}

fn tag(secret: &Secret, parts: &[&[u8]]) -> hmac::Tag {
    hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &secret.0), &parts.concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: Secret = Secret([7; 16]);

    #[test]
    fn a_proof_fits_one_secret_one_role_and_one_connection() {
        let given = proof(&OWN, Role::Client, &[1; 32]);
        assert!(is_proof(&OWN, Role::Client, &[1; 32], &given));
        assert!(!is_proof(&Secret([8; 16]), Role::Client, &[1; 32], &given));
        assert!(!is_proof(&OWN, Role::Server, &[1; 32], &given));
        assert!(!is_proof(&OWN, Role::Client, &[2; 32], &given));
        assert!(!is_proof(&OWN, Role::Client, &[1; 32], &given[..31]));
        assert!(!is_proof(&OWN, Role::Client, &[1; 32], &[]));
    }

    #[test]
    fn a_ticket_has_a_name_of_its_own() {
        assert_eq!(ticket_id(&OWN).len(), 8);
        assert_ne!(ticket_id(&OWN), ticket_id(&Secret([8; 16])));
    }
}
