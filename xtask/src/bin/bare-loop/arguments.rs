//! Values on the command line, which is pairs of a name and a value.

use std::str::FromStr;

/// Calls `read` with each name and its value.
pub(crate) fn each_pair(
    arguments: &[String],
    mut read: impl FnMut(&str, &str) -> Result<(), String>,
) -> Result<(), String> {
    arguments.chunks(2).try_for_each(|pair| match pair {
        [name, value] => read(name, value),
        _ => Err(format!("`{}` has no value", pair[0])),
    })
}

pub(crate) fn one_of(name: &str, value: &str, yes: &str, no: &str) -> Result<bool, String> {
    match value {
        _ if value == yes => Ok(true),
        _ if value == no => Ok(false),
        _ => Err(format!("{name} takes {yes} or {no}, not `{value}`")),
    }
}

pub(crate) fn number<T: FromStr>(name: &str, value: &str) -> Result<T, String> {
    value.parse().map_err(|_| format!("{name} takes a whole number, not `{value}`"))
}

pub(crate) fn cpus(value: &str) -> Result<(usize, usize), String> {
    let (one, other) = value.split_once(',').ok_or_else(|| format!("--cpus takes two numbers, not `{value}`"))?;
    Ok((number("--cpus", one)?, number("--cpus", other)?))
}
