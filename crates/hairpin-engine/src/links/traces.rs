//! The trace files that a profile replays.

use std::fs::File;
use std::io::Read;

use hairpin_link::profile::Profile;
use hairpin_link::stages::queue::replay::Trace;
use hairpin_model::round::Failure;

/// The longest trace that is read, in bytes: 10 Gbit/s for more than a minute.
const LONGEST_BYTES: u64 = 64 << 20;

/// The text of each trace that the profile names, by name. They are files, relative to the current folder.
///
/// # Errors
/// A file that cannot be read, or the first line that is wrong, with its number.
pub fn read(profile: &Profile) -> Result<Vec<(String, String)>, Failure> {
    profile.traces().into_iter().map(|name| Ok((name.to_owned(), text(name)?))).collect()
}

fn text(name: &str) -> Result<String, Failure> {
    let failed = |cause: String, hint: &str| Failure { cause, hint: hint.to_owned() };
    let mut bytes = Vec::new();
    let read = File::open(name).and_then(|file| file.take(LONGEST_BYTES + 1).read_to_end(&mut bytes));
    read.map_err(|error| {
        failed(
            format!("cannot read the trace `{name}`: {error}"),
            "replay=FILE names a file, seen from the current folder",
        )
    })?;
    if bytes.len() as u64 > LONGEST_BYTES {
        let cause = format!("the trace `{name}` is longer than {} MiB", LONGEST_BYTES >> 20);
        return Err(failed(cause, "use a part of it; it is repeated"));
    }
    // What is not UTF-8 is no digit either, and is refused with its line.
    let text = String::from_utf8_lossy(&bytes).into_owned();
    match Trace::parse(&text) {
        Ok(_) => Ok(text),
        Err(bad) => {
            let word: String = bad.word.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
            let cause = format!("line {} of the trace `{name}`, `{word}`: {}", bad.line, bad.problem);
            Err(failed(cause, bad.hint))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_is_read_once_and_a_wrong_one_is_refused_with_its_line() {
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
