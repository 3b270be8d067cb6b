//! Kernel settings of the network protocols, in the network namespace of the calling thread.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};

use hairpin_model::{Fact, FactValue, Failure, RoundOrder, Sysctls};

/// Prefix of facts about kernel settings; the name of the setting follows.
const FACT_PREFIX: &str = "sysctl.";

/// The value of `net.ipv4.NAME` as the kernel writes it; empty if the setting does not exist.
pub(crate) fn ipv4(name: &str) -> String {
    fs::read_to_string(file_of(&format!("net.ipv4.{name}"))).unwrap_or_default()
}

/// The file of a kernel setting. The value is that of the network namespace of the thread that opens the file.
pub(crate) fn file_of(name: &str) -> String {
    format!("/proc/sys/{}", name.replace('.', "/"))
}

/// Writes every kernel setting of the order's case in the calling thread's network namespace, which must have been
/// created for the round. Both ends read the values back.
pub(crate) fn set(order: &RoundOrder) -> Result<(), Failure> {
    for (name, value) in order.case.sysctls.iter() {
        if let Err(error) = write(name, value)
            && !order.allow_unmet_options
        {
            return Err(Failure::new(
                &error,
                format!("sysctl {name}={value} was not granted in the network namespace of the round: {error}"),
                "--allow-unmet-options continues with what was granted",
            ));
        }
    }
    Ok(())
}

/// The values of the requested settings in the calling thread's network namespace.
pub(crate) fn facts(sysctls: &Sysctls) -> Vec<Fact> {
    let fact = |name: &str| {
        let text = fs::read_to_string(file_of(name)).unwrap_or_default();
        Fact::word(&format!("{FACT_PREFIX}{name}"), text.split_whitespace().collect::<Vec<_>>().join(" "))
    };
    sysctls.iter().map(|(name, _)| fact(name)).collect()
}

/// The first setting that differs from the request: its name, the requested value and the actual value.
pub(crate) fn unmet<'a>(sysctls: &'a Sysctls, facts: &'a [Fact]) -> Option<(&'a str, &'a str, String)> {
    sysctls.iter().find_map(|(name, asked)| {
        let fact = facts.iter().find(|fact| fact.name.strip_prefix(FACT_PREFIX) == Some(name));
        let is = match fact.map(|fact| &fact.value) {
            Some(FactValue::Word(word)) => word.clone(),
            Some(FactValue::Number(number)) => number.to_string(),
            None => String::new(),
        };
        (!is_same(asked, &is)).then_some((name, asked, is))
    })
}

/// Whether the kernel's value equals the requested value. Integers are compared by value: `01` equals 1.
fn is_same(asked: &str, is: &str) -> bool {
    let integers = |text: &str| text.split_whitespace().map(str::parse).collect::<Result<Vec<i128>, _>>().ok();
    asked == is || integers(asked).is_some_and(|asked| integers(is) == Some(asked))
}

pub(crate) fn set_ipv4(name: &str, value: &str) -> io::Result<()> {
    write(&format!("net.ipv4.{name}"), value)
}

pub(crate) fn available_congestion_controls() -> Vec<String> {
    ipv4("tcp_available_congestion_control").split_whitespace().map(str::to_owned).collect()
}

pub(crate) fn write(name: &str, value: &str) -> io::Result<()> {
    OpenOptions::new().write(true).open(file_of(name))?.write_all(value.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_compared_as_integers_if_both_are() {
        let is_met = |asked: &str, is: &str| {
            let settings: Sysctls = format!("net.ipv4.tcp_sack={asked}").parse().unwrap();
            unmet(&settings, &[Fact::word("sysctl.net.ipv4.tcp_sack", is.to_owned())]).is_none()
        };
        assert!(is_met("01", "1") && is_met("4096 016384", "4096 16384") && is_met("cubic", "cubic"));
        assert!(!is_met("01", "0") && !is_met("1", "") && !is_met("1 2", "1") && !is_met("cubic", "reno"));
    }
}
