//! Proof that an end knows the secret of a ticket, without sending the secret: an HMAC over the end's role and the
//! exporter of the TLS connection (RFC 9266). A proof is valid for one connection and one end only.

use ring::hmac;

use crate::ticket::Secret;

/// The label of the exporter (RFC 9266, section 4.2).
pub(crate) const EXPORTER_LABEL: &[u8] = b"EXPORTER-Channel-Binding";
pub(crate) const EXPORTER_BYTES: usize = 32;
/// Bytes of a ticket's public name.
const ID_BYTES: usize = 4;

pub type Exporter = [u8; EXPORTER_BYTES];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    Client,
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

pub fn proof(secret: &Secret, role: Role, exporter: &Exporter) -> [u8; 32] {
    tag(secret, &[role.word(), exporter]).as_ref().try_into().expect("HMAC-SHA256 has 32 bytes")
}

/// Checks a proof, in constant time.
pub fn is_proof(secret: &Secret, role: Role, exporter: &Exporter, given: &[u8]) -> bool {
    let key = hmac::Key::new(hmac::HMAC_SHA256, &secret.0);
    hmac::verify(&key, &[role.word(), exporter].concat(), given).is_ok()
}

/// Returns a code for a host's boot id, by which a client recognizes its own host and learns nothing about another.
pub fn boot_code(secret: &Secret, boot_id: &str) -> String {
    hex(&tag(secret, &[b"hairpin/1 boot id ", boot_id.as_bytes()]).as_ref()[..16])
}

/// Returns the public name of a ticket: 8 hexadecimal digits that do not reveal the secret.
pub fn ticket_id(secret: &Secret) -> String {
    hex(&tag(secret, &[b"hairpin/1 name of the ticket"]).as_ref()[..ID_BYTES])
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
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
