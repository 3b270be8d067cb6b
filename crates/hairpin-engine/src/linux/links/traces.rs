//! Reads the trace files that a profile replays.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::sync::{Arc, Mutex, PoisonError};

use hairpin_link::profile::Profile;
use hairpin_link::trace::Trace;
use hairpin_model::{Failure, FailureKind};
use rustix::io::ioctl_fionbio;

/// Maximum bytes of a trace: more than a minute at 10 Gbit/s.
const MAX_BYTES: u64 = 64 << 20;

/// The traces that the rounds of a run replay. Each trace is read once, so that all rounds replay the same trace.
#[derive(Clone, Debug, Default)]
pub struct Traces(Arc<Mutex<BTreeMap<String, Named>>>);

/// The traces of a profile, by name.
pub type Named = Vec<(String, String)>;

impl Traces {
    /// The traces `named` of the profile `line`, read by another process.
    pub fn with(line: String, named: Named) -> Self {
        Self(Arc::new(Mutex::new(BTreeMap::from([(line, named)]))))
    }

    /// Like [`read`], but reads the traces of each profile only once.
    pub fn of(&self, profile: &Profile) -> Result<Named, Failure> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let line = profile.to_string();
        if let Some(traces) = known.get(&line) {
            return Ok(traces.clone());
        }
        let traces = read(profile)?;
        known.insert(line, traces.clone());
        Ok(traces)
    }
}

/// Reads each trace that the profile names. Returns names and texts. Names are paths relative to the current folder.
pub fn read(profile: &Profile) -> Result<Named, Failure> {
    profile.traces().into_iter().map(|name| Ok((name.to_owned(), text(name)?))).collect()
}

fn text(name: &str) -> Result<String, Failure> {
    let mut bytes = Vec::new();
    read_named(name, &mut bytes).map_err(|error| {
        Failure::new(
            &error,
            format!("cannot read the trace `{name}`: {error}"),
            "replay=FILE names a file relative to the current folder",
        )
    })?;
    if bytes.len() as u64 > MAX_BYTES {
        let cause = format!("the trace `{name}` is longer than {} MiB", MAX_BYTES >> 20);
        return Err(Failure::new(FailureKind::Unsupported, cause, "use a part of it; the trace is repeated"));
    }
    // Invalid UTF-8 contains no digits, so it is refused, with its line number.
    let text = String::from_utf8_lossy(&bytes).into_owned();
    match Trace::parse(&text) {
        Ok(_) => Ok(text),
        Err(bad) => {
            let word: String = bad.word.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
            let cause = format!("line {} of the trace `{name}`, `{word}`: {}", bad.line, bad.problem);
            Err(Failure::new(FailureKind::Unsupported, cause, bad.hint))
        }
    }
}

/// Reads a file that the user named. A pipe without a writer reads as empty, without waiting.
fn read_named(name: &str, bytes: &mut Vec<u8>) -> io::Result<usize> {
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(name)?;
    ioctl_fionbio(&file, false)?;
    file.take(MAX_BYTES + 1).read_to_end(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pipe_without_a_writer_is_not_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        read(&format!("replay={}", pipe.display()).parse().unwrap()).unwrap_err();
    }

    #[test]
    fn all_rounds_of_a_run_replay_the_same_trace() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trace");
        let profile: Profile = format!("replay={}", path.display()).parse().unwrap();
        let traces = Traces::default();
        assert!(traces.of(&profile).is_err(), "a failed read is not remembered");
        std::fs::write(&path, "1\n").unwrap();
        let first = traces.of(&profile).unwrap();
        std::fs::write(&path, "2\n").unwrap();
        assert_eq!((traces.clone().of(&profile).unwrap(), first[0].1.as_str()), (first.clone(), "1\n"));
    }

    #[test]
    fn a_trace_is_read_once_and_a_wrong_trace_is_refused_with_its_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).display().to_string();
        let read_as = |words: &str| read(&words.parse().unwrap());
        std::fs::write(path("good"), "1\n2\n").unwrap();
        std::fs::write(path("bad"), "1\n2\n\u{1b}x\n").unwrap();
        std::fs::write(path("bytes"), b"1\n\xff\n").unwrap();
        let good = path("good");
        assert_eq!(read_as(&format!("replay={good}")).unwrap(), [(good.clone(), "1\n2\n".to_owned())]);
        assert_eq!(read_as("delay=1ms").unwrap(), []);
        let why = |name: &str| read_as(&format!("up={good} down.replay={}", path(name)).replace("up=", "up.replay="));
        let cause = |name: &str| why(name).unwrap_err().cause;
        assert_eq!(cause("bad"), format!("line 3 of the trace `{}`, ` x`: not a whole number", path("bad")));
        assert!(cause("bytes").starts_with("line 2 of the trace `"));
        assert!(cause("none").starts_with(&format!("cannot read the trace `{}`: No such file", path("none"))));
        assert!(why("none").unwrap_err().hint.contains("current folder"));
    }
}
