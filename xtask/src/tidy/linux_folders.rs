//! The rule that Linux-only code is in folders named `linux`, so that support for another system is a new folder.

use crate::source::{self, Source};

/// Rust paths that exist only on Linux (or Unix).
const PATHS: &[&str] = &["libc", "rustix", "std::os", "os::fd", "os::linux", "os::unix"];
/// Prefixes of file names that exist only on Linux.
const FILES: &[&str] = &["/proc/", "/sys/"];

/// Files outside of these folders that may have Linux-only code, each with the reason.
const EXCEPTIONS: &[(&str, &str)] = &[
    ("crates/hairpin-transports/src/transports/icmp.rs", "implements a port over a socket, with its descriptor"),
    (
        "crates/hairpin-transports/src/transports/mptcp.rs",
        "distinguishes the kernel's errors for an unsupported protocol",
    ),
    ("crates/hairpin-transports/src/transports/shm.rs", "has a memory file, and returns the errors of a socket"),
];

/// Reports Linux-only code outside of the folders, and exceptions that are no longer needed.
pub(super) fn linux_folders(sources: &[Source]) -> Vec<String> {
    check(sources, EXCEPTIONS)
}

fn check(sources: &[Source], exceptions: &[(&str, &str)]) -> Vec<String> {
    let is_excepted = |source: &Source| exceptions.iter().any(|(path, _)| *path == source.path);
    let in_folder = |source: &Source| source.path.split(['/', '.']).any(|part| part == "linux");
    let outside = sources.iter().filter(|source| source.is_production() && !in_folder(source));
    let (excepted, others): (Vec<&Source>, Vec<&Source>) = outside.partition(|source| is_excepted(source));
    let mut faults: Vec<String> = others.into_iter().flat_map(faults).collect();
    let is_needed =
        |path: &str| excepted.iter().any(|source| source.path == path && !self::faults(source).is_empty());
    faults.extend(exceptions.iter().filter(|(path, _)| !is_needed(path)).map(|(path, _)| {
        format!("{path}: no Linux-only code (hint: remove the exception from xtask/src/tidy/linux_folders.rs)")
    }));
    faults
}

fn faults(source: &Source) -> Vec<String> {
    let (code, texts) = (source::production(&source.text, true), source::production(&source.text, false));
    let paths = PATHS.iter().flat_map(|path| source::words(&code, path).map(move |at| (at, *path)));
    let files = FILES.iter().flat_map(|name| texts.match_indices(name).map(|(at, _)| (at, *name)));
    let mut found: Vec<(usize, &str)> =
        paths.chain(files).map(|(at, what)| (source::line_of(&code, at), what)).collect();
    found.sort_by_key(|(line, _)| *line);
    found.dedup_by_key(|(line, _)| *line);
    let hint = "(hint: put it into a folder named `linux` behind a function)";
    found
        .into_iter()
        .map(|(line, what)| format!("{}:{line}: `{what}` is for Linux only {hint}", source.path))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str, exceptions: &[(&str, &str)]) -> Vec<String> {
        check(&[Source { path: path.to_owned(), text: text.to_owned() }], exceptions)
    }

    #[test]
    fn linux_only_code_outside_the_folders_is_reported() {
        for (text, what) in [
            ("use std::os::fd::AsFd;", "std::os"),
            ("use std::{io, os::unix::fs::symlink};", "os::unix"),
            ("let fd = std::os::fd::AsRawFd::as_raw_fd(&file);", "std::os"),
            ("match error { Some(libc::EPERM) => 1 }", "libc"),
            ("use libc::EPERM;", "libc"),
            ("rustix::fs::openat(a)", "rustix"),
            ("read(\"/proc/stat\")", "/proc/"),
            ("format!(\"/sys/devices/{cpu}\")", "/sys/"),
        ] {
            let text = format!("//! What.\n{text}\n");
            let hint = "(hint: put it into a folder named `linux` behind a function)";
            let expected = format!("crates/a/src/b.rs:2: `{what}` is for Linux only {hint}");
            assert_eq!(found("crates/a/src/b.rs", &text, &[]), [expected], "{text}");
        }
    }

    #[test]
    fn linux_folders_tests_comments_and_longer_names_are_ignored() {
        let text = "fn f() { libc::getpid(); }\n";
        for path in [
            "crates/a/src/linux/b.rs",
            "crates/a/src/c/linux/b.rs",
            "crates/a/src/b/tests.rs",
            "crates/a/tests/b.rs",
            "crates/hairpin-testing/src/b.rs",
            "xtask/src/b.rs",
        ] {
            assert_eq!(found(path, text, &[]), [""; 0], "{path}");
        }
        for text in [
            "// libc::getpid, /proc/stat",
            "#[cfg(test)]\nmod tests { use std::os::fd::AsFd; const A: &str = \"/proc/\"; }",
            "let text = \"libc::getpid and std::os::fd, if /proc is mounted\";",
            "my_libc::f(); std::ost::f();",
        ] {
            assert_eq!(found("crates/a/src/b.rs", text, &[]), [""; 0], "{text}");
        }
    }

    #[test]
    fn an_exception_is_for_one_file_and_reported_if_not_needed() {
        let exceptions = [("crates/a/src/b.rs", "why")];
        assert_eq!(found("crates/a/src/b.rs", "use libc::EPERM;", &exceptions), [""; 0]);
        let remove = "(hint: remove the exception from xtask/src/tidy/linux_folders.rs)";
        let unneeded = format!("crates/a/src/b.rs: no Linux-only code {remove}");
        assert_eq!(found("crates/a/src/b.rs", "fn f() {}", &exceptions), std::slice::from_ref(&unneeded));
        let other = found("crates/a/src/c.rs", "use libc::EPERM;", &exceptions);
        assert_eq!((other.len(), &other[1]), (2, &unneeded), "the exception is for another file");
    }
}
