//! A list of numbers in a profile: `3,10-12`.

use hairpin_model::Refused;

use crate::quantity::whole;

pub const MAX_RANGES: usize = 10_000;

/// A set of numbers, as sorted ranges that neither overlap nor are adjacent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Numbers(Vec<(u64, u64)>);

impl Numbers {
    /// Parses `3,10-12`; ranges include both ends. Refuses numbers below `least`.
    pub fn read(text: &str, least: u64) -> Result<Self, Refused> {
        let ranges = text.split(',').map(|part| range(part, least)).collect::<Result<Vec<_>, _>>()?;
        if ranges.len() > MAX_RANGES {
            let problem = format!("{} numbers and ranges are too many", ranges.len());
            return Err(Refused::new(problem, format!("at most {MAX_RANGES}")));
        }
        Ok(Self::from_ranges(ranges))
    }

    /// The set of all numbers in these ranges, which include both ends.
    pub fn from_ranges(mut ranges: Vec<(u64, u64)>) -> Self {
        ranges.retain(|(first, last)| first <= last);
        ranges.sort_unstable();
        let mut merged: Vec<(u64, u64)> = Vec::with_capacity(ranges.len());
        for (first, last) in ranges {
            match merged.last_mut() {
                Some((_, end)) if first <= end.saturating_add(1) => *end = last.max(*end),
                _ => merged.push((first, last)),
            }
        }
        Self(merged)
    }

    pub fn contains(&self, number: u64) -> bool {
        let before = self.0.partition_point(|(_, last)| *last < number);
        self.0.get(before).is_some_and(|(first, _)| *first <= number)
    }

    /// The set as a profile shows it; `None` if it is empty.
    pub fn shown(&self) -> Option<String> {
        let range = |(first, last): &(u64, u64)| {
            if first == last { first.to_string() } else { format!("{first}-{last}") }
        };
        (!self.0.is_empty()).then(|| self.0.iter().map(range).collect::<Vec<_>>().join(","))
    }
}

fn range(text: &str, least: u64) -> Result<(u64, u64), Refused> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let hint = "numbers and ranges separated by commas, for instance 3,10-12";
    let number = |text| whole(text).map_err(|bad| Refused::new(bad.what, hint));
    let (first, last) = (number(first)?, number(last)?);
    if first < least {
        return Err(Refused::new(
            format!("`{text}` contains numbers below {least}"),
            format!("the first is number {least}"),
        ));
    }
    if last < first {
        return Err(Refused::new(format!("`{text}` ends before it begins"), format!("for instance {last}-{first}")));
    }
    Ok((first, last))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_list_is_shown_in_order_and_joined() {
        assert_eq!(Numbers::read("12,3,10-11,3", 0).unwrap().shown().as_deref(), Some("3,10-12"));
        assert_eq!(Numbers::default().shown(), None);
    }

    #[test]
    fn invalid_lists_are_refused() {
        for text in ["", ",", "3,", "a", "3-", "5-3", "-3", "1.5", "99999999999999999999"] {
            assert!(Numbers::read(text, 0).is_err(), "{text}");
        }
        assert_eq!(Numbers::read("0", 1).unwrap_err().hint, "the first is number 1");
        let many = vec!["1"; MAX_RANGES + 1].join(",");
        assert!(Numbers::read(&many, 0).is_err());
    }

    proptest! {
        #[test]
        fn a_list_contains_exactly_its_numbers(ranges in prop::collection::vec((0_u64..60, 0_u64..5), 0..12)) {
            let ranges: Vec<_> = ranges.into_iter().map(|(first, more)| (first, first + more)).collect();
            let set: BTreeSet<u64> = ranges.iter().flat_map(|(first, last)| *first..=*last).collect();
            let numbers = Numbers::from_ranges(ranges);
            for number in 0..70 {
                prop_assert_eq!(numbers.contains(number), set.contains(&number));
            }
            prop_assert_eq!(numbers.shown().is_none(), set.is_empty());
            if let Some(shown) = numbers.shown() {
                prop_assert_eq!(Numbers::read(&shown, 0).unwrap(), numbers);
            }
        }
    }
}
