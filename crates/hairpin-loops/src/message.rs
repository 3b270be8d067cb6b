//! The content of a message: its sequence number in the first bytes (8, or as many as fit), then a fixed pattern.

use hairpin_model::Case;
use hairpin_transports::{Codes, clear_number, pattern};

pub fn patterned(len: usize) -> Vec<u8> {
    (0..len).map(pattern).collect()
}

/// Sizes of a message of the case and of its answer.
///
/// # Panics
/// If a size is above the limit of all transports, 1 GiB.
pub(super) fn sizes(case: &Case) -> [usize; 2] {
    let load = &case.primary().load;
    [load.size_bytes(), load.reply_size_bytes()].map(|bytes| usize::try_from(bytes).expect("sizes are at most 1 GiB"))
}

/// The message being sent and its expected answer: the beginning of the message, followed by the pattern if the answer
/// is longer than the message.
#[derive(Debug)]
pub struct Message {
    bytes: Vec<u8>,
    size: usize,
    reply_size: usize,
    numbered: usize,
    coded: Option<(Codes, Vec<u8>)>,
}

impl Message {
    /// Creates a message of `size` bytes whose answer has `reply_size` bytes.
    pub fn new(size: usize, reply_size: usize) -> Self {
        Self { bytes: patterned(size.max(reply_size)), size, reply_size, numbered: size.min(8), coded: None }
    }

    pub(super) fn set_codes(&mut self, codes: Option<Codes>) {
        if codes.is_some() {
            clear_number(&mut self.bytes, self.numbered);
        }
        self.coded = codes.map(|codes| (codes, self.bytes[..self.size].to_vec()));
    }

    /// Writes the sequence number into the message, or as many of its low bytes as fit.
    #[inline]
    pub fn number(&mut self, sequence: u64) {
        // Byte by byte: copying a variable length would need a function call.
        for (byte, new) in self.bytes.iter_mut().take(self.numbered).zip(sequence.to_le_bytes()) {
            *byte = new;
        }
        if let Some((codes, message)) = &mut self.coded {
            // The code may replace a part of the number.
            message[..self.numbered].copy_from_slice(&self.bytes[..self.numbered]);
            codes.write(message);
        }
    }

    #[inline]
    pub fn request(&self) -> &[u8] {
        self.coded.as_ref().map_or(&self.bytes[..self.size], |(_, message)| message)
    }

    #[inline]
    pub fn expected(&self) -> &[u8] {
        &self.bytes[..self.reply_size]
    }

    /// Number of bytes of an answer that hold the sequence number.
    pub fn numbered_reply(&self) -> usize {
        self.numbered.min(self.reply_size)
    }

    /// The sequence number of an answer. An answer holds as many low bytes of the number as fit; of all numbers with
    /// these low bytes, returns the largest up to `newest`. `None` if no such number exists.
    pub fn sequence_of(&self, reply: &[u8], newest: u64) -> Option<u64> {
        let width = self.numbered_reply();
        if width == 8 {
            let number = u64::from_le_bytes(reply.get(..8)?.try_into().ok()?);
            return (number <= newest).then_some(number);
        }
        let mut low = [0; 8];
        low[..width].copy_from_slice(reply.get(..width)?);
        let modulus = 1_u64 << (8 * width);
        let behind = newest.wrapping_sub(u64::from_le_bytes(low)) % modulus;
        newest.checked_sub(behind)
    }

    /// Describes how an answer differs from the expected answer, ignoring the sequence number; `None` if it does not.
    pub fn difference(&self, reply: &[u8]) -> Option<String> {
        if reply.len() != self.reply_size {
            return Some(format!("it has {} bytes instead of {}", reply.len(), self.reply_size));
        }
        let from = self.numbered_reply();
        let wrong = (from..reply.len()).find(|index| reply[*index] != self.bytes[*index])?;
        Some(format!("byte {wrong} is {:#04x} instead of {:#04x}", reply[wrong], self.bytes[wrong]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sequence_number_takes_as_many_bytes_as_fit() {
        let mut message = Message::new(2, 2);
        message.number(0x01_02_03);
        assert_eq!(message.request(), [3, 2]);
        assert_eq!(message.sequence_of(&[3, 2], 0x01_02_05), Some(0x01_02_03));
        assert_eq!(message.sequence_of(&[9, 2], 0x01_02_05), Some(0x02_09));
        assert_eq!(message.sequence_of(&[9, 2], 5), None, "not sent yet");
    }

    #[test]
    fn a_longer_answer_is_the_message_and_the_pattern() {
        let mut message = Message::new(4, 10);
        message.number(7);
        assert_eq!(message.expected()[..4], [7, 0, 0, 0]);
        assert_eq!(message.expected()[4..], patterned(10)[4..]);
    }

    #[test]
    fn a_difference_names_the_byte() {
        let message = Message::new(12, 12);
        let mut reply = message.expected().to_vec();
        assert_eq!(message.difference(&reply), None);
        reply[11] ^= 0xff;
        assert!(message.difference(&reply).unwrap().starts_with("byte 11 is"));
        assert_eq!(message.difference(&reply[..5]).unwrap(), "it has 5 bytes instead of 12");
    }
}
