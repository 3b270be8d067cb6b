//! `ssh://[USER@]HOST[:PORT]`: a host to reach over ssh.

use std::fmt;

use hairpin_model::Refused;

use crate::ticket::host_and_port;

const SCHEME: &str = "ssh://";
/// Longest user name in bytes (`LOGIN_NAME_MAX` of Linux).
const MAX_USER_BYTES: usize = 255;

/// A host to reach over ssh: an address, or a name in DNS or in the user's ssh configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SshHost {
    /// User name on the host; `None`: from the ssh configuration.
    pub user: Option<String>,
    /// Name or address.
    pub host: String,
    /// Port of the ssh server; `None`: from the ssh configuration.
    pub port: Option<u16>,
}

impl SshHost {
    pub fn is_meant(text: &str) -> bool {
        text.starts_with(SCHEME)
    }

    /// Parses `ssh://[USER@]HOST[:PORT]`. Rejects parts that ssh would read as an option or that a shell would expand.
    ///
    /// # Errors
    /// A part is missing or has invalid characters. The error does not repeat the text, which may contain a password.
    pub fn parse(text: &str) -> Result<Self, Refused> {
        let refused =
            |what: &str| Refused::new(format!("not a host over ssh: {what}"), "ssh://[USER@]HOST[:PORT]".to_owned());
        let rest = text.strip_prefix(SCHEME).ok_or_else(|| refused("it does not begin with ssh://"))?;
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        let (user, rest) = rest.rsplit_once('@').map_or((None, rest), |(user, rest)| (Some(user), rest));
        if user.is_some_and(|user| user.contains(':')) {
            return Err(refused("it must not contain a password: ssh has to log in without one"));
        }
        if user.is_some_and(|user| !is_user(user)) {
            return Err(refused("the user name is empty, begins with `-`, or has invalid characters"));
        }
        let (host, port) = host_and_port(rest)
            .filter(|(host, _)| is_host(host))
            .ok_or_else(|| refused("the host is missing or invalid, or the port is not from 1 to 65535"))?;
        Ok(Self { user: user.map(str::to_owned), host, port })
    }
}

impl fmt::Display for SshHost {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(SCHEME)?;
        if let Some(user) = &self.user {
            write!(to, "{user}@")?;
        }
        if self.host.contains(':') { write!(to, "[{}]", self.host) } else { to.write_str(&self.host) }?;
        self.port.map_or(Ok(()), |port| write!(to, ":{port}"))
    }
}

fn is_user(text: &str) -> bool {
    let fits = |letter: u8| letter.is_ascii_alphanumeric() || b"._-+".contains(&letter);
    !text.is_empty() && text.len() <= MAX_USER_BYTES && !text.starts_with('-') && text.bytes().all(fits)
}

/// Whether a host that is valid in a ticket is also valid for ssh: `-` begins an ssh option, and `%` an ssh token.
fn is_host(text: &str) -> bool {
    !text.starts_with('-') && (text.contains(':') || !text.contains('%'))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_host_with_and_without_user_and_port_is_read_and_shown() {
        for (text, user, host, port) in [
            ("ssh://lab", None, "lab", None),
            ("ssh://lab.example.org:2222", None, "lab.example.org", Some(2222)),
            ("ssh://me-2@192.0.2.7", Some("me-2"), "192.0.2.7", None),
            ("ssh://me@[2001:db8::1]:22", Some("me"), "2001:db8::1", Some(22)),
            ("ssh://[fe80::1%eth0]", None, "fe80::1%eth0", None),
        ] {
            let read = SshHost::parse(text).unwrap();
            assert_eq!(read, SshHost { user: user.map(str::to_owned), host: host.to_owned(), port });
            assert_eq!(read.to_string(), text);
        }
        assert_eq!(SshHost::parse("ssh://lab/").unwrap().to_string(), "ssh://lab");
    }

    #[test]
    fn text_that_ssh_or_a_shell_could_interpret_is_refused() {
        let refused = "ssh://|ssh:///|ssh://@lab|ssh://-oProxyCommand=id|ssh://-lab|ssh://-l@lab|ssh://me@-lab:22|\
                       ssh://[-::1]|ssh://lab:0|ssh://lab:65536|ssh://lab:|ssh://lab:ssh|ssh://2001:db8::1|\
                       ssh://lab/folder|ssh://lab;id|ssh://lab id|ssh://$(id)|ssh://`id`@lab|ssh://a'b|ssh://a%h|\
                       ssh://lab\n|lab";
        for text in refused.split('|') {
            assert!(SshHost::parse(text).is_err(), "{text:?}");
        }
        let refused = SshHost::parse("ssh://me:secret@lab").unwrap_err().to_string();
        assert!(refused.contains("it must not contain a password") && !refused.contains("secret"), "{refused}");
    }

    proptest! {
        #[test]
        fn parsed_hosts_are_harmless_and_parse_again(text in "ssh://[-a-z0-9@:.%_ '$/\\[\\]]{0,20}") {
            if let Ok(read) = SshHost::parse(&text) {
                let is_harmless = |word: &str| !word.starts_with('-') && !word.contains([' ', '\'', '$', '/']);
                prop_assert!(is_harmless(&read.host) && read.user.iter().all(|user| is_harmless(user)));
                prop_assert_eq!(SshHost::parse(&read.to_string()).unwrap(), read);
            }
        }
    }
}
