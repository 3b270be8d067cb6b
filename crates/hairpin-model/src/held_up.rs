//! Why the generator of an open loop had to wait.

use crate::words;

words! {
    /// The limit on unanswered messages that the generator reached: the range of their numbers.
    pub enum HeldUp: "limit on unanswered messages" {
        /// The number has one byte, as the message has.
        SizeOfOneByte = "size-of-one-byte",
        /// The number has one byte, as the answer has.
        ReplyOfOneByte = "reply-of-one-byte",
        /// The number has two bytes.
        Unanswered = "unanswered-messages",
    }
}

impl HeldUp {
    /// A sentence without the full stop.
    pub fn cause(self) -> &'static str {
        match self {
            Self::SizeOfOneByte | Self::ReplyOfOneByte => {
                "at most 128 messages can be unanswered where their number has one byte"
            }
            Self::Unanswered => "at most 32 768 messages can be unanswered",
        }
    }

    /// What helps.
    pub fn remedy(self) -> &'static str {
        match self {
            Self::SizeOfOneByte => "--size 2 or more, or a shorter --timeout",
            Self::ReplyOfOneByte => "--reply-size 2 or more, or a shorter --timeout",
            Self::Unanswered => "a lower --rate, or a shorter --timeout",
        }
    }
}
