//! Mutations of a valid run folder.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hairpin_model::{Outcome, RoundRecord, Samples};
use hairpin_store::RunFolder;
use serde_json::Value;

use super::files;

/// Random numbers from a seed (splitmix64).
pub(super) struct Generator(pub(super) u64);

impl Generator {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % bound as u64).expect("below a usize")
    }

    fn one<'a, T: ?Sized>(&mut self, of: &[&'a T]) -> &'a T {
        of[self.below(of.len())]
    }

    fn file(&mut self, run: &Path) -> String {
        let all = files(run);
        all[self.below(all.len())].clone()
    }
}

pub(super) type Mutation = fn(&Path, &mut Generator);

/// The number of the folder selects the mutation.
pub(super) const MUTATIONS: &[(&str, Mutation)] = &[
    ("a link in place of a file", |run, generator| {
        replace(run, generator, |path, generator| {
            let target =
                generator.one(&["../outside/canary", "/dev/zero", "/proc/self/environ", "run.json", "../outside"]);
            symlink(target, path).unwrap();
        })
    }),
    ("a link in the middle of a path", |run, generator| {
        let there: Vec<&str> = ["samples", "traces"].into_iter().filter(|sort| run.join(sort).is_dir()).collect();
        let sort = generator.one(&there);
        let outside = run.parent().unwrap().join("outside").join(sort);
        fs::rename(run.join(sort), &outside).unwrap();
        symlink(
            if generator.below(2) == 0 { PathBuf::from("../outside").join(sort) } else { outside },
            run.join(sort),
        )
        .unwrap();
    }),
    ("a pipe in place of a file", |run, generator| {
        replace(run, generator, |path, _| {
            assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
        })
    }),
    ("a folder, a socket or a device in place of a file", |run, generator| {
        replace(run, generator, |path, generator| {
            match generator.below(3) {
                0 => fs::create_dir(path).unwrap(),
                1 => drop(std::os::unix::net::UnixListener::bind(path)),
                // Only root can create a device; for other users the file is missing.
                _ => drop(Command::new("mknod").arg(path).args(["c", "1", "5"]).stderr(Stdio::null()).status()),
            }
        })
    }),
    ("a file of many GiB", |run, generator| {
        let name = generator.file(run);
        let gib = 1 + generator.below(60) as u64;
        OpenOptions::new().write(true).open(run.join(name)).unwrap().set_len(gib << 30).unwrap();
    }),
    ("a file as large as the limit", |run, generator| {
        let name = generator.one(&["run.json", "rounds.jsonl", "latency.hlog"]);
        let mut file = OpenOptions::new().append(true).open(run.join(name)).unwrap();
        let piece = generator.one(&["\0", "[", "{}\n", " ", "0,", "Tag=a,0,0,0,AAAA\n", "\"a\":"]).repeat(1 << 16);
        (0..(60 << 20) / piece.len()).for_each(|_| file.write_all(piece.as_bytes()).unwrap());
    }),
    ("a histogram that unpacks to gigabytes", |run, generator| {
        let mut packer = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::best());
        let head: Vec<u8> =
            [&[0x1c, 0x84, 0x93, 0x13][..], &[0x7f; 4], &[0; 7], &[3], &[0; 7], &[1], &[0x7f; 8]].concat();
        packer.write_all(&head[..generator.below(head.len())]).unwrap();
        (0..300).for_each(|_| packer.write_all(&vec![u8::try_from(generator.below(256)).unwrap(); 1 << 20]).unwrap());
        let packed = packer.finish().unwrap();
        histogram(run, generator, |bytes, _| *bytes = with_head(&packed));
    }),
    ("bytes of a histogram", |run, generator| {
        histogram(run, generator, |bytes, generator| {
            for _ in 0..=generator.below(4) {
                let at = generator.below(bytes.len());
                bytes[at] = generator.one(&[&0_u8, &0xff, &0x7f, &0x80, &1]).to_owned();
            }
        })
    }),
    ("counts and bounds of a histogram", |run, generator| {
        histogram(run, generator, |bytes, generator| {
            let mut plain = Vec::new();
            flate2::read::ZlibDecoder::new(&bytes[8..]).read_to_end(&mut plain).unwrap();
            for _ in 0..=generator.below(3) {
                let at = generator.below(plain.len().min(60));
                let end = plain.len().min(at + 1 + generator.below(9));
                plain[at..end].fill(generator.one(&[&0_u8, &0xff, &0x7f, &0x80]).to_owned());
            }
            let mut packer = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::default());
            packer.write_all(&plain).unwrap();
            *bytes = with_head(&packer.finish().unwrap());
        })
    }),
    ("a few bytes of Parquet that are ten million rows", |run, generator| {
        let rows = if generator.below(8) == 0 { 10_000_000 } else { 300_000 };
        let is_told = generator.below(4) > 0;
        let name = generator.one(&["bomb.parquet", "samples.parquet"]);
        rows_of_nothing(&run.join(name), rows);
        records(run, |measured, _| {
            measured["flows"][0]["samples_file"] = name.into();
            if is_told {
                measured["flows"][0]["samples_kept"] = rows.into();
            }
        });
    }),
    ("the metadata of the columns", |run, generator| {
        samples(run, generator, |bytes, generator| {
            let begins_at = bytes.len() - 1400.min(bytes.len());
            (0..=generator.below(6)).for_each(|_| garble(bytes, begins_at, generator));
        })
    }),
    ("the headers of pages", |run, generator| {
        samples(run, generator, |bytes, generator| {
            (0..=generator.below(12)).for_each(|_| garble(bytes, 0, generator));
        })
    }),
    ("file names outside the folder", |run, generator| {
        let outside = run.parent().unwrap().join("outside/canary").display().to_string();
        let names = [
            "../outside/canary",
            "/dev/zero",
            "/dev/stdin",
            "/proc/self/mem",
            "samples/../../outside/canary",
            "",
            ".",
            "/",
            "samples",
            "//dev/zero",
            "a\0b",
            "\u{202e}\u{1b}]0;x\u{7}\r\n",
            &outside,
        ];
        records(run, |measured, link| {
            for field in ["samples_file", "trace_file"] {
                if generator.below(2) == 0 {
                    measured[field] = generator.one(&names).into();
                }
            }
            measured["traced"]["capture"]["file"] = generator.one(&names).into();
            if let Some(link) = link {
                link["log_file"] = generator.one(&names).into();
            }
        });
    }),
    ("flipped bits", |run, generator| {
        let path = run.join(generator.file(run));
        let mut bytes = fs::read(&path).unwrap();
        for _ in 0..=generator.below(8) {
            let at = generator.below(bytes.len().max(1));
            if let Some(byte) = bytes.get_mut(at) {
                *byte ^= 1 << generator.below(8);
            }
        }
        fs::write(path, bytes).unwrap();
    }),
    ("a file cut short", |run, generator| {
        let path = run.join(generator.file(run));
        let length = generator.below(usize::try_from(fs::metadata(&path).unwrap().len()).unwrap() + 1);
        OpenOptions::new().write(true).open(path).unwrap().set_len(length as u64).unwrap();
    }),
    ("JSON nested a million levels deep", |run, generator| {
        json_text(run, generator, |text, generator| {
            let deep = generator.one(&["[", "{\"a\":", "[{\"a\":"]).repeat(1_000_000);
            text.replacen(':', &format!(":{deep}"), 1 + generator.below(20))
        })
    }),
    ("control characters in texts", |run, generator| {
        let share = 1 + generator.below(4);
        json(run, generator, |_, value, generator| {
            if let Value::String(text) = value
                && generator.below(share) == 0
            {
                let at = (0..=generator.below(text.len() + 1)).rev().find(|at| text.is_char_boundary(*at));
                text.insert_str(at.unwrap(), STEERING);
            }
        });
    }),
    ("control characters in texts that are only shown", |run, generator| {
        let shown = "label cause hint summary advice what reason command change name experiment question \
                     command_line why_invalid kernel cpu_model transport link";
        json(run, generator, |name, value, generator| {
            if let Value::String(text) = value
                && shown.split(' ').any(|shown| shown == name)
                && generator.below(2) == 0
            {
                text.push_str(STEERING);
            }
        });
    }),
    ("numbers", |run, generator| {
        let numbers = "0 -1 1e308 -1e308 999999999999999 18446744073709551615 1e-320 4294967295";
        let numbers: Vec<&str> = numbers.split(' ').collect();
        json(run, generator, |_, value, generator| {
            if value.is_number() && generator.below(40) == 0 {
                *value = serde_json::from_str(generator.one(&numbers)).unwrap();
            }
        });
    }),
    ("values that are missing or of another type", |run, generator| {
        json(run, generator, |_, value, generator| {
            if generator.below(300) == 0 {
                let other = generator.one(&["null", "[]", "{}", "\"\"", "[[]]", "true"]);
                *value = serde_json::from_str(other).unwrap();
            }
        });
    }),
    ("lists of a million entries", |run, generator| {
        json_text(run, generator, |text, generator| {
            let entry = generator.one(&["0,", "\"\",", "[],", "{},", "[\"\",[]],", "null,", "{\"value\":0},"]);
            let many = entry.repeat(1_000_000);
            let place = text.match_indices('[').nth(generator.below(12)).map_or(0, |(place, _)| place + 1);
            format!("{}{many}{}", &text[..place], &text[place..])
        })
    }),
    ("a hundred thousand rounds", |run, generator| {
        let text = fs::read_to_string(run.join("rounds.jsonl")).unwrap();
        let mut record: Value = serde_json::from_str(text.lines().nth(generator.below(3)).unwrap()).unwrap();
        let is_failed = generator.below(2) == 0;
        if is_failed {
            record["outcome"] = serde_json::json!({ "kind": "failed", "cause": "none", "hint": "none" });
        }
        let (mut out, has_cases) = (String::new(), generator.below(2) == 0);
        for number in 0..fitting(if is_failed { 100_000 } else { 12_000 }, &record) {
            record["number"] = number.into();
            if has_cases {
                record["case_id"] = format!("{number:016x}").into();
            }
            out.push_str(&record.to_string());
            out.push('\n');
        }
        fs::write(run.join("rounds.jsonl"), out).unwrap();
        fs::write(run.join("run.json"), running(run)).unwrap();
    }),
    ("two thousand cases", |run, generator| {
        let mut head: Value = serde_json::from_str(&fs::read_to_string(run.join("run.json")).unwrap()).unwrap();
        let count = [1900, 30_000][generator.below(2)];
        for of in ["cases", "findings", "comparisons"] {
            let list = head[of].as_array_mut().unwrap();
            let Some(first) = list.first().cloned() else { continue };
            list.extend((0..fitting(count, &first)).map(|number| {
                let mut one = first.clone();
                if of == "cases" {
                    one["id"] = format!("{number:016x}").into();
                }
                one
            }));
        }
        fs::write(run.join("run.json"), head.to_string()).unwrap();
    }),
    ("links at the guessed names of temporary files", |run, generator| {
        drop(fs::remove_file(run.join("report.html")));
        symlink("../outside/canary", run.join("report.html")).unwrap();
        for name in ["report.html", "run.json", "rounds.jsonl"] {
            symlink("../outside/canary", run.join(format!(".{name}.partial"))).unwrap();
            symlink("../outside/canary", run.join(format!(".{name}.{}-0.partial", generator.below(100_000))))
                .unwrap();
        }
        if generator.below(2) == 0 {
            fs::write(run.join("run.json"), running(run)).unwrap();
        }
    }),
];

/// One of each kind of character that controls a terminal.
const STEERING: &str = "\u{1b}[2J\u{7}\r\n\t\u{7f}\u{9b}31m\u{85}\u{202e}\u{2066}\u{200f}\u{61c}\u{2028}\u{0}";

/// Limits the number of copies of a record to those that fit into a file of 100 MB.
fn fitting(count: usize, record: &Value) -> usize {
    const MAX_BYTES: usize = 100_000_000;
    count.min(MAX_BYTES / record.to_string().len())
}

/// Removes one or two files and puts something else in their place.
fn replace(run: &Path, generator: &mut Generator, make: fn(&Path, &mut Generator)) {
    for _ in 0..=generator.below(2) {
        let path = run.join(generator.file(run));
        fs::remove_file(&path).unwrap();
        make(&path, generator);
    }
}

/// Changes each samples file.
fn samples(run: &Path, generator: &mut Generator, change: fn(&mut Vec<u8>, &mut Generator)) {
    let all: Vec<String> = files(run).into_iter().filter(|name| name.starts_with("samples")).collect();
    for name in all {
        let path = run.join(name);
        let mut bytes = fs::read(&path).unwrap();
        change(&mut bytes, generator);
        fs::write(path, bytes).unwrap();
    }
}

/// Overwrites some bytes, often with a large number in the encodings of Parquet.
fn garble(bytes: &mut [u8], from: usize, generator: &mut Generator) {
    let at = from + generator.below(bytes.len() - from);
    let pieces: [&[u8]; 6] =
        [&[0xff, 0xff, 0xff, 0xff, 0x0f], &[0xff; 9], &[0], &[0x7f], &[0xfe, 0xff, 0xff, 0xff, 0x07], &[0x19]];
    for (byte, other) in bytes[at..].iter_mut().zip(generator.one(&pieces)) {
        *byte = *other;
    }
}

/// Changes the bytes of each histogram, which are in base64 at the end of a line.
fn histogram(run: &Path, generator: &mut Generator, mut change: impl FnMut(&mut Vec<u8>, &mut Generator)) {
    let path = run.join("latency.hlog");
    let text = fs::read_to_string(&path).unwrap();
    let changed = text.lines().map(|line| match line.rsplit_once(',') {
        Some((head, encoded)) if line.starts_with("Tag=") => {
            let mut bytes = STANDARD.decode(encoded).unwrap();
            change(&mut bytes, generator);
            format!("{head},{}\n", STANDARD.encode(bytes))
        }
        _ => format!("{line}\n"),
    });
    fs::write(&path, changed.collect::<String>()).unwrap();
}

/// Puts a valid cookie and length before a compressed histogram, so that readers decompress it.
fn with_head(packed: &[u8]) -> Vec<u8> {
    let length = u32::try_from(packed.len()).unwrap();
    [&0x1c84_9314_u32.to_be_bytes(), &length.to_be_bytes(), packed].concat()
}

fn json_text(run: &Path, generator: &mut Generator, change: fn(&str, &mut Generator) -> String) {
    let all: Vec<String> = files(run).into_iter().filter(|name| name.contains(".json")).collect();
    let path = run.join(&all[generator.below(all.len())]);
    let changed = change(&fs::read_to_string(&path).unwrap(), generator);
    fs::write(path, changed).unwrap();
}

/// Calls `change` for each value of `run.json`, the rounds and the traces, with the name of its field.
fn json(run: &Path, generator: &mut Generator, mut change: impl FnMut(&str, &mut Value, &mut Generator)) {
    for name in files(run).into_iter().filter(|name| name.contains(".json")) {
        // Often changes only some of the files, because commands may stop at the first unreadable file.
        if generator.below(3) == 0 {
            continue;
        }
        let path = run.join(&name);
        let text = fs::read_to_string(&path).unwrap();
        let parts: Vec<&str> = if name.ends_with('l') { text.lines().collect() } else { vec![&text] };
        let changed = parts.into_iter().map(|part| {
            let mut value = serde_json::from_str(part).unwrap();
            each_named(&mut value, "", &mut |name, value| change(name, value, generator));
            format!("{value}\n")
        });
        fs::write(&path, changed.collect::<String>()).unwrap();
    }
}

/// Calls `change` for each value within `value`, with the name of its field.
fn each_named(value: &mut Value, name: &str, change: &mut dyn FnMut(&str, &mut Value)) {
    match value {
        Value::Array(list) => list.iter_mut().for_each(|value| each_named(value, name, change)),
        Value::Object(map) => map.iter_mut().for_each(|(name, value)| each_named(value, name, change)),
        _ => {}
    }
    change(name, value);
}

/// Changes each measured round, and its link if it has one.
fn records(run: &Path, mut change: impl FnMut(&mut Value, Option<&mut Value>)) {
    let path = run.join("rounds.jsonl");
    let text = fs::read_to_string(&path).unwrap();
    let changed = text.lines().map(|line| {
        let mut record: Value = serde_json::from_str(line).unwrap();
        let mut link = record["outcome"].get("link").cloned();
        change(&mut record["outcome"], link.as_mut());
        if let Some(link) = link {
            record["outcome"]["link"] = link;
        }
        format!("{record}\n")
    });
    fs::write(&path, changed.collect::<String>()).unwrap();
}

/// Returns `run.json` as if the run had been killed, so that every command computes the results again.
fn running(run: &Path) -> String {
    let mut head: Value = serde_json::from_str(&fs::read_to_string(run.join("run.json")).unwrap()).unwrap();
    head["state"] = "running".into();
    head.to_string()
}

/// Creates a samples file with `rows` equal rows, which take almost no space.
fn rows_of_nothing(to: &Path, rows: usize) {
    let run = to.parent().unwrap();
    let line = fs::read_to_string(run.join("rounds.jsonl")).unwrap();
    let mut record: RoundRecord = serde_json::from_str(line.lines().next().unwrap()).unwrap();
    assert!(matches!(record.outcome, Outcome::Measured(_)));
    let samples = Samples { measured: rows as u64, ..Samples::with_rows(rows) };
    let place = tempfile::tempdir().unwrap();
    let other = RunFolder::create(&place.path().join("run")).unwrap();
    let samples = [(record.order.case.primary().id.clone(), samples)].into();
    other.append(&mut record, &samples, None).unwrap();
    let Outcome::Measured(measured) = &record.outcome else { panic!("it is measured") };
    fs::rename(other.path().join(measured.primary().samples_file.as_ref().unwrap()), to)
        .or_else(|_| fs::copy(other.path().join(measured.primary().samples_file.as_ref().unwrap()), to).map(drop))
        .unwrap();
    let mut tail = [0; 4];
    let mut file = File::open(to).unwrap();
    file.seek(SeekFrom::End(-4)).unwrap();
    file.read_exact(&mut tail).unwrap();
    assert_eq!(&tail, b"PAR1");
}
