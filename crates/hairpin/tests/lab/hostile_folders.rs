//! Run folders from an attacker: whatever a folder contains, every command that reads it ends within limits of memory
//! and time, writes nothing outside, and sends no control characters to the terminal.
//!
//! A folder is a valid run with one or more mutations, chosen by its number. `HAIRPIN_HOSTILE_FOLDERS=1000` tries more
//! folders than the default.

mod mutations;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use hairpin_model::printable::steers;
use hairpin_store::RunFolder;
use serde_json::Value;
use tempfile::TempDir;

use self::mutations::{Generator, MUTATIONS};
use crate::support::{PROGRAM, Place, copy};

/// Default number of folders.
const FOLDERS: u64 = 24;
/// Maximum address space of a command, in KB: 500 MB.
const MEMORY_KB: u64 = 500_000_000 / 1024;
/// Maximum CPU time of a command, in seconds. Unlike wall time it does not depend on the load of the machine. A build
/// without optimisation is an order of magnitude slower.
const CPU_S: u64 = if cfg!(debug_assertions) { 40 } else { 10 };
/// Time after which a command is killed, because a command that waits uses no CPU time.
const PATIENCE: Duration = Duration::from_secs(120);

/// Commands to try. `RUN` is the folder, `OTHER` a valid run.
const COMMANDS: &[&[&str]] = &[
    &["analyse", "RUN"],
    &["report", "RUN"],
    &["report", "RUN", "--csv"],
    &["report", "RUN", "--json"],
    &["report", "RUN", "--csv=samples"],
    &["compare", "RUN", "OTHER", "--allow-unlike"],
    &["analyse", "RUN", "--ladder"],
    &["compare", "OTHER", "RUN"],
    &["report", "RUN", "--html", "page.html"],
    &["compare", "OTHER", "RUN", "--json", "--allow-unlike"],
    &["analyse", "RUN", "--json"],
    &["runs", ".", "--json"],
    &["runs", "."],
];

#[test]
fn no_run_folder_does_harm() {
    let asked = std::env::var("HAIRPIN_HOSTILE_FOLDERS").ok();
    let count = asked.map_or(FOLDERS, |text| text.parse().expect("HAIRPIN_HOSTILE_FOLDERS is a number"));
    let base = Place::new();
    let plans = [
        "small-writes --placement same-cpu --transport tcp --remedy default,nodelay --exchanges 30 --rounds 2 --out run",
        "under-load --placement same-cpu --load-cpu same --probe-connection own,shared --responsiveness on --idle 100ms \
         --ramp 100ms --duration 100ms --recovery 100ms --rounds 2 --out loaded",
    ];
    for plan in plans {
        let words: Vec<&str> = plan.split_whitespace().chain(["--seed", "5", "--quiet"]).collect();
        base.hairpin(&words).with_code(0);
    }
    assert!(
        base.path("run/samples.parquet").is_file() && base.path("run/traces").is_dir(),
        "the mutations need these files"
    );
    with_files_of_rounds(&base, ["run", "killed"]);
    with_files_of_rounds(&base, ["loaded", "loaded-killed"]);
    let mut codes = BTreeMap::new();
    let mut faults = Vec::new();
    for number in 0..count {
        let tried = Tried::new(&base, number);
        match tried.harm(&base) {
            Ok(code) => *codes.entry(code).or_insert(0_u64) += 1,
            Err(fault) => faults.push(fault),
        }
    }
    eprintln!("{count} hostile run folders: exit codes {codes:?}");
    assert!(faults.is_empty(), "{} of {count}:\n{}", faults.len(), faults.join("\n"));
    assert!(codes.contains_key(&0) && codes.contains_key(&2), "some are refused and some are harmless: {codes:?}");
}

/// Saves a run again as if it had been killed: with a samples file for each round.
fn with_files_of_rounds(base: &Place, [name, killed]: [&str; 2]) {
    let (from, run) = RunFolder::open(&base.path(name)).unwrap();
    let to = RunFolder::create(&base.path(killed)).unwrap();
    to.write_run(&run).unwrap();
    let mut samples_of = from.samples().unwrap();
    for mut record in run.rounds {
        let flows = record.order.case.flows.iter();
        let samples = flows.filter_map(|flow| Some((flow.id.clone(), samples_of(&record, flow).unwrap()?)));
        let samples = samples.collect();
        to.append(&mut record, &samples, None).unwrap();
    }
    if base.path(name).join("traces").is_dir() {
        copy(&base.path(name).join("traces"), &base.path(killed).join("traces"));
    }
    assert!(base.path(killed).join("samples/round-000000.parquet").is_file());
}

/// A hostile folder, and the command to try.
struct Tried {
    folder: TempDir,
    name: String,
    command: Vec<&'static str>,
}

impl Tried {
    fn new(base: &Place, number: u64) -> Self {
        let folder = TempDir::new_in(base.path(".")).unwrap();
        let path = |name: &str| folder.path().join(name);
        let kinds = ["run", "killed", "loaded-killed"];
        let kind_of_run = kinds[usize::try_from(number).unwrap() % kinds.len()];
        copy(&base.path(kind_of_run), &path("run"));
        copy(&base.path("run"), &path("other"));
        for name in ["outside", "tmp"] {
            fs::create_dir(path(name)).unwrap();
        }
        fs::write(path("outside/canary"), "canary").unwrap();
        let mut generator = Generator(number);
        let kind = usize::try_from(number).unwrap() % MUTATIONS.len();
        let (name, mutate) = MUTATIONS[kind];
        mutate(&path("run"), &mut generator);
        // Each repetition of a mutation uses the next command, so all pairs occur after `COMMANDS.len()` repetitions.
        let command = COMMANDS[(usize::try_from(number).unwrap() / MUTATIONS.len() + kind) % COMMANDS.len()];
        let filled = command.iter().map(|word| match *word {
            "RUN" => "run",
            "OTHER" => "other",
            word => word,
        });
        let command: Vec<_> = filled.collect();
        Self { name: format!("folder {number}, {name}: hairpin {}", command.join(" ")), folder, command }
    }

    /// Runs the command. Returns its exit code, or the harm that it did.
    fn harm(&self, base: &Place) -> Result<i32, String> {
        let before = self.outside();
        let [out, err] = ["out", "err"].map(|name| self.folder.path().join("tmp").join(name));
        let limits = format!("ulimit -v {MEMORY_KB} && ulimit -t {CPU_S} && exec \"$0\" \"$@\"");
        let mut command = base.command("sh");
        command
            .current_dir(&self.folder)
            .args(["-c", &limits, PROGRAM])
            .args(&self.command)
            .env("RUST_BACKTRACE", "0");
        command.stdin(Stdio::null()).stdout(File::create(&out).unwrap()).stderr(File::create(&err).unwrap());
        let mut child = command.spawn().unwrap();
        let deadline = Instant::now() + PATIENCE;
        let status = loop {
            if let Some(status) = child.try_wait().unwrap() {
                break status;
            }
            if Instant::now() > deadline {
                child.kill().unwrap();
                child.wait().unwrap();
                return Err(format!("{}: did not end", self.name));
            }
            std::thread::sleep(Duration::from_millis(2));
        };
        let [said, told] = [out, err].map(|path| String::from_utf8_lossy(&fs::read(path).unwrap()).into_owned());
        let harm = |what: &str| Err(format!("{}: {what}: {}", self.name, told.chars().take(400).collect::<String>()));
        let code = match status.code() {
            Some(code @ 0..=5) => code,
            _ => return harm(&format!("ended with {status}")),
        };
        if told.contains("panicked") {
            return harm("panicked");
        }
        if code == 2 && !told.contains("error: ") {
            return harm("was refused without an error message");
        }
        let may_stand = |letter: char| !steers(letter) || letter == '\n';
        if let Some(place) = [&said, &told].iter().find_map(|text| text.find(|letter| !may_stand(letter))) {
            return harm(&format!("printed a control character at {place}"));
        }
        if self.command.contains(&"--json")
            && matches!(code, 0 | 4 | 5)
            && serde_json::from_str::<Value>(&said).is_err()
        {
            return harm("printed invalid JSON");
        }
        if self.outside() != before {
            return harm("wrote outside");
        }
        Ok(code)
    }

    /// All files next to the run, with their content and modification time.
    fn outside(&self) -> BTreeMap<String, (Vec<u8>, i64, i64)> {
        let mut all = BTreeMap::new();
        for folder in ["outside", "other"] {
            for name in files(&self.folder.path().join(folder)) {
                let path = self.folder.path().join(folder).join(&name);
                let found = fs::metadata(&path).unwrap();
                all.insert(format!("{folder}/{name}"), (fs::read(&path).unwrap(), found.mtime(), found.mtime_nsec()));
            }
        }
        let names = fs::read_dir(&self.folder).unwrap().map(|entry| entry.unwrap().file_name());
        for name in names.filter(|name| name != "page.html" && name != "run") {
            all.insert(name.to_string_lossy().into_owned(), (Vec::new(), 0, 0));
        }
        all
    }
}

/// The regular files below a folder, as relative paths, sorted.
fn files(folder: &Path) -> Vec<String> {
    let mut all = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(&next).unwrap() {
            let path = entry.unwrap().path();
            if fs::symlink_metadata(&path).unwrap().is_dir() {
                folders.push(path);
            } else if fs::symlink_metadata(&path).unwrap().is_file() {
                all.push(path.strip_prefix(folder).unwrap().to_str().unwrap().to_owned());
            }
        }
    }
    all.sort();
    all
}
