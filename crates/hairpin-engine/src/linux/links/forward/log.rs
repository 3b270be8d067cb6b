//! The link's log: one line per packet, written by a separate thread so that packets do not wait for the disk.

use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, TrySendError, sync_channel};
use std::thread::JoinHandle;

use hairpin_link::log::{HEADER, LogLine};
use hairpin_model::{Failure, FailureKind};
use rustix::io::ioctl_fionbio;

use super::sockets::no_thread;
use crate::links::LogTo;
use crate::system::{cpu, stream};

const BATCH_LINES: usize = 1024;
/// Maximum bytes per write, in whole lines. A pipe accepts this many bytes atomically (pipe(7)), so lines of other
/// writers do not mix with these.
const MAX_WRITE_BYTES: usize = libc::PIPE_BUF;
/// Maximum number of batches waiting for the disk: half a second at the relay's maximum rate.
const MAX_WAITING_BATCHES: usize = 256;

struct Writer {
    full: SyncSender<Vec<LogLine>>,
    thread: JoinHandle<std::io::Result<()>>,
}

/// The lines not yet in the file. Finishing or dropping the log writes them.
pub(super) struct Log {
    lines: Vec<LogLine>,
    empty: Receiver<Vec<LogLine>>,
    /// `None` once everything is written.
    writer: Option<Writer>,
    name: String,
    missing: u64,
}

impl Log {
    /// Opens the destination and starts the thread, which runs on any of `cpus`.
    pub(super) fn new(to: &LogTo, cpus: &[usize]) -> Result<Self, Failure> {
        let (name, file) = open(to)?;
        let (full, written) = sync_channel(MAX_WAITING_BATCHES);
        let (used, empty) = sync_channel(MAX_WAITING_BATCHES);
        let cpus = cpus.to_vec();
        let writer = move || {
            // The relay's thread may be pinned, and needs its CPU. If this call fails, the log is only slower.
            let _ = cpu::pin(&cpus);
            write(file, &written, &used)
        };
        let thread = std::thread::Builder::new().spawn(writer).map_err(|error| no_thread(&error))?;
        Ok(Self {
            lines: Vec::with_capacity(BATCH_LINES),
            empty,
            writer: Some(Writer { full, thread }),
            name,
            missing: 0,
        })
    }

    pub(super) fn add(&mut self, line: LogLine) {
        if self.lines.len() == BATCH_LINES {
            self.pass_on();
        }
        self.lines.push(line);
    }

    /// Passes the lines to the thread. Drops them if too many batches wait for the disk.
    fn pass_on(&mut self) {
        let Some(Writer { full, .. }) = &self.writer else { return };
        let next = match self.empty.try_recv() {
            Ok(used) => used,
            Err(TryRecvError::Empty | TryRecvError::Disconnected) => Vec::with_capacity(BATCH_LINES),
        };
        match full.try_send(std::mem::replace(&mut self.lines, next)) {
            Ok(()) => {}
            Err(TrySendError::Full(lines) | TrySendError::Disconnected(lines)) => {
                self.missing += u64::try_from(lines.len()).expect("a batch");
                self.lines = lines;
                self.lines.clear();
            }
        }
    }

    /// Adds the last lines, without dropping any, and waits until everything is written. Returns the reason if the file
    /// is incomplete.
    pub(super) fn finish(mut self, last: impl Iterator<Item = LogLine>) -> Option<String> {
        self.lines.extend(last);
        match (self.write_all(), self.missing) {
            (Err(error), _) => Some(format!("cannot write the link's log {}: {error}", self.name)),
            (Ok(()), 0) => None,
            (Ok(()), missing) => {
                Some(format!("{missing} lines are missing in the link's log {}: the disk was too slow", self.name))
            }
        }
    }

    fn write_all(&mut self) -> std::io::Result<()> {
        let Some(Writer { full, thread }) = self.writer.take() else { return Ok(()) };
        // The relay has ended, so these lines may wait for the disk.
        let last = std::mem::take(&mut self.lines);
        let _ = full.send(last);
        drop(full);
        thread.join().unwrap_or_else(|_| Err(std::io::Error::other("the writing thread panicked")))
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        // A failed link reports its own cause, but its log is still written.
        let _ = self.write_all();
    }
}

/// Opens the file. Also returns its name for error messages.
fn open(to: &LogTo) -> Result<(String, File), Failure> {
    let (name, file) = match to {
        LogTo::File(path) => (path.display().to_string(), create(path)),
        LogTo::Stream(number) => ("on the inherited stream".to_owned(), stream::take_over(*number)),
        LogTo::Opened(number, name) => (name.clone(), stream::take_over(*number)),
    };
    match file {
        Ok(file) => Ok((name, file)),
        Err(error) if is_unread_pipe(to, &error) => Err(Failure::new(
            FailureKind::Other,
            format!("cannot open the link's log {name}: no process reads this pipe"),
            format!("start its reader first, for instance `cat {name} &`, or name a file"),
        )),
        Err(error) => Err(Failure::new(
            &error,
            format!("cannot open the link's log {name}: {error}"),
            "does its folder exist, and is it writable?",
        )),
    }
}

/// Opens and truncates the file. A pipe without a reader is an error, so that it does not block the start of the link;
/// once a pipe is open, writes wait for a slow reader.
fn create(path: &Path) -> std::io::Result<File> {
    let mut options = OpenOptions::new();
    let file = options.write(true).create(true).truncate(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    ioctl_fionbio(&file, false)?;
    Ok(file)
}

/// Whether the error means a pipe without a reader (ENXIO, fifo(7)).
fn is_unread_pipe(to: &LogTo, error: &std::io::Error) -> bool {
    let LogTo::File(path) = to else { return false };
    error.raw_os_error() == Some(libc::ENXIO) && path.metadata().is_ok_and(|found| found.file_type().is_fifo())
}

fn write(mut file: File, full: &Receiver<Vec<LogLine>>, used: &SyncSender<Vec<LogLine>>) -> std::io::Result<()> {
    let (mut piece, mut line_text) = (String::with_capacity(MAX_WRITE_BYTES), String::with_capacity(MAX_WRITE_BYTES));
    stream::write_whole(&mut file, format!("{HEADER}\n").as_bytes())?;
    while let Ok(mut lines) = full.recv() {
        for line in lines.drain(..) {
            line_text.clear();
            writeln!(line_text, "{line}").expect("writing to a string never fails");
            if piece.len() + line_text.len() > MAX_WRITE_BYTES {
                stream::write_whole(&mut file, piece.as_bytes())?;
                piece.clear();
            }
            piece.push_str(&line_text);
        }
        stream::write_whole(&mut file, piece.as_bytes())?;
        piece.clear();
        let _ = used.try_send(lines);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::process::Command;
    use std::time::Duration;

    use hairpin_link::Direction;
    use hairpin_link::packet::{Fate, Outcome};

    use super::*;

    fn line(number: u64) -> LogLine {
        LogLine::exact(Outcome {
            direction: Direction::Up,
            number,
            copy: 0,
            outcomes: 1,
            size_bytes: 60,
            carries_data: true,
            arrived_ns: number,
            fate: Fate::Leaves { due_ns: number, corrupted_bit: None },
        })
    }

    fn assert_has_lines(text: &str, count: u64) {
        let mut lines = text.lines();
        assert_eq!(lines.next(), Some(HEADER));
        assert!(lines.eq((0..count).map(|number| line(number).to_string())));
    }

    #[test]
    fn every_line_is_in_the_file_even_when_the_link_fails() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        for (blocks, fails) in [(5, false), (1, true)] {
            let mut log = Log::new(&LogTo::File(path.clone()), &cpu::allowed().unwrap()).unwrap();
            let count = blocks * u64::try_from(BATCH_LINES).unwrap() + 7;
            (0..count).for_each(|number| log.add(line(number)));
            if fails {
                drop(log);
            } else {
                assert_eq!(log.finish(std::iter::empty()), None);
            }
            assert_has_lines(&std::fs::read_to_string(&path).unwrap(), count);
        }
    }

    #[test]
    fn a_pipe_needs_a_reader_but_the_reader_may_be_slow() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pipe");
        assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
        let to = LogTo::File(path.clone());
        let Err(failure) = Log::new(&to, &[]) else { panic!("no process reads the pipe") };
        let shown = path.display();
        assert_eq!(failure.cause, format!("cannot open the link's log {shown}: no process reads this pipe"));
        assert_eq!(failure.hint, format!("start its reader first, for instance `cat {shown} &`, or name a file"));

        let there = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(&path).unwrap();
        let mut log = Log::new(&to, &[]).unwrap();
        let mut reader = File::open(&path).unwrap();
        drop(there);
        // These lines are far more than a pipe holds.
        let count = 40_000;
        let read = std::thread::spawn(move || {
            let (mut all, mut some) = (Vec::new(), [0; 16 * 1024]);
            while let Ok(bytes @ 1..) = reader.read(&mut some) {
                all.extend_from_slice(&some[..bytes]);
                std::thread::sleep(Duration::from_millis(2));
            }
            String::from_utf8(all).unwrap()
        });
        (0..count).for_each(|number| log.add(line(number)));
        assert_eq!(log.finish(std::iter::empty()), None);
        assert_has_lines(&read.join().unwrap(), count);
    }

    #[test]
    fn a_full_disk_is_reported_and_has_no_other_effect() {
        let mut log = Log::new(&LogTo::File("/dev/full".into()), &[]).unwrap();
        (0..50_000).for_each(|number| log.add(line(number)));
        let problem = log.finish(std::iter::empty()).unwrap();
        assert!(problem.starts_with("cannot write the link's log /dev/full: No space left"), "{problem}");
        let Err(failure) = Log::new(&LogTo::File("/no-such-folder/log".into()), &[]) else { panic!("created") };
        assert!(failure.cause.starts_with("cannot open the link's log /no-such-folder/log: "), "{}", failure.cause);
    }
}
