//! A program file to copy to another host. Its headers show on which systems and machines the program runs.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use hairpin_model::{Failure, FailureKind};
use ring::digest::{SHA256, digest};

/// Bytes at the start of a program file that contain its headers.
const HEADERS_BYTES: u64 = 64 << 10;
/// Output of `uname -s` on a host that runs ELF files.
const SYSTEM: &str = "Linux";
/// Values of `e_machine` (elf(5)), and the names that `uname -m` prints for each.
const MACHINES: &[(u16, &[&str])] = &[
    (3, &["i386", "i486", "i586", "i686"]),
    (40, &["armv6l", "armv7l", "armv8l"]),
    (62, &["x86_64"]),
    (183, &["aarch64"]),
    (243, &["riscv64"]),
];

#[derive(Clone, Debug)]
pub struct Binary {
    path: PathBuf,
    bytes: u64,
    /// The first bytes of the SHA-256 digest.
    digest: u64,
    elf: Elf,
}

/// Headers of a program file (elf(5)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Elf {
    machine: u16,
    /// Whether the file needs no dynamic loader.
    is_static: bool,
}

impl Binary {
    /// Reads the headers, the size and the digest.
    ///
    /// # Errors
    /// The file cannot be read, is not a program, or is dynamically linked and so needs libraries of the other host.
    pub fn read(path: &Path) -> Result<Self, Failure> {
        let unread = |error: io::Error| {
            Failure::new(
                &error,
                format!("cannot read the program {}: {error}", path.display()),
                "give the file to copy with --copy-binary=FILE",
            )
        };
        let mut file = File::open(path).map_err(unread)?;
        let mut program = Vec::new();
        (&mut file).take(HEADERS_BYTES).read_to_end(&mut program).map_err(unread)?;
        let elf = Elf::read(&program).ok_or_else(|| {
            Failure::new(
                FailureKind::Unsupported,
                format!("{} is not a Linux program, so it is not copied", path.display()),
                "give a static program with --copy-binary=FILE; `cargo xtask dist` builds one",
            )
        })?;
        if !elf.is_static {
            return Err(Failure::new(
                FailureKind::Unsupported,
                format!("{} is linked dynamically, so it is not copied", path.display()),
                "`cargo xtask dist` builds a static one; give its path with --copy-binary=FILE",
            ));
        }
        file.read_to_end(&mut program).map_err(unread)?;
        let digest = digest(&SHA256, &program);
        let digest = u64::from_be_bytes(*digest.as_ref().first_chunk().expect("SHA-256 has 32 bytes"));
        Ok(Self { path: path.to_owned(), bytes: program.len() as u64, digest, elf })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Size of the file.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the file name of a copy, which differs for each version and build.
    pub fn name(&self) -> String {
        format!("hairpin-{}-{:016x}", env!("CARGO_PKG_VERSION"), self.digest)
    }

    /// Checks that the program runs on a host where `uname -sm` prints `system`.
    ///
    /// # Errors
    /// The program is for another system or machine.
    pub fn check_for(&self, system: &str) -> Result<(), Failure> {
        let known =
            MACHINES.iter().find(|(machine, _)| *machine == self.elf.machine).map_or(&[][..], |(_, names)| names);
        let fits = system.split_once(' ').is_some_and(|(name, machine)| name == SYSTEM && known.contains(&machine));
        if fits {
            return Ok(());
        }
        let arch = known.first().map_or_else(|| format!("machine {}", self.elf.machine), |name| (*name).to_owned());
        Err(Failure::new(
            FailureKind::Unsupported,
            format!("{} is for {SYSTEM} {arch}, and the host is {system}", self.path.display()),
            "give a static program for that host with --copy-binary=FILE, or install Hairpin there",
        ))
    }
}

impl Elf {
    /// Parses the headers; `None` if the file is not an ELF program or a header is incomplete.
    fn read(file: &[u8]) -> Option<Self> {
        /// Type of the segment that contains the path of the dynamic loader.
        const PT_INTERP: u32 = 3;
        let (is_64_bit, is_little) = match file {
            [0x7f, b'E', b'L', b'F', class @ (1 | 2), data @ (1 | 2), ..] => (*class == 2, *data == 1),
            _ => return None,
        };
        let number = |at: usize, length: usize| -> Option<u64> {
            let bytes = file.get(at..at.checked_add(length)?)?;
            let add = |sum: u64, byte: &u8| sum << 8 | u64::from(*byte);
            Some(if is_little { bytes.iter().rev().fold(0, add) } else { bytes.iter().fold(0, add) })
        };
        let (header, table_at, table_length, size_at, count_at) =
            if is_64_bit { (64, 32, 8, 54, 56) } else { (52, 28, 4, 42, 44) };
        let offset = |at, length| usize::try_from(number(at, length)?).ok();
        let (table, size, count) = (offset(table_at, table_length)?, offset(size_at, 2)?, offset(count_at, 2)?);
        // The program headers follow the file header.
        if file.len() < header || table < header {
            return None;
        }
        let kinds = (0..count).map(|index| number(table.checked_add(index.checked_mul(size)?)?, 4));
        let kinds: Vec<u64> = kinds.collect::<Option<_>>()?;
        let machine = u16::try_from(number(18, 2)?).ok()?;
        // A file without segments is not a program.
        (!kinds.is_empty()).then(|| Self { machine, is_static: !kinds.contains(&u64::from(PT_INTERP)) })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Builds a file header and segments of those types.
    fn elf(is_64_bit: bool, is_little: bool, machine: u16, kinds: &[u32]) -> Vec<u8> {
        let (header, segment) = if is_64_bit { (64, 56) } else { (52, 32) };
        let mut file = vec![0; header + segment * kinds.len()];
        file[..6].copy_from_slice(&[0x7f, b'E', b'L', b'F', 1 + u8::from(is_64_bit), 2 - u8::from(is_little)]);
        let mut put = |at: usize, length: usize, value: u64| {
            let bytes = value.to_be_bytes();
            let bytes = &bytes[8 - length..];
            file[at..at + length].copy_from_slice(bytes);
            if is_little {
                file[at..at + length].reverse();
            }
        };
        put(18, 2, u64::from(machine));
        let (table, size, count) = if is_64_bit { ((32, 8), 54, 56) } else { ((28, 4), 42, 44) };
        put(table.0, table.1, header as u64);
        put(size, 2, segment as u64);
        put(count, 2, kinds.len() as u64);
        for (index, kind) in kinds.iter().enumerate() {
            put(header + segment * index, 4, u64::from(*kind));
        }
        file
    }

    #[test]
    fn static_and_dynamic_programs_are_distinguished_in_each_form() {
        for (is_64_bit, is_little) in [(true, true), (true, false), (false, true), (false, false)] {
            let read = |kinds: &[u32]| Elf::read(&elf(is_64_bit, is_little, 62, kinds));
            assert_eq!(read(&[1, 2]), Some(Elf { machine: 62, is_static: true }));
            assert_eq!(read(&[6, 3, 1]), Some(Elf { machine: 62, is_static: false }));
            assert_eq!(read(&[]), None, "not a program");
        }
        assert_eq!(Elf::read(b"#!/bin/sh\n"), None);
        // A segment table within the file header is invalid.
        let mut within = elf(false, true, 62, &[1, 3]);
        within[28] = 0;
        assert_eq!([46, 52, within.len()].map(|end| Elf::read(&within[..end])), [None; 3]);
    }

    #[test]
    fn a_copy_is_named_after_its_content_and_is_for_its_machine_only() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("program");
        std::fs::write(&file, elf(true, true, 62, &[1])).unwrap();
        let binary = Binary::read(&file).unwrap();
        assert_eq!(binary.bytes(), 120);
        let mut longer = elf(true, true, 62, &[1]);
        longer.resize(200_000, 0);
        std::fs::write(&file, longer).unwrap();
        let other = Binary::read(&file).unwrap();
        assert_eq!(other.bytes(), 200_000);
        assert!(other.name() != binary.name() && binary.name().starts_with("hairpin-"), "{}", binary.name());
        assert_eq!(binary.name().len(), other.name().len());
        binary.check_for("Linux x86_64").unwrap();
        for system in ["Linux aarch64", "Darwin x86_64", "Linux", ""] {
            let why = binary.check_for(system).unwrap_err().cause;
            assert!(why.ends_with(&format!("is for Linux x86_64, and the host is {system}")), "{why}");
        }
    }

    #[test]
    fn dynamic_programs_and_other_files_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("program");
        std::fs::write(&file, elf(true, true, 62, &[3])).unwrap();
        let why = Binary::read(&file).unwrap_err();
        assert!(why.cause.contains("is linked dynamically") && why.hint.contains("cargo xtask dist"), "{why}");
        std::fs::write(&file, "#!/bin/sh\n").unwrap();
        assert!(Binary::read(&file).unwrap_err().cause.contains("is not a Linux program"));
        assert!(Binary::read(folder.path().join("no").as_path()).unwrap_err().cause.contains("cannot read"));
    }

    proptest! {
        #[test]
        fn parsing_a_damaged_header_does_not_panic(cut in 0_usize..300, changes in prop::collection::vec((0_usize..300, any::<u8>()), 0..12), is_64_bit: bool) {
            let mut file = elf(is_64_bit, true, 62, &[1, 3]);
            for (at, byte) in changes {
                if let Some(place) = file.get_mut(at) {
                    *place = byte;
                }
            }
            file.truncate(cut);
            let read = Elf::read(&file);
            let is_whole = file.len() > 64 || file.len() > 52 && file[4] == 1;
            prop_assert!(read.is_none() || is_whole);
        }
    }
}
