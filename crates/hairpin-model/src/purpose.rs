//! Purpose of a round.

use crate::words;

words! {
    /// Purpose of a round.
    #[derive(Default)]
    pub enum Purpose: "purpose" {
        /// The round's figures answer the run's question.
        #[default]
        Timed = "timed",
        /// Traced: only its trace is used, as evidence.
        Traced = "traced",
        /// Like a traced round, but without tracing. The difference from traced rounds is the cost of tracing.
        Untraced = "untraced",
        /// Some messages are sampled for the latency budget. Its figures are not results.
        Stamped = "stamped",
    }
}
