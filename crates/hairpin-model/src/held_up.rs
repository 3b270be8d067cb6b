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
