//! Sorted intervals of time without overlaps.

#[derive(Clone, Debug, Default)]
pub(super) struct Intervals(Vec<(u64, u64)>);

impl Intervals {
    /// Merges intervals that overlap, and drops empty ones.
    pub(super) fn new(all: impl IntoIterator<Item = (u64, u64)>) -> Self {
        let mut all: Vec<(u64, u64)> = all.into_iter().filter(|(from, until)| from < until).collect();
        all.sort_unstable();
        let mut merged: Vec<(u64, u64)> = Vec::new();
        for (from, until) in all {
            match merged.last_mut().filter(|last| from <= last.1) {
                Some(last) => last.1 = last.1.max(until),
                None => merged.push((from, until)),
            }
        }
        Self(merged)
    }

    /// Returns the parts of the intervals between two times.
    pub(super) fn within(&self, from: u64, until: u64) -> impl Iterator<Item = (u64, u64)> + '_ {
        let first = self.0.partition_point(|(_, end)| *end <= from);
        let parts = self.0[first..].iter().take_while(move |(begin, _)| *begin < until);
        parts.map(move |(begin, end)| ((*begin).max(from), (*end).min(until)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlaps_are_merged_and_parts_are_cut() {
        let intervals = Intervals::new([(30, 40), (5, 10), (8, 20), (40, 45), (7, 7), (9, 1)]);
        assert_eq!(intervals.0, [(5, 20), (30, 45)]);
        assert_eq!(intervals.within(10, 35).collect::<Vec<_>>(), [(10, 20), (30, 35)]);
        assert_eq!(intervals.within(20, 30).count() + intervals.within(45, 90).count(), 0);
    }
}
