//! What a round is measured for.

use crate::words;

words! {
    /// Purpose of a round.
    #[derive(Default)]
    pub enum Purpose: "purpose" {
        /// Its figures are the answer.
        #[default]
        Timed = "timed",
        /// Traced: its figures are no answer, its trace is evidence.
        Traced = "traced",
        /// Like a traced one, without tracing: the difference is the cost of tracing.
        Untraced = "untraced",
    }
}
