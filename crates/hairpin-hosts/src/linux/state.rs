//! Persistent state of a server: its key and the tickets that it accepts. Only the server's user can read the files.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use hairpin_model::Limits;
use ring::rand::{SecureRandom, SystemRandom};
use serde::{Deserialize, Serialize};

use crate::dial::now_unix_s;
use crate::identity::Identity;
use crate::proof::ticket_id;
use crate::protocol::Base64;
use crate::serve::AcceptedTicket;
use crate::ticket::Secret;

const KEY_FILE: &str = "server-key.json";
const TICKETS_FOLDER: &str = "tickets";
const MAX_FILE_BYTES: u64 = 1 << 20;
/// Time after which the files of expired tickets and ended servers are removed, in seconds.
pub(super) const RETENTION_S: u64 = 30 * 24 * 3600;
const MAX_TICKETS: usize = 10_000;
const NAMED_LIFETIME_S: u64 = 365 * 24 * 3600;
/// A named ticket that expires sooner is replaced, in seconds.
const MIN_NAMED_LIFETIME_S: u64 = 24 * 3600;

#[derive(Serialize, Deserialize)]
struct StoredTicket {
    secret: Base64,
    expires_unix_s: u64,
    #[serde(default)]
    limits: Limits,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    #[serde(default)]
    is_of_file: bool,
}

/// The folder of a server's state.
#[derive(Clone, Debug)]
pub struct State(PathBuf);

impl State {
    /// Opens `$XDG_STATE_HOME/hairpin`, or `~/.local/state/hairpin`. Creates the folder if missing.
    ///
    /// # Errors
    /// There is no home directory, or the folder cannot be created or belongs to another user.
    pub fn of_user() -> io::Result<Self> {
        let variable = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let base = variable("XDG_STATE_HOME").or_else(|| Some(variable("HOME")?.join(".local/state")));
        let base =
            base.ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "neither XDG_STATE_HOME nor HOME is set"))?;
        Self::at(&base.join("hairpin"))
    }

    /// Opens that folder. Creates it if missing.
    ///
    /// # Errors
    /// The folder cannot be created, or belongs to another user.
    pub fn at(folder: &Path) -> io::Result<Self> {
        make_private(folder)?;
        make_private(&folder.join(TICKETS_FOLDER))?;
        Ok(Self(folder.to_owned()))
    }

    pub fn folder(&self) -> &Path {
        &self.0
    }

    /// Reads the server's certificate and key. Generates them at the first start.
    pub fn identity(&self) -> io::Result<Identity> {
        let path = self.0.join(KEY_FILE);
        let text = match found(read(&path))? {
            Some(text) => text,
            None => {
                let made = Identity::make().map_err(io::Error::other)?;
                let text = serde_json::to_string(&made).expect("it has only string keys");
                let own = self.0.join(format!("{KEY_FILE}.{}", std::process::id()));
                write(&own, &text)?;
                // Another server of this user may start for the first time too: the first key is used by both.
                let linked = fs::hard_link(&own, &path);
                fs::remove_file(&own)?;
                match linked {
                    Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                    _ => read(&path)?,
                }
            }
        };
        let invalid = |error| format!("cannot read {}: {error}", path.display());
        serde_json::from_str(&text).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, invalid(error)))
    }

    pub fn new_ticket(&self, expires_unix_s: u64, limits: Limits) -> io::Result<AcceptedTicket> {
        self.create(expires_unix_s, limits, None, false)
    }

    /// Returns the ticket of that name. Creates a ticket if no ticket of that name is valid for another day.
    ///
    /// # Errors
    /// As [`State::new_ticket`], and if the folder cannot be read.
    pub fn named_ticket(&self, name: &str) -> io::Result<AcceptedTicket> {
        Ok(self.of_names(&[name], false)?.remove(0))
    }

    /// Like [`State::named_ticket`], for all names of a file, which alone accepts these tickets.
    pub fn named_tickets(&self, names: &[&str]) -> io::Result<Vec<AcceptedTicket>> {
        self.of_names(names, true)
    }

    fn of_names(&self, names: &[&str], is_of_file: bool) -> io::Result<Vec<AcceptedTicket>> {
        let now = now_unix_s();
        let all = self.tickets()?;
        let find = |name: &&str| {
            let is_valid = |ticket: &&AcceptedTicket| {
                let is_own = ticket.name.as_deref() == Some(*name) && ticket.is_of_file == is_of_file;
                is_own && ticket.expires_unix_s >= now.saturating_add(MIN_NAMED_LIFETIME_S)
            };
            let expires = now.saturating_add(NAMED_LIFETIME_S);
            let create = || self.create(expires, Limits::default(), Some((*name).to_owned()), is_of_file);
            all.iter().find(is_valid).map_or_else(create, |ticket| Ok(ticket.clone()))
        };
        names.iter().map(find).collect()
    }

    pub fn with_limits(&self, ticket: AcceptedTicket, limits: Limits) -> io::Result<AcceptedTicket> {
        let AcceptedTicket { secret, expires_unix_s, name, is_of_file, .. } = ticket.clone();
        let kept = StoredTicket { secret: Base64(secret.0.to_vec()), expires_unix_s, limits, name, is_of_file };
        write(&self.ticket_path(&ticket.id), &serde_json::to_string(&kept).expect("it has only string keys"))?;
        Ok(AcceptedTicket { limits: limits.with_turn(), ..ticket })
    }

    fn create(
        &self,
        expires_unix_s: u64,
        limits: Limits,
        name: Option<String>,
        is_of_file: bool,
    ) -> io::Result<AcceptedTicket> {
        let mut secret = [0; 16];
        SystemRandom::new().fill(&mut secret).map_err(|_| io::Error::other("the system gives no random bytes"))?;
        let (secret, limits) = (Secret(secret), limits.with_turn());
        let id = ticket_id(&secret);
        let allow = Vec::new();
        self.with_limits(AcceptedTicket { id, secret, expires_unix_s, limits, name, is_of_file, allow }, limits)
    }

    /// Returns the tickets that have not expired. Removes the files of tickets that expired more than 30 days ago;
    /// files of recently expired tickets stay, because the clock may be wrong. Skips invalid files.
    pub fn tickets(&self) -> io::Result<Vec<AcceptedTicket>> {
        self.tickets_at(now_unix_s())
    }

    fn tickets_at(&self, now: u64) -> io::Result<Vec<AcceptedTicket>> {
        let mut tickets = Vec::new();
        for entry in fs::read_dir(self.0.join(TICKETS_FOLDER))?.take(MAX_TICKETS) {
            let path = entry?.path();
            let Some(ticket) = read(&path).ok().and_then(|text| parse_ticket(&text)) else { continue };
            if ticket.expires_unix_s > now {
                tickets.push(ticket);
            } else if ticket.expires_unix_s.saturating_add(RETENTION_S) < now {
                // If the removal fails, the ticket is still expired.
                drop(fs::remove_file(&path));
            }
        }
        Ok(tickets)
    }

    /// Returns the ticket with that untrusted name; `None` if unknown. The ticket may have expired.
    pub fn taken(&self, id: &str) -> io::Result<Option<AcceptedTicket>> {
        if !is_id(id) {
            return Ok(None);
        }
        let text = found(read(&self.ticket_path(id)))?;
        Ok(text.and_then(|text| parse_ticket(&text)).filter(|ticket| ticket.id == id))
    }

    /// Revokes the ticket of that name. Returns whether the ticket existed.
    pub fn revoke(&self, id: &str) -> io::Result<bool> {
        if !is_id(id) {
            return Ok(false);
        }
        Ok(found(fs::remove_file(self.ticket_path(id)))?.is_some())
    }

    fn ticket_path(&self, id: &str) -> PathBuf {
        self.0.join(TICKETS_FOLDER).join(format!("{id}.json"))
    }
}

/// Whether `id` is a valid ticket name, and thus safe in a file name.
fn is_id(id: &str) -> bool {
    (1..=64).contains(&id.len()) && id.bytes().all(|letter| letter.is_ascii_hexdigit())
}

/// Parses the file of a ticket; `None` if invalid.
fn parse_ticket(text: &str) -> Option<AcceptedTicket> {
    let StoredTicket { secret, expires_unix_s, limits, name, is_of_file } = serde_json::from_str(text).ok()?;
    let secret = Secret(<[u8; 16]>::try_from(secret.0.as_slice()).ok()?);
    let (id, limits) = (ticket_id(&secret), limits.with_turn());
    Some(AcceptedTicket { id, secret, expires_unix_s, limits, name, is_of_file, allow: Vec::new() })
}

/// The result of an operation on a file; `None` if the file does not exist.
pub(super) fn found<T>(done: io::Result<T>) -> io::Result<Option<T>> {
    match done {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        done => done.map(Some),
    }
}

/// Creates a folder that only its user can read, if missing. Fails if the folder belongs to another user.
pub(super) fn make_private(folder: &Path) -> io::Result<()> {
    let named = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", folder.display()));
    DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(named)?;
    let is_own = fs::metadata(folder)?.uid() == rustix::process::geteuid().as_raw();
    if is_own {
        return Ok(());
    }
    let why = format!("{} belongs to another user", folder.display());
    Err(io::Error::new(io::ErrorKind::PermissionDenied, why))
}

pub(super) fn read(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    File::open(path)?.take(MAX_FILE_BYTES).read_to_string(&mut text)?;
    Ok(text)
}

/// Writes a file atomically; only its user can read it.
pub(super) fn write(path: &Path, text: &str) -> io::Result<()> {
    let partial = path.with_added_extension(format!("partial-{}", std::process::id()));
    drop(fs::remove_file(&partial));
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&partial)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(partial, path)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_key_and_tickets_outlive_a_restart_and_a_revoked_ticket_does_not() {
        let folder = tempfile::tempdir().unwrap();
        let state = State::at(&folder.path().join("hairpin")).unwrap();
        let fingerprint = state.identity().unwrap().fingerprint();
        let later = now_unix_s() + 1000;
        let [one, other] = [later, later].map(|expires| state.new_ticket(expires, Limits::default()).unwrap());
        state.new_ticket(now_unix_s(), Limits::default()).unwrap();
        let again = State::at(state.folder()).unwrap();
        assert_eq!(again.identity().unwrap().fingerprint(), fingerprint);
        let mut ids: Vec<String> = again.tickets().unwrap().into_iter().map(|ticket| ticket.id).collect();
        ids.sort();
        let mut expected = [one.id.clone(), other.id.clone()];
        expected.sort();
        assert_eq!(ids, expected, "the third has expired");
        assert!(again.revoke(&one.id).unwrap());
        assert!(!again.revoke(&one.id).unwrap() && !again.revoke("../server-key").unwrap());
        assert_eq!(again.tickets().unwrap().len(), 1);
        for entry in [KEY_FILE, TICKETS_FOLDER] {
            let mode = fs::metadata(state.folder().join(entry)).unwrap().permissions().mode();
            assert_eq!(mode & 0o077, 0, "{entry}");
        }
    }

    #[test]
    fn a_clock_step_neither_loses_a_ticket_nor_restores_a_removed_one() {
        let folder = tempfile::tempdir().unwrap();
        let state = State::at(folder.path()).unwrap();
        let made = 1_800_000_000;
        let ticket = state.new_ticket(made + 1000, Limits::default()).unwrap();
        let listed = |now| state.tickets_at(now).unwrap().len();
        assert_eq!([0, made - 1, made + 999].map(listed), [1; 3], "a clock set back keeps the ticket valid");
        assert_eq!([made + 1000, made + 1000 + RETENTION_S].map(listed), [0; 2], "it has expired");
        assert_eq!(listed(made), 1, "the clock is right again");
        assert!(state.taken(&ticket.id).unwrap().is_some(), "the error says that it has expired");
        assert_eq!([made + 1001 + RETENTION_S, u64::MAX].map(listed), [0; 2]);
        assert_eq!(listed(made), 0, "its file is gone");
        assert!(state.taken(&ticket.id).unwrap().is_none());
    }

    #[test]
    fn invalid_ticket_files_are_skipped() {
        let folder = tempfile::tempdir().unwrap();
        let state = State::at(folder.path()).unwrap();
        for (name, text) in
            [("a.json", "{"), ("b.json", "{\"secret\":\"AAAA\",\"expires_unix_s\":9999999999}"), ("c", "")]
        {
            fs::write(folder.path().join(TICKETS_FOLDER).join(name), text).unwrap();
        }
        assert_eq!(state.tickets().unwrap().len(), 0);
    }
}
