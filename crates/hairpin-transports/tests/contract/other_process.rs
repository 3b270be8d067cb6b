//! The server in a separate process, which is killed without warning.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use hairpin_model::Protocol;
use hairpin_model::Waiting;
use hairpin_transports::{Setup, WireError, find};

use super::ends::{COOKIE, Checked, LONG, SHORT, Subject, accept, is_timed_out, random_bytes, shown, text};
use crate::ensure;

/// The environment variable for the server process's parameters, and the text before its address in the output.
const ROLE: &str = "HAIRPIN_CONTRACT_FAR_END";
const ADDRESS: &str = "listening at: ";

/// The server process: echoes one message, and then stays silent until it is killed.
pub(crate) fn server_end() {
    let role = std::env::var(ROLE).expect("only the contract's checks start this process");
    let (transport, waiting) = role.split_once(' ').expect("a transport and a waiting");
    let waiting: Waiting = waiting.parse().expect("a waiting");
    let transport = find(transport).expect("a transport");
    let setup = Setup { cookie: COOKIE, ..Setup::new(waiting, LONG, 100) };
    let listener = transport.listen(&setup).expect("listen");
    // Not `println!`, which the test harness captures.
    writeln!(std::io::stdout(), "\n{ADDRESS}{}", listener.address()).expect("standard output is open");
    let mut server = accept(listener).expect("accept");
    let mut into = [0; 100];
    let bytes = server.receive(&mut into).expect("receive");
    server.send(&into[..bytes]).expect("send");
    // Ends after the time-out if nothing kills this process.
    let _ = server.receive(&mut into);
}

/// A child process, which is killed at the end of its check.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start(subject: &Subject, folder: &Path) -> Result<(Process, String), String> {
    let mut child = Command::new(std::env::current_exe().map_err(text)?)
        .args(["--exact", "contract::child_server", "--ignored", "--nocapture", "--test-threads=1"])
        .env(ROLE, format!("{} {}", subject.card.name, subject.waiting))
        .env("TMPDIR", folder)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(text)?;
    let output = child.stdout.take();
    let child = Process(child);
    let mut lines = BufReader::new(output.ok_or("no output")?).lines();
    let address = lines.find_map(|line| line.ok()?.split_once(ADDRESS).map(|(_, address)| address.to_owned()));
    Ok((child, address.ok_or("the server process printed no address")?))
}

pub(crate) fn killed(subject: &Subject) -> Checked {
    let folder = Folder::new()?;
    let (mut process, address) = start(subject, &folder.0)?;
    // Datagram receivers are not notified when the other end dies: receive times out, and only send fails.
    let tells =
        subject.card.reliable && subject.card.name != "unix-datagram" && subject.card.protocol != Protocol::Udp;
    let setup = subject.setup(100, if tells { LONG } else { Duration::from_millis(500) });
    let mut client = subject.connect(&address, &setup).map_err(text)?;
    client.send(&random_bytes(5, 100)).map_err(text)?;
    ensure!(client.wait(LONG).map_err(text)?, "the other process does not answer");
    ensure!(
        subject.receive_whole(&mut *client, 100)? == random_bytes(5, 100),
        "the answer of the other process changed"
    );
    std::thread::scope(|scope| {
        let receiver = scope.spawn(|| client.receive(&mut [0; 100]));
        std::thread::sleep(SHORT);
        process.0.kill().map_err(text)?;
        process.0.wait().map_err(text)?;
        let answer = receiver.join().map_err(|_| "the receiver panicked")?;
        let is_closed = matches!(answer, Err(WireError::Closed));
        ensure!(is_closed || !tells && is_timed_out(&answer), "receive answers {}", shown(&answer));
        Ok(())
    })?;
    // The first send may still be accepted; later sends report the close. A library also has to hear of it.
    let most = if subject.card.library.is_some() { 100 } else { 3 };
    let mut last = Ok(());
    for _ in 0..most {
        last = client.send(b"anybody there?");
        if last.is_err() {
            break;
        }
        if let Some(due_in) = client.drive() {
            std::thread::sleep(due_in);
        }
    }
    ensure!(matches!(last, Err(WireError::Closed)), "the last of {most} sends answers {}", shown(&last));
    let left_behind = std::fs::read_dir(&folder.0).map_err(text)?.count();
    ensure!(left_behind == 0, "{left_behind} files are left behind");
    Ok(())
}

/// A folder for the server process's files, to check that none are left.
struct Folder(std::path::PathBuf);

impl Folder {
    fn new() -> Result<Self, String> {
        let path =
            std::env::temp_dir().join(format!("contract-{}-{:?}", std::process::id(), std::thread::current().id()));
        std::fs::create_dir_all(&path).map_err(text)?;
        Ok(Self(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir(&self.0);
    }
}
