//! Kernel settings of a case, by name.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::refused::Refused;

const MAX_NAME_BYTES: usize = 128;
const MAX_VALUE_BYTES: usize = 128;

/// Settings below `net.` and their values, sorted by name. Every name is safe as a path below `/proc/sys`.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, crate::JsonSchema)]
#[serde(try_from = "BTreeMap<String, String>")]
pub struct Sysctls(BTreeMap<String, String>);

impl Sysctls {
    /// Adds or changes a setting.
    ///
    /// # Errors
    /// [`Refused`] for a name that is not a setting below `net.`, and for an empty or too long value.
    pub fn with(mut self, name: &str, value: &str) -> Result<Self, Refused> {
        check_name(name)?;
        let value = value.split_whitespace().collect::<Vec<_>>().join(" ");
        let is_plain = value.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' ');
        if value.is_empty() || value.len() > MAX_VALUE_BYTES || !is_plain {
            return Err(Refused::new(
                format!("setting `{name}` has no valid value"),
                "write NAME=VALUE, for instance net.ipv4.tcp_sack=0",
            ));
        }
        self.0.insert(name.to_owned(), value);
        Ok(self)
    }

    /// Merges both; values of `other` have priority.
    pub fn and(mut self, other: Self) -> Self {
        self.0.extend(other.0);
        self
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Accepts names such as `net.ipv4.tcp_sack`: letters, digits, `_` and `-` between single dots.
fn check_name(name: &str) -> Result<(), Refused> {
    let is_part = |part: &str| {
        !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte))
    };
    let is_name = name.len() <= MAX_NAME_BYTES && name.starts_with("net.") && name.split('.').all(is_part);
    is_name.then_some(()).ok_or_else(|| {
        Refused::new(
            format!("`{name}` is not a kernel setting below `net.`"),
            "write it as sysctl does, for instance net.ipv4.tcp_sack",
        )
    })
}

impl TryFrom<BTreeMap<String, String>> for Sysctls {
    type Error = Refused;

    fn try_from(settings: BTreeMap<String, String>) -> Result<Self, Refused> {
        settings.iter().try_fold(Self::default(), |all, (name, value)| all.with(name, value))
    }
}

impl FromStr for Sysctls {
    type Err = Refused;

    /// Parses one setting: `net.ipv4.tcp_sack=0`.
    fn from_str(text: &str) -> Result<Self, Refused> {
        let (name, value) = text.split_once('=').ok_or_else(|| {
            Refused::new(
                format!("setting `{text}` has no value"),
                "write NAME=VALUE, for instance net.ipv4.tcp_sack=0",
            )
        })?;
        Self::default().with(name.trim(), value)
    }
}

impl fmt::Display for Sysctls {
    /// One argument per setting, separated by spaces: `net.ipv4.tcp_sack=0`.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let settings: Vec<String> = self.iter().map(|(name, value)| format!("{name}={value}")).collect();
        out.write_str(&settings.join(" "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_read_and_kept_by_name() {
        let settings: Sysctls = "net.ipv4.tcp_wmem = 4096\t16384  4194304".parse().unwrap();
        assert_eq!(settings.get("net.ipv4.tcp_wmem"), Some("4096 16384 4194304"));
        let settings = settings.with("net.ipv4.conf.eth0.rp_filter", "1").unwrap();
        assert_eq!(settings.to_string(), "net.ipv4.conf.eth0.rp_filter=1 net.ipv4.tcp_wmem=4096 16384 4194304");
        let json = serde_json::to_string(&settings).unwrap();
        assert_eq!(serde_json::from_str::<Sysctls>(&json).unwrap(), settings);
    }

    #[test]
    fn unsafe_names_are_refused_from_text_and_from_json() {
        let long = format!("net.{}", "a".repeat(MAX_NAME_BYTES));
        for name in [
            "net",
            "net.",
            "net..ipv4",
            "net.ipv4.",
            ".net.ipv4",
            "kernel.hostname",
            "net/ipv4/tcp_sack",
            "net.../../kernel/hostname",
            "net.ipv4.tcp sack",
            "net.ipv4.tcp\nsack",
            "net.ipv4.\0",
            "net.ipv4.\u{e4}",
            &long,
        ] {
            let refused = Sysctls::default().with(name, "1").unwrap_err();
            assert!(refused.to_string().contains("is not a kernel setting"), "{name:?}: {refused}");
            let json = serde_json::json!({ name: "1" });
            serde_json::from_value::<Sysctls>(json).unwrap_err();
        }
        for value in ["", " ", "1\0", "\u{1b}[2J", &"1".repeat(MAX_VALUE_BYTES + 1)] {
            let refused = Sysctls::default().with("net.ipv4.tcp_sack", value).unwrap_err();
            assert!(refused.to_string().contains("has no valid value"), "{value:?}");
        }
        "net.ipv4.tcp_sack".parse::<Sysctls>().unwrap_err();
    }
}
