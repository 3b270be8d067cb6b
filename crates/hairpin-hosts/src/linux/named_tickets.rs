//! Named tickets of `hairpin serve --tickets FILE`: a line has a name, and optionally limits and addresses.
//!
//! ```text
//! # name   limits                   addresses of clients
//! alice    rate=100mbit,turn=30s    from=10.0.0.0/8,2001:db8::/32
//! bob
//! ```
//!
//! The file decides who is accepted; the state folder keeps the secret of each name.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::{PoisonError, RwLock};

use hairpin_model::{Limits, Prefix, Refused, TicketChange};

use super::state::{State, read};
use crate::serve::AcceptedTicket;

const MAX_NAMES: usize = 1000;
const MAX_NAME_LETTERS: usize = 32;

/// A line of the file.
#[derive(Clone, Debug, Default, PartialEq)]
struct Entry {
    limits: Limits,
    allow: Vec<Prefix>,
    /// Public name of its ticket.
    id: String,
}

pub struct NamedTickets {
    state: State,
    file: PathBuf,
    entries: RwLock<BTreeMap<String, Entry>>,
}

impl NamedTickets {
    /// Takes the tickets of that file; [`NamedTickets::reload`] reads it.
    pub fn of(state: State, file: PathBuf) -> Self {
        Self { state, file, entries: RwLock::default() }
    }

    /// Reads the file. Creates the tickets of new names. Returns what changed since the last call.
    ///
    /// # Errors
    /// The file cannot be read or has an invalid line, or a ticket cannot be saved. The tickets are as before then.
    pub fn reload(&self) -> Result<Vec<(TicketChange, AcceptedTicket)>, Refused> {
        let shown = self.file.display();
        let failed = |what: &str, error: &io::Error| Refused::new(format!("cannot {what} {shown}: {error}"), "");
        let text = read(&self.file).map_err(|error| failed("read", &error))?;
        let mut entries = parse(&text).map_err(|error| error.while_reading(&shown.to_string()))?;
        let names: Vec<&str> = entries.keys().map(String::as_str).collect();
        let tickets = self.state.named_tickets(&names).map_err(|error| failed("save the tickets of", &error))?;
        let before = self.entries.read().unwrap_or_else(PoisonError::into_inner).clone();
        let mut changes = Vec::new();
        for ((name, entry), ticket) in entries.iter_mut().zip(tickets) {
            entry.id.clone_from(&ticket.id);
            let change = match before.get(name) {
                // A ticket that was revoked, or would soon expire, is replaced.
                Some(known) if known.id == entry.id && known == entry => continue,
                Some(known) if known.id == entry.id => TicketChange::Changed,
                _ => TicketChange::Added,
            };
            changes.push((change, entry.of(ticket)));
        }
        for (_, entry) in before.iter().filter(|(name, _)| !entries.contains_key(*name)) {
            let ticket = self.state.taken(&entry.id).map_err(|error| failed("read the tickets of", &error))?;
            changes.extend(ticket.map(|ticket| (TicketChange::Removed, entry.of(ticket))));
        }
        *self.entries.write().unwrap_or_else(PoisonError::into_inner) = entries;
        Ok(changes)
    }

    /// The ticket with its limits and addresses; `None` if the file does not name it.
    pub fn accepted(&self, ticket: AcceptedTicket) -> Option<AcceptedTicket> {
        let entries = self.entries.read().unwrap_or_else(PoisonError::into_inner);
        let entry = entries.get(ticket.name.as_ref()?).filter(|entry| entry.id == ticket.id)?;
        Some(entry.of(ticket))
    }
}

impl Entry {
    fn of(&self, ticket: AcceptedTicket) -> AcceptedTicket {
        AcceptedTicket { limits: self.limits.with_turn(), allow: self.allow.clone(), ..ticket }
    }
}

/// Checks the name of a ticket: letters, digits, `.`, `_` and `-`.
///
/// # Errors
/// Another character, or no or too many characters.
pub fn check_name(name: &str) -> Result<(), Refused> {
    let is_letter = |letter: u8| letter.is_ascii_alphanumeric() || b"._-".contains(&letter);
    if (1..=MAX_NAME_LETTERS).contains(&name.len()) && name.bytes().all(is_letter) {
        return Ok(());
    }
    Err(Refused::new(
        format!("`{}` is not a name of a ticket", name.escape_default().take(100).collect::<String>()),
        format!("1 to {MAX_NAME_LETTERS} letters, digits, `.`, `_` or `-`"),
    ))
}

fn parse(text: &str) -> Result<BTreeMap<String, Entry>, Refused> {
    let mut entries = BTreeMap::new();
    for (number, line) in (1..).zip(text.lines()) {
        let parsed = parse_line(line.split('#').next().unwrap_or_default());
        let Some((name, entry)) = parsed.map_err(|error| error.while_reading(&format!("line {number}")))? else {
            continue;
        };
        if entries.insert(name.clone(), entry).is_some() {
            return Err(Refused::new(format!("line {number}: `{name}` is named twice"), "give each name one line"));
        }
        if entries.len() > MAX_NAMES {
            return Err(Refused::new(format!("there are more than {MAX_NAMES} names"), "use fewer tickets"));
        }
    }
    Ok(entries)
}

/// `None` for a line without a name.
fn parse_line(line: &str) -> Result<Option<(String, Entry)>, Refused> {
    let mut words = line.split_whitespace();
    let Some(name) = words.next() else { return Ok(None) };
    check_name(name)?;
    let mut entry = Entry::default();
    let (mut limits, mut ranges) = (0, 0);
    for word in words {
        match word.strip_prefix("from=") {
            Some(list) => (entry.allow, ranges) = (Prefix::parse_list(list)?, ranges + 1),
            None => (entry.limits, limits) = (Limits::parse(word)?, limits + 1),
        }
    }
    if limits > 1 || ranges > 1 {
        return Err(Refused::new(
            format!("`{name}` has several lists of limits or ranges"),
            "separate them by commas",
        ));
    }
    Ok(Some((name.to_owned(), entry)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reload_adds_changes_and_removes_names_and_keeps_secrets() {
        let folder = tempfile::tempdir().unwrap();
        let state = State::at(&folder.path().join("state")).unwrap();
        let file = folder.path().join("tickets");
        let named = NamedTickets::of(state.clone(), file.clone());
        let reload = |text: &str| {
            std::fs::write(&file, text).unwrap();
            named.reload().map(|changes| {
                changes
                    .into_iter()
                    .map(|(change, ticket)| (change, ticket.name.unwrap(), ticket.id))
                    .collect::<Vec<_>>()
            })
        };
        let first = reload("# who may measure\nalice rate=1mbit from=192.0.2.0/24\n\nbob # of the lab\n").unwrap();
        let [(TicketChange::Added, alice, alice_id), (TicketChange::Added, bob, bob_id)] = first.as_slice() else {
            panic!("{first:?}")
        };
        assert_eq!([alice.as_str(), bob], ["alice", "bob"]);
        let accepted = |id: &str| state.taken(id).unwrap().and_then(|ticket| named.accepted(ticket));
        let ticket = accepted(alice_id).unwrap();
        assert_eq!(ticket.limits.words(), ["rate=1mbit", "turn=10s"]);
        assert!(ticket.allow[0].contains("192.0.2.9".parse().unwrap()) && ticket.allow.len() == 1);
        assert_eq!(reload("bob\nalice rate=1mbit from=192.0.2.0/24").unwrap(), []);
        assert_eq!(
            reload("bob sessions=2\n").unwrap(),
            [
                (TicketChange::Changed, bob.clone(), bob_id.clone()),
                (TicketChange::Removed, alice.clone(), alice_id.clone())
            ]
        );
        assert!(accepted(alice_id).is_none() && accepted(bob_id).unwrap().limits.sessions == Some(2));
        let anonymous = state.new_ticket(u64::MAX, Limits::default()).unwrap();
        assert!(named.accepted(anonymous).is_none(), "the file decides");
        for wrong in [
            "bob\nbob",
            "bob rate=1mbit turn=2s",
            "bob from=::1 from=::2",
            "b/b",
            "bob speed=1",
            "bob from=lab",
            &"x".repeat(40),
        ] {
            let error = reload(wrong).unwrap_err().to_string();
            assert!(error.contains("line ") && error.contains("tickets"), "{error}");
        }
        assert!(accepted(bob_id).is_some(), "as before the invalid file");
        state.revoke(bob_id).unwrap();
        let again = reload("bob sessions=2\n").unwrap();
        assert!(
            matches!(&again[..], [(TicketChange::Added, _, id)] if id != bob_id),
            "a revoked ticket is replaced: {again:?}"
        );
        let plain = state.taken(&again[0].2).unwrap().unwrap();
        assert!(plain.is_of_file, "a server without the file does not accept it");
        assert_eq!(reload("alice").unwrap()[0].2, *alice_id, "the secret is kept");
    }
}
