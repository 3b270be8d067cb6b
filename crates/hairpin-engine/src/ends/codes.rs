//! The codes of a datagram flow between hosts, from the key in the round's order.

use hairpin_model::Flow;
use hairpin_model::flow::Direction;
use hairpin_model::trace::End;
use hairpin_transports::{CODES, Codes};
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};

/// Key of the codes of a round, random. Only the ends of the round know it.
pub type DatagramKey = [u8; 32];

const CODE_BYTES: usize = size_of::<u64>();

/// Returns the codes of an end of a flow.
///
/// The codes of a direction are a key stream of ChaCha20 (RFC 8439, section 2.4) from block 1, as little-endian numbers
/// of 64 bits. The first byte of the nonce is 0 towards the server and 1 towards the client, the others are 0.
#[must_use]
pub fn codes(key: &DatagramKey, end: End, flow: &Flow) -> Codes {
    let is_answer = end == End::Client && flow.direction == Direction::RoundTrip;
    let received = if is_answer { flow.load.reply_size_bytes() } else { flow.load.size_bytes() };
    let received = usize::try_from(received).unwrap_or(usize::MAX);
    let [up, down] = [0, 1].map(|direction| key_stream(key, direction));
    let of = |bytes: &[u8]| bytes.as_chunks::<CODE_BYTES>().0.iter().map(|code| u64::from_le_bytes(*code)).collect();
    match end {
        End::Client => Codes::new(of(&up), of(&down), received),
        End::Server => Codes::new(of(&down), of(&up), received),
    }
}

fn key_stream(key: &DatagramKey, direction: u8) -> Vec<u8> {
    let cipher = UnboundKey::new(&CHACHA20_POLY1305, key).expect("the key has the length of the cipher's keys");
    let mut nonce = [0; 12];
    nonce[0] = direction;
    let mut bytes = vec![0; CODES * CODE_BYTES];
    // The cipher adds its key stream to the zeros.
    let sealed = LessSafeKey::new(cipher).seal_in_place_separate_tag(
        Nonce::assume_unique_for_key(nonce),
        Aad::empty(),
        &mut bytes,
    );
    let _tag = sealed.expect("the zeros are much shorter than the longest message of the cipher");
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_codes_are_the_key_stream_of_chacha20() {
        // RFC 8439, section A.1, test vector 2: all-zero key and nonce, block 1.
        let expected: [u8; 16] =
            [0x9f, 0x07, 0xe7, 0xbe, 0x55, 0x51, 0x38, 0x7a, 0x98, 0xba, 0x97, 0x7c, 0x73, 0x2d, 0x08, 0x0d];
        let up = key_stream(&[0; 32], 0);
        assert_eq!(up[..16], expected);
        assert_eq!(up.len(), CODES * 8);
        let down = key_stream(&[0; 32], 1);
        assert!(up.iter().zip(&down).filter(|(one, other)| one == other).count() < up.len() / 100);
    }
}
