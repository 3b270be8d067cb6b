//! What servers keep of their sessions: a book each, by the address and port where they listen. Tickets are of all servers of a
//! user, but what they have used of a day is counted by each server.

use std::fs::{self, File, TryLockError};
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::state::{KEPT_S, State, make_private, read, write};
use crate::serve::Book;

/// The folder with a file for each server, and another one that the server holds locked while it runs.
const SESSIONS: &str = "sessions";
/// How the name of a book ends, after the address.
const BOOK: &str = ".json";
/// How that of its lock ends.
const LOCK: &str = ".lock";
/// No more servers are listed.
const MAX_SERVERS: usize = 1000;
/// How often a lock is tried that whoever lists servers may have for a moment.
const TRIES: u32 = 20;
/// How long between two of them.
const BETWEEN: Duration = Duration::from_millis(5);

/// The books of all servers of a user.
pub struct Books(PathBuf);

/// The book of a server that runs.
pub struct OwnBook {
    path: PathBuf,
    /// It is released when the process ends, however that ends.
    _lock: File,
}

/// The book of a server, as it is listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Where it listens.
    pub address: SocketAddr,
    /// Whether it runs now.
    pub is_running: bool,
    /// Its sessions, and what tickets have used there.
    pub book: Book,
}

impl Books {
    /// Those in that state.
    ///
    /// # Errors
    /// Their folder cannot be made, or is somebody else's.
    pub fn of(state: &State) -> io::Result<Self> {
        let folder = state.folder().join(SESSIONS);
        make_private(&folder)?;
        Ok(Self(folder))
    }

    /// The book of the server at that address, which goes on with what an earlier start there has kept.
    ///
    /// # Errors
    /// Another server has it (`WouldBlock`): one on another host or in another network namespace; or it cannot be written.
    pub fn open(&self, at: SocketAddr) -> io::Result<OwnBook> {
        self.remove_old()?;
        let lock = File::options().write(true).create(true).truncate(false).open(self.file(at, LOCK))?;
        let mut tries = 0;
        while let Err(error) = lock.try_lock() {
            tries += 1;
            if tries == TRIES || matches!(error, TryLockError::Error(_)) {
                return Err(error.into());
            }
            std::thread::sleep(BETWEEN);
        }
        Ok(OwnBook { path: self.file(at, BOOK), _lock: lock })
    }

    /// All of them, by address.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn listed(&self) -> io::Result<Vec<Listed>> {
        let listed = |address| Listed {
            address,
            is_running: self.is_running(address),
            book: read_book(&self.file(address, BOOK)).unwrap_or_default(),
        };
        Ok(self.addresses()?.into_iter().map(listed).collect())
    }

    /// Where servers of this user listen or have listened.
    fn addresses(&self) -> io::Result<Vec<SocketAddr>> {
        let mut addresses = Vec::new();
        for entry in fs::read_dir(&self.0)?.take(2 * MAX_SERVERS) {
            let name = entry?.file_name();
            addresses.extend(name.to_str().and_then(|name| name.strip_suffix(LOCK)?.parse::<SocketAddr>().ok()));
        }
        addresses.sort();
        Ok(addresses)
    }

    fn is_running(&self, at: SocketAddr) -> bool {
        let lock = File::open(self.file(at, LOCK));
        lock.is_ok_and(|lock| matches!(lock.try_lock_shared(), Err(TryLockError::WouldBlock)))
    }

    /// Removes the files of servers that ended long ago: one with port 0 has another name at each start.
    fn remove_old(&self) -> io::Result<()> {
        for at in self.addresses()? {
            let (book, lock) = (self.file(at, BOOK), self.file(at, LOCK));
            let changed = fs::metadata(&book).or_else(|_| fs::metadata(&lock)).and_then(|file| file.modified());
            // One of the future is no reason: the clock was wrong.
            let age = changed.ok().and_then(|at| at.elapsed().ok());
            if age.is_some_and(|age| age.as_secs() > KEPT_S) && !self.is_running(at) {
                // They are listed where they stay, and nothing else.
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

impl OwnBook {
    /// What was kept; nothing where nothing was.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn read(&self) -> io::Result<Book> {
        read_book(&self.path)
    }

    /// Keeps it.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn keep(&self, book: &Book) -> io::Result<()> {
        write(&self.path, &serde_json::to_string(book).expect("it has only string keys"))
    }
}

fn read_book(path: &Path) -> io::Result<Book> {
    match read(path) {
        // One that cannot be read is no reason not to serve.
        Ok(text) => Ok(serde_json::from_str(&text).unwrap_or_default()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Book::default()),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;
    use crate::serve::Used;

    fn books(folder: &tempfile::TempDir) -> Books {
        Books::of(&State::at(folder.path()).unwrap()).unwrap()
    }

    fn used(bytes: u64) -> Book {
        Book { used: [("aa".to_owned(), Used { day: 7, bytes })].into(), ..Book::default() }
    }

    #[test]
    fn servers_keep_a_book_each_and_one_that_starts_again_goes_on_with_its_own() {
        let folder = tempfile::tempdir().unwrap();
        let books = books(&folder);
        let addresses = ["127.0.0.1:7420", "127.0.0.1:7421", "192.0.2.7:7420", "[::]:7420", "[fe80::1%2]:7420"];
        let addresses = addresses.map(|text| text.parse::<SocketAddr>().unwrap());
        let open: Vec<OwnBook> = addresses.iter().map(|at| books.open(*at).unwrap()).collect();
        for (bytes, book) in (1..).zip(&open) {
            assert_eq!(book.read().unwrap(), Book::default());
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
        // A child that another test starts holds the locks until it runs its program.
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
    fn the_book_of_a_server_that_ended_long_ago_is_removed_and_one_that_is_no_book_is_empty() {
        let folder = tempfile::tempdir().unwrap();
        let books = books(&folder);
        let [old, recent, running] = [1, 2, 3].map(|port| SocketAddr::from(([127, 0, 0, 1], port)));
        let open = books.open(running).unwrap();
        for at in [old, recent] {
            books.open(at).unwrap().keep(&used(1)).unwrap();
        }
        let long_ago = SystemTime::now() - Duration::from_secs(KEPT_S + 1000);
        for at in [old, running] {
            File::options().write(true).open(books.file(at, LOCK)).unwrap().set_modified(long_ago).unwrap();
        }
        File::options().write(true).open(books.file(old, BOOK)).unwrap().set_modified(long_ago).unwrap();
        drop(books.open(recent).unwrap());
        let addresses = || books.listed().unwrap().into_iter().map(|one| one.address).collect::<Vec<_>>();
        assert_eq!(addresses(), [recent, running]);
        assert!(!books.file(old, BOOK).exists());
        for text in ["", "{", "[]", "{\"used\":7}"] {
            fs::write(books.file(recent, BOOK), text).unwrap();
            assert_eq!(books.open(recent).unwrap().read().unwrap(), Book::default(), "{text}");
        }
        drop(open);
    }
}
