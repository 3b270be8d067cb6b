//! Nothing outside the folder is opened, whatever it contains, and nothing in it can make a call block.

use std::fs;
use std::os::unix::fs::{FileTypeExt, PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::process::Command;

use super::*;

/// Creates a folder `run`, and beside it a file `secret` and a folder `elsewhere`.
fn place() -> (tempfile::TempDir, Folder) {
    let place = tempfile::tempdir().unwrap();
    fs::write(place.path().join("secret"), "secret").unwrap();
    fs::create_dir(place.path().join("elsewhere")).unwrap();
    fs::write(place.path().join("elsewhere/file"), "elsewhere").unwrap();
    let folder = Folder::create(&place.path().join("run")).unwrap();
    folder.make_folder("sort").unwrap();
    (place, folder)
}

fn refusal<T: std::fmt::Debug>(answer: io::Result<T>) -> Refusal {
    let error = answer.unwrap_err();
    error.get_ref().and_then(|inner| inner.downcast_ref::<Refusal>()).unwrap_or_else(|| panic!("{error:?}")).clone()
}

#[test]
fn no_name_and_no_link_leads_out_for_reading_or_writing() {
    let (place, folder) = place();
    let outside = place.path().join("secret").display().to_string();
    for name in ["../secret", "sort/../../secret", "./../secret", &outside] {
        assert_eq!(refusal(folder.read(name, 100)), Refusal::LeadsOut, "{name}");
        assert_eq!(refusal(folder.replace(name, b"x")), Refusal::LeadsOut, "{name}");
        assert_eq!(refusal(folder.append(name, b"x")), Refusal::LeadsOut, "{name}");
        assert_eq!(refusal(folder.make_folder(name)), Refusal::LeadsOut, "{name}");
        assert_eq!(refusal(folder.remove(name)), Refusal::LeadsOut, "{name}");
    }
    symlink("../secret", folder.path().join("link")).unwrap();
    symlink("../elsewhere", folder.path().join("middle")).unwrap();
    assert_eq!(refusal(folder.read("link", 100)), Refusal::Link("link".to_owned()));
    assert_eq!(refusal(folder.append("link", b"x")), Refusal::Link("link".to_owned()));
    for answer in [folder.read("middle/file", 100).map(drop), folder.replace("middle/new", b"x")] {
        assert_eq!(refusal(answer), Refusal::Link("middle".to_owned()));
    }
    assert_eq!(refusal(folder.make_folder("middle")), Refusal::Link("middle".to_owned()));
    folder.replace("link", b"mine").unwrap();
    assert_eq!(folder.read("link", 100).unwrap(), b"mine", "the link was replaced and not followed");
    assert_eq!(fs::read(place.path().join("secret")).unwrap(), b"secret");
    assert_eq!(fs::read_dir(place.path().join("elsewhere")).unwrap().count(), 1);
    folder.replace("sort/./file", b"inside").unwrap();
    assert_eq!(folder.read("sort/file", 6).unwrap(), b"inside");
}

#[test]
fn other_kinds_of_files_are_an_error_at_once() {
    let (_place, folder) = place();
    let path = |name: &str| folder.path().join(name);
    assert!(Command::new("mkfifo").arg(path("pipe")).status().unwrap().success());
    let _socket = UnixListener::bind(path("socket")).unwrap();
    for (name, what) in [("pipe", "a pipe"), ("socket", "a socket"), ("sort", "a folder"), (".", "a folder")] {
        assert_eq!(refusal(folder.read(name, 100)), Refusal::NotAFile(what), "{name}");
        assert_eq!(refusal(folder.append(name, b"x")), Refusal::NotAFile(what), "{name}");
    }
    let devices = Folder::open(Path::new("/dev")).unwrap();
    assert_eq!(refusal(devices.read("zero", 100)), Refusal::NotAFile("a device"));
}

#[test]
fn a_file_over_its_limit_is_refused_even_if_it_grows() {
    let (_place, folder) = place();
    folder.replace("file", &[7; 100]).unwrap();
    assert_eq!(folder.read("file", 100).unwrap().len(), 100);
    assert_eq!(refusal(folder.read("file", 99)), Refusal::TooLarge(99));
    let sparse = File::create(folder.path().join("sparse")).unwrap();
    sparse.set_len(1 << 40).unwrap();
    assert_eq!(refusal(folder.read("sparse", 1 << 20)), Refusal::TooLarge(1 << 20));
    // Files in /proc report size 0 but have content, like files that have grown since the check.
    let proc = Folder::open(Path::new("/proc/self")).unwrap();
    assert_eq!(refusal(proc.read("status", 10)), Refusal::TooLarge(10));
}

#[test]
fn created_files_are_private_and_no_partial_file_is_left() {
    let (place, folder) = place();
    let mode = |name: &str| fs::symlink_metadata(place.path().join(name)).unwrap().permissions().mode() & 0o777;
    folder.replace("file", b"x").unwrap();
    folder.replace("sort/log", b"line").unwrap();
    assert_eq!([mode("run"), mode("run/sort"), mode("run/file"), mode("run/sort/log")], [0o700, 0o700, 0o600, 0o600]);
    assert_eq!(folder.read("sort/log", 10).unwrap(), b"line");
    let names = |path: &str| fs::read_dir(place.path().join(path)).unwrap().count();
    assert_eq!((names("run"), names("run/sort")), (2, 1), "no partial file is left");
    folder.replace("sort", b"x").unwrap_err();
    assert_eq!(names("run"), 2, "no partial file is left if the rename fails");
}

#[test]
fn a_named_file_is_written_through_the_users_links_and_no_others() {
    let (place, _folder) = place();
    let path = |name: &str| place.path().join(name);
    symlink("secret", path("link")).unwrap();
    // Guesses of the temporary file's name.
    symlink("elsewhere/file", path(".page.partial")).unwrap();
    for next in 0..200 {
        symlink("elsewhere/file", path(&format!(".page.{}-{next}.partial", std::process::id()))).unwrap();
    }
    write_named(&path("page"), b"page").unwrap();
    write_named(&path("link"), b"through").unwrap();
    assert_eq!(fs::read(path("page")).unwrap(), b"page");
    assert_eq!(fs::read(path("secret")).unwrap(), b"through");
    assert_eq!(fs::read(path("elsewhere/file")).unwrap(), b"elsewhere");
    assert!(fs::symlink_metadata(path("link")).unwrap().file_type().is_symlink());
    assert!(!fs::symlink_metadata(path("page")).unwrap().file_type().is_fifo());
}
