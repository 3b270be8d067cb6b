//! Account files: each server (a listening address and port) records its sessions in its own account file. A ticket
//! is valid at all servers of a user, but each server counts the ticket's daily bytes separately.

use std::fs::{self, File, TryLockError};
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::state::{RETENTION_S, State, found, make_private, read, write};
use crate::serve::Account;

/// Folder with an account file and a lock file for each server. A running server holds its lock.
const SESSIONS_FOLDER: &str = "sessions";
/// Suffix of an account file's name, after the address.
const ACCOUNT_EXT: &str = ".json";
/// Suffix of a lock file's name.
const LOCK_EXT: &str = ".lock";
const MAX_SERVERS: usize = 1000;
/// Maximum attempts to take a lock: a process that lists the servers may hold it for a moment.
const MAX_LOCK_TRIES: u32 = 20;
const RETRY_INTERVAL: Duration = Duration::from_millis(5);

pub struct Accounts(PathBuf);

/// The account file of a running server.
pub struct OwnAccount {
    path: PathBuf,
    /// The kernel releases the lock when the process ends.
    _lock: File,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    pub address: SocketAddr,
    pub is_running: bool,
    /// Sessions of the server, and each ticket's usage there.
    pub book: Account,
}

impl Accounts {
    /// Opens the folder of account files in the state folder.
    ///
    /// # Errors
    /// The folder cannot be created, or belongs to another user.
    pub fn of(state: &State) -> io::Result<Self> {
        let folder = state.folder().join(SESSIONS_FOLDER);
        make_private(&folder)?;
        Ok(Self(folder))
    }

    /// Opens the account file of the server at that address. The file keeps the entries of earlier starts.
    ///
    /// # Errors
    /// Another process holds the lock (`WouldBlock`): usually a server with the same address on another host or in
    /// another network namespace. Or the folder or the lock file cannot be opened.
    pub fn open(&self, at: SocketAddr) -> io::Result<OwnAccount> {
        self.remove_old()?;
        let lock = File::options().write(true).create(true).truncate(false).open(self.file(at, LOCK_EXT))?;
        let mut tries = 0;
        while let Err(error) = lock.try_lock() {
            tries += 1;
            if tries == MAX_LOCK_TRIES || matches!(error, TryLockError::Error(_)) {
                return Err(error.into());
            }
            std::thread::sleep(RETRY_INTERVAL);
        }
        Ok(OwnAccount { path: self.file(at, ACCOUNT_EXT), _lock: lock })
    }

    /// Lists the servers with their accounts, sorted by address.
    pub fn listed(&self) -> io::Result<Vec<Listed>> {
        let listed = |address| Listed {
            address,
            is_running: self.is_running(address),
            book: read_account(&self.file(address, ACCOUNT_EXT)).unwrap_or_default(),
        };
        Ok(self.addresses()?.into_iter().map(listed).collect())
    }

    /// Addresses at which servers of this user listen or have listened.
    fn addresses(&self) -> io::Result<Vec<SocketAddr>> {
        let mut addresses = Vec::new();
        for entry in fs::read_dir(&self.0)?.take(2 * MAX_SERVERS) {
            let name = entry?.file_name();
            addresses.extend(name.to_str().and_then(|name| name.strip_suffix(LOCK_EXT)?.parse::<SocketAddr>().ok()));
        }
        addresses.sort();
        Ok(addresses)
    }

    fn is_running(&self, at: SocketAddr) -> bool {
        let lock = File::open(self.file(at, LOCK_EXT));
        lock.is_ok_and(|lock| matches!(lock.try_lock_shared(), Err(TryLockError::WouldBlock)))
    }

    /// Removes the files of servers that ended long ago: with port 0, each start creates files with a new name.
    fn remove_old(&self) -> io::Result<()> {
        for at in self.addresses()? {
            let (book, lock) = (self.file(at, ACCOUNT_EXT), self.file(at, LOCK_EXT));
            let changed = fs::metadata(&book).or_else(|_| fs::metadata(&lock)).and_then(|file| file.modified());
            // `elapsed` fails for a time in the future: the clock was wrong.
            let age = changed.ok().and_then(|at| at.elapsed().ok());
            if age.is_some_and(|age| age.as_secs() > RETENTION_S) && !self.is_running(at) {
                // If the removal fails, the server stays listed.
                drop(fs::remove_file(book));
                drop(fs::remove_file(lock));
            }
        }
        Ok(())
    }

    fn file(&self, at: SocketAddr, end: &str) -> PathBuf {
        self.0.join(format!("{at}{end}"))
    }
}

impl OwnAccount {
    /// Reads the account; empty if the file does not exist.
    pub fn read(&self) -> io::Result<Account> {
        read_account(&self.path)
    }

    pub fn keep(&self, book: &Account) -> io::Result<()> {
        write(&self.path, &serde_json::to_string(book).expect("it has only string keys"))
    }
}

fn read_account(path: &Path) -> io::Result<Account> {
    let text = found(read(path))?;
    // An invalid account file must not stop the server.
    Ok(text.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use hairpin_model::Used;

    use super::*;

    fn books(folder: &tempfile::TempDir) -> Accounts {
        Accounts::of(&State::at(folder.path()).unwrap()).unwrap()
    }

    fn used(bytes: u64) -> Account {
        Account { used: [("aa".to_owned(), Used { day: 7, bytes })].into(), ..Account::default() }
    }

    #[test]
    fn each_server_keeps_an_account_and_continues_it_after_a_restart() {
        let folder = tempfile::tempdir().unwrap();
        let books = books(&folder);
        let addresses = ["127.0.0.1:7420", "127.0.0.1:7421", "192.0.2.7:7420", "[::]:7420", "[fe80::1%2]:7420"];
        let addresses = addresses.map(|text| text.parse::<SocketAddr>().unwrap());
        let open: Vec<OwnAccount> = addresses.iter().map(|at| books.open(*at).unwrap()).collect();
        for (bytes, book) in (1..).zip(&open) {
            assert_eq!(book.read().unwrap(), Account::default());
            book.keep(&used(bytes)).unwrap();
        }
        assert_eq!(books.open(addresses[0]).err().map(|error| error.kind()), Some(io::ErrorKind::WouldBlock));
        let expected = |is_running| {
            let listed =
                (1..).zip(addresses).map(|(bytes, address)| Listed { address, is_running, book: used(bytes) });
            listed.collect::<Vec<_>>()
        };
        assert_eq!(books.listed().unwrap(), expected(true));
        drop(open);
        // A child process that another test forks holds the locks until the child calls exec.
        for _ in 0..6_000 {
            if books.listed().unwrap() == expected(false) {
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        assert_eq!(books.listed().unwrap(), expected(false));
        assert_eq!(books.open(addresses[1]).unwrap().read().unwrap(), used(2));
    }

    #[test]
    fn old_accounts_are_removed_and_invalid_ones_read_as_empty() {
        let folder = tempfile::tempdir().unwrap();
        let books = books(&folder);
        let [old, recent, running] = [1, 2, 3].map(|port| SocketAddr::from(([127, 0, 0, 1], port)));
        let open = books.open(running).unwrap();
        for at in [old, recent] {
            books.open(at).unwrap().keep(&used(1)).unwrap();
        }
        let long_ago = SystemTime::now() - Duration::from_secs(RETENTION_S + 1000);
        for at in [old, running] {
            File::options().write(true).open(books.file(at, LOCK_EXT)).unwrap().set_modified(long_ago).unwrap();
        }
        File::options().write(true).open(books.file(old, ACCOUNT_EXT)).unwrap().set_modified(long_ago).unwrap();
        drop(books.open(recent).unwrap());
        let addresses = || books.listed().unwrap().into_iter().map(|one| one.address).collect::<Vec<_>>();
        assert_eq!(addresses(), [recent, running]);
        assert!(!books.file(old, ACCOUNT_EXT).exists());
        for text in ["", "{", "[]", "{\"used\":7}"] {
            fs::write(books.file(recent, ACCOUNT_EXT), text).unwrap();
            assert_eq!(books.open(recent).unwrap().read().unwrap(), Account::default(), "{text}");
        }
        drop(open);
    }
}
