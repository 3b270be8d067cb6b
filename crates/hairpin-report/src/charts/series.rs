//! The colour, mark and dash of each case. All charts of a page use the same ones.

use std::collections::BTreeMap;

use hairpin_model::names::grouped;
use hairpin_model::{CaseSummary, Run, ladder};

use crate::one_way::Shared;

/// Number of colours; style.css has a variable for each.
pub(crate) const COLOURS: usize = 8;
/// Number of dashes; style.css has a class for each.
pub(crate) const DASHES: usize = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SeriesStyle {
    /// Colour and mark, from 0.
    pub(crate) colour: usize,
    /// Dash, from 0 (solid). Dashed series have hollow marks.
    pub(crate) dash: usize,
}

impl SeriesStyle {
    pub(crate) fn numbered(number: usize) -> Self {
        Self { colour: number % COLOURS, dash: number / COLOURS % DASHES }
    }

    pub(crate) fn classes(self) -> String {
        format!("s{} d{}", self.colour, self.dash)
    }
}

/// Returns styles by [`ladder::row_name`]. Up to eight names have different colours. If there are more names, related
/// transports such as `tcp` and `tcp6` share a colour and differ by dash. If a family is too large for that, colours
/// repeat. Cases in a series of one-way loads always share the colour of the series.
pub(crate) fn assign(run: &Run) -> BTreeMap<String, SeriesStyle> {
    let shared = Shared::of(run.cases.iter());
    let is_one_way = run.cases.iter().any(|row| row.case.primary().load.is_one_way());
    let kin = |row: &CaseSummary| match row.case.primary().load.is_one_way() {
        true => shared.series(row).join(" "),
        false => family(&row.case.primary().transport),
    };
    let names = grouped(run.cases.iter().map(|row| (ladder::row_name(row), kin(row)))).into_iter();
    let names: Vec<(String, String)> = names.map(|(name, mut kin)| (name, kin.swap_remove(0))).collect();
    let families = grouped(names.iter().map(|(name, kin)| (kin, name)));
    let kin_suffice = families.len() <= COLOURS && families.iter().all(|(_, members)| members.len() <= DASHES);
    let by_kin = |kin: &String, name: &String| {
        let colour = families.iter().position(|(known, _)| *known == kin)?;
        let dash = families[colour].1.iter().position(|member| *member == name)?;
        Some(SeriesStyle { colour: colour % COLOURS, dash: dash % DASHES })
    };
    let looks = |(place, (name, kin)): (usize, &(String, String))| {
        let uses_kin = is_one_way || names.len() > COLOURS && kin_suffice;
        let style = by_kin(kin, name).filter(|_| uses_kin).unwrap_or(SeriesStyle::numbered(place));
        (name.clone(), style)
    };
    names.iter().enumerate().map(looks).collect()
}

/// Returns `unix` for `unix-stream`, `tcp` for `tcp6`.
fn family(transport: &str) -> String {
    let first = transport.split('-').next().unwrap_or(transport);
    first.trim_end_matches(|letter: char| letter.is_ascii_digit()).to_owned()
}
