//! Codes by which the two ends of a datagram flow between hosts recognize each other's messages.
//!
//! Anyone who knows an address and a port can send datagrams to it. Between hosts, a part of a message that is otherwise
//! fixed is therefore a code: bytes 8 to 15 of a message of at least 16 bytes (64 bits), or the last 4 bytes of a message
//! of 4 to 15 bytes (32 bits). Shorter messages have no code. The code depends on the direction and on the number of the
//! message modulo [`CODES`]. The number is the little-endian value of the first 8 bytes, or of all bytes if there are
//! fewer. Where a code replaces bytes of the number, the receiver finds the number by its code and restores it.

use std::sync::Arc;

/// Number of codes of a direction.
pub const CODES: usize = 1 << 16;
/// Maximum length of a head: number and code.
pub(crate) const HEAD_BYTES: usize = 16;
const NUMBER_BYTES: usize = 8;
/// Minimum length of a message with a code.
const SHORT_CODE_BYTES: usize = 4;

/// The byte at `index` of messages with fixed content, unless it belongs to the message's number.
#[inline]
pub fn pattern(index: usize) -> u8 {
    #[expect(clippy::cast_possible_truncation, reason = "the pattern repeats every 256 bytes on purpose")]
    let byte = (index as u8).wrapping_mul(31).wrapping_add(7);
    byte
}

/// Clears the bytes of a message with codes that a longer number would use, so that the number does not depend on the length
/// of the message. `numbered` bytes hold the number.
pub fn clear_number(message: &mut [u8], numbered: usize) {
    message.iter_mut().take(NUMBER_BYTES).skip(numbered).for_each(|byte| *byte = 0);
}

/// The codes of a flow: both ends know them, and others cannot guess them.
#[derive(Clone)]
pub struct Codes {
    sent: Arc<[u64]>,
    received: Arc<[u64]>,
    /// Finds received codes of messages that are too short for their number; `None` if no such message is expected.
    index: Option<Arc<Index>>,
    /// Length of the messages that this end receives.
    received_bytes: usize,
}

/// The places of codes, sorted by the upper half of a short code.
struct Index {
    places: Box<[u16]>,
    /// For each upper half, where its places begin.
    starts: Box<[u32]>,
}

impl std::fmt::Debug for Codes {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("Codes(..)")
    }
}

impl Codes {
    /// Takes the codes of messages that this end sends, and of messages of `received_bytes` bytes that it receives.
    ///
    /// # Panics
    /// If a direction does not have [`CODES`] codes.
    pub fn new(sent: Arc<[u64]>, received: Arc<[u64]>, received_bytes: usize) -> Self {
        assert_eq!([sent.len(), received.len()], [CODES; 2], "the number of codes");
        let needs_index = (SHORT_CODE_BYTES..SHORT_CODE_BYTES + size_of::<u16>()).contains(&received_bytes);
        let index = needs_index.then(|| Arc::new(Index::of(&received)));
        Self { sent, received, index, received_bytes }
    }

    #[inline]
    pub fn write(&self, message: &mut [u8]) {
        if let Some((number, code)) = message.split_first_chunk_mut::<NUMBER_BYTES>()
            && let Some(code) = code.first_chunk_mut::<NUMBER_BYTES>()
        {
            *code = self.sent[place(u64::from_le_bytes(*number))].to_le_bytes();
            return;
        }
        self.write_short(message);
    }

    fn write_short(&self, message: &mut [u8]) {
        let number = low_bytes(&message[..message.len().min(NUMBER_BYTES)]);
        if let Some(code) = message.last_chunk_mut::<SHORT_CODE_BYTES>() {
            *code = short(self.sent[place(number)]).to_le_bytes();
        }
    }

    /// Checks length and code of a received message, and restores the bytes that the code replaced. `last` is the number of
    /// the last message, and not the largest so far, because a forged message whose code was guessed must not change which
    /// numbers are accepted later. Returns false for a message of another sender.
    #[inline]
    pub(crate) fn open(&self, message: &mut [u8], last: &mut u64) -> bool {
        if message.len() != self.received_bytes {
            return false;
        }
        let length = message.len();
        if length < HEAD_BYTES {
            return self.open_short(message, last);
        }
        let number = low_bytes(&message[..NUMBER_BYTES]);
        if message[NUMBER_BYTES..HEAD_BYTES] != self.received[place(number)].to_le_bytes() {
            return false;
        }
        (NUMBER_BYTES..HEAD_BYTES).for_each(|index| message[index] = pattern(index));
        *last = number;
        true
    }

    fn open_short(&self, message: &mut [u8], last: &mut u64) -> bool {
        let Some((before, code)) = message.split_last_chunk::<SHORT_CODE_BYTES>() else { return !message.is_empty() };
        let known = before.len().min(NUMBER_BYTES);
        let Some(number) = self.number_of(u32::from_le_bytes(*code), &before[..known], *last) else { return false };
        let numbered = message.len().min(NUMBER_BYTES);
        message[known..numbered].copy_from_slice(&number.to_le_bytes()[known..numbered]);
        (numbered..message.len()).for_each(|index| message[index] = pattern(index));
        *last = number;
        true
    }

    /// Returns the number nearest to `last` with that code and these low bytes; `None` if no number has them.
    fn number_of(&self, code: u32, low: &[u8], last: u64) -> Option<u64> {
        let is_code = |number: &u64| short(self.received[place(*number)]) == code;
        let modulus = 1_u64.checked_shl(8 * low.len() as u32);
        let nearest = |low| modulus.map_or(Some(low), |modulus| nearest_with(last, low, modulus));
        if low.len() >= size_of::<u16>() {
            // These bytes tell the place of the code.
            return nearest(low_bytes(low)).filter(is_code);
        }
        let places = self.index.as_ref()?.places(code);
        let has_low = |place: &u64| place.to_le_bytes().starts_with(low);
        let numbers =
            places.filter(has_low).filter_map(|place| nearest_with(last, place, CODES as u64)).filter(is_code);
        numbers.min_by_key(|number| number.abs_diff(last))
    }
}

impl Index {
    fn of(codes: &[u64]) -> Self {
        let mut starts = vec![0; CODES + 1].into_boxed_slice();
        codes.iter().for_each(|code| starts[upper_half(short(*code)) + 1] += 1);
        (0..CODES).for_each(|half| starts[half + 1] += starts[half]);
        let (mut next, mut places) = (starts.clone(), vec![0; CODES].into_boxed_slice());
        for (place, code) in (0..=u16::MAX).zip(codes) {
            let slot = &mut next[upper_half(short(*code))];
            places[*slot as usize] = place;
            *slot += 1;
        }
        Self { places, starts }
    }

    /// Places whose codes have the upper half of this code.
    fn places(&self, code: u32) -> impl Iterator<Item = u64> {
        let half = upper_half(code);
        self.places[self.starts[half] as usize..self.starts[half + 1] as usize].iter().map(|place| u64::from(*place))
    }
}

/// The code of a short message: the first 4 bytes.
fn short(code: u64) -> u32 {
    code as u32
}

fn upper_half(code: u32) -> usize {
    (code >> 16) as usize
}

#[inline]
fn low_bytes(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |so_far, byte| so_far << 8 | u64::from(*byte))
}

#[inline]
fn place(number: u64) -> usize {
    // The remainder is below the length of the table.
    (number % CODES as u64) as usize
}

/// Returns the number that is `low` modulo `modulus` and at most half of that before or after `last`; `None` if it would be
/// negative.
fn nearest_with(last: u64, low: u64, modulus: u64) -> Option<u64> {
    let ahead = low.wrapping_sub(last) % modulus;
    if ahead > modulus / 2 { last.checked_sub(modulus - ahead) } else { last.checked_add(ahead) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Two ends of a flow. The codes are different in each direction.
    fn ends(bytes: usize) -> [Codes; 2] {
        // splitmix64
        let mix = |number: u64| {
            let first = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let second = (first ^ first >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
            second ^ second >> 31
        };
        let table = |seed: u64| {
            (1..=CODES as u64).map(move |number| mix((number + seed).wrapping_mul(0x9e37_79b9_7f4a_7c15)))
        };
        let [up, down] = [table(0).collect::<Arc<[u64]>>(), table(1 << 40).collect()];
        [Codes::new(Arc::clone(&up), Arc::clone(&down), bytes), Codes::new(down, up, bytes)]
    }

    /// A message as the loops send it.
    fn message(number: u64, size: usize) -> Vec<u8> {
        (0..size).map(|index| number.to_le_bytes().get(index).copied().unwrap_or(pattern(index))).collect()
    }

    fn sealed(codes: &Codes, message: &[u8]) -> Vec<u8> {
        let mut message = message.to_vec();
        codes.write(&mut message);
        message
    }

    #[test]
    fn a_message_is_restored_by_the_other_end_and_refused_by_its_own() {
        for size in 1..40 {
            let [client, server] = ends(size);
            let mut newest = 0;
            for number in (0..2000).chain([1999 + 30_000, 30_000]) {
                let original = message(number, size);
                let mut received = sealed(&client, &original);
                assert_eq!(received.len(), size);
                assert_eq!(received == original, size < 4, "{size}");
                let mut reflected = received.clone();
                assert!(server.open(&mut received, &mut newest), "{number} in {size} bytes");
                assert_eq!(received, original, "{number} in {size} bytes");
                assert_eq!(client.open(&mut reflected, &mut { newest }), size < 4, "{size}: its own message");
            }
        }
    }

    #[test]
    fn a_guessed_code_does_not_lead_away_from_the_numbers_of_the_other_end() {
        let [client, server] = ends(4);
        for (last, guessed) in [(100, 30_000), (100, 60_000), (40_000, 10_000), (1 << 33, (1 << 33) - 32_000)] {
            let mut number = last;
            // A message with a valid code, of a number that was not sent.
            server.open(&mut sealed(&client, &message(guessed, 4)), &mut number);
            assert!(server.open(&mut sealed(&client, &message(last + 1, 4)), &mut number), "{guessed}");
            assert_eq!(number, last + 1, "{guessed}");
        }
    }

    #[test]
    fn forged_messages_are_as_rare_as_codes_of_their_length() {
        let [client, server] = ends(16);
        let original = message(500, 16);
        let received = sealed(&client, &original);
        // Every other value of a byte of the code.
        for index in 8..16 {
            for byte in (0..=255).filter(|byte| *byte != received[index]) {
                let mut forged = received.clone();
                forged[index] = byte;
                assert!(!server.open(&mut forged, &mut 499), "byte {index}");
            }
        }
        let mut state = 7_u64;
        let mut random = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 32) as u32
        };
        for other in (0..40).filter(|size| *size != 16) {
            assert!(!server.open(&mut sealed(&client, &message(500, other)), &mut 499), "{other} bytes");
        }
        let [_, server] = ends(12);
        let of_12 =
            (0..200_000).filter(|_| server.open(&mut [random().to_le_bytes(); 3].concat(), &mut { 500 })).count();
        let [_, server] = ends(4);
        assert_eq!(of_12, 0);
        // 65 536 of 2^32 values are codes: 0.03 of 2 000 are expected.
        let of_4 = (0..2_000).filter(|_| server.open(&mut random().to_le_bytes(), &mut { 500 })).count();
        assert!(of_4 <= 2, "{of_4}");
    }

    proptest! {
        #[test]
        fn any_bytes_are_refused_or_opened_without_a_panic(
            mut bytes in proptest::collection::vec(any::<u8>(), 0..40),
            newest in prop_oneof![Just(0), Just(u64::MAX), any::<u64>()],
        ) {
            let [client, server] = ends(bytes.len());
            let original = bytes.clone();
            let mut opened = sealed(&client, &bytes);
            let [mut of_server, mut of_client] = [newest; 2];
            let is_opened = server.open(&mut opened, &mut of_server);
            // Without all bytes of the number, one that is far from the last is refused.
            prop_assert!(is_opened || bytes.is_empty() || (4..12).contains(&bytes.len()));
            let is_open = client.open(&mut bytes, &mut of_client);
            prop_assert!(is_open || bytes == original);
        }
    }
}
