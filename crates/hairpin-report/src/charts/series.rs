//! The colour, mark and dash of each case. All charts of a page use the same ones.

use std::collections::BTreeMap;

use hairpin_model::{Run, ladder};

use crate::one_way::Shared;

/// Number of colours; style.css has a variable for each.
pub(crate) const COLOURS: usize = 8;
/// Number of dashes; style.css has a class for each.
pub(crate) const DASHES: usize = 4;

/// The appearance of a series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SeriesStyle {
    /// Colour and mark, from 0.
    pub(crate) colour: usize,
    /// Dash, from 0 (solid). Dashed series have hollow marks.
    pub(crate) dash: usize,
}

impl SeriesStyle {
    /// Numbers run through all colours, then through all colours with the next dash.
    pub(crate) fn numbered(number: usize) -> Self {
        Self { colour: number % COLOURS, dash: number / COLOURS % DASHES }
    }

    /// Returns the classes in style.css.
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
    let mut names: Vec<(String, String)> = Vec::new();
    for row in &run.cases {
        let name = ladder::row_name(row);
        if !names.iter().any(|(known, _)| *known == name) {
            let of_series = row.case.primary().load.is_one_way().then(|| shared.series(row).join(" "));
            names.push((name, of_series.unwrap_or_else(|| family(&row.case.primary().transport))));
        }
    }
    let mut members: Vec<(String, usize)> = Vec::new();
    let mut by_kin = Vec::with_capacity(names.len());
    for (_, kin) in &names {
        let place = members.iter().position(|(known, _)| known == kin).unwrap_or_else(|| {
            members.push((kin.clone(), 0));
            members.len() - 1
        });
        by_kin.push(SeriesStyle { colour: place, dash: members[place].1 });
        members[place].1 += 1;
    }
    let kin_suffice = members.len() <= COLOURS && members.iter().all(|(_, count)| *count <= DASHES);
    let looks = |(place, (name, _)): (usize, (String, String))| {
        if is_one_way {
            let SeriesStyle { colour, dash } = by_kin[place];
            return (name, SeriesStyle { colour: colour % COLOURS, dash: dash % DASHES });
        }
        let each = SeriesStyle::numbered(place);
        (name, if by_kin.len() > COLOURS && kin_suffice { by_kin[place] } else { each })
    };
    names.into_iter().enumerate().map(looks).collect()
}

/// Returns `unix` for `unix-stream`, `tcp` for `tcp6`.
fn family(transport: &str) -> String {
    let first = transport.split('-').next().unwrap_or(transport);
    first.trim_end_matches(|letter: char| letter.is_ascii_digit()).to_owned()
}
