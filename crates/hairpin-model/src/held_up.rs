//! Why the generator of an open loop had to wait.

use crate::words;

words! {
    /// The limit on unanswered messages that the generator reached. Each unanswered message has its own number, so
    /// the size of a number limits how many messages can be unanswered.
    pub enum HeldUp: "limit on unanswered messages" {
        /// Numbers have one byte because messages have one byte.
        SizeOfOneByte = "size-of-one-byte",
        /// Numbers have one byte because answers have one byte.
        ReplyOfOneByte = "reply-of-one-byte",
        /// Numbers have two bytes.
        Unanswered = "unanswered-messages",
    }
}
