//! Purpose of a round.

use crate::words;

words! {
    /// Purpose of a round.
    #[derive(Default)]
    pub enum Purpose: "purpose" {
        /// Its figures are the answer.
        #[default]
        Timed = "timed",
        /// Traced: only its trace is used, as evidence.
        Traced = "traced",
        /// Like a traced round, but without tracing. Their difference is the cost of tracing.
        Untraced = "untraced",
    }
}
