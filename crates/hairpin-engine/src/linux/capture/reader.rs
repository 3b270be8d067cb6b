//! The observer `capture`: another process captures the packets of a load, and reads and discards them, as a capture
//! program without a disk would.

use std::hint::black_box;
use std::io::{self, BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::process::{Child, ChildStdin, ChildStdout};
use std::time::Duration;

use hairpin_model::{Fact, FactValue, Failure, FailureKind, Protocol, fact_names};
use serde::{Deserialize, Serialize};

use super::{Live, begin_of};
use crate::child::{leave, limit, receive_order, spawn};
use crate::packets::headers;
use crate::system::{cpu, interface, packet_ring, process};
use crate::wait::readable;

pub const COMMAND: &str = "__capture";
/// The name of the process in error messages.
const NAME: &str = "the capture";
/// The process writes this line once it captures.
const READY: &str = "ready";
/// Time for the process to write a line.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Interval between two reads of the ring. A wait for each packet would wake the process for each, which costs the sender
/// more than the capture; capture programs let the kernel collect packets too.
const READ_INTERVAL: Duration = Duration::from_millis(1);

#[derive(Serialize, Deserialize)]
struct Order {
    interface: String,
    protocol: u8,
    port: u16,
}

/// The running process. Dropping it ends the process.
pub(crate) struct CaptureProcess {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl CaptureProcess {
    pub(crate) fn start(protocol: Protocol, of_wire: &[Fact]) -> Result<Self, Failure> {
        let own = of_wire.iter().find_map(|fact| match &fact.value {
            FactValue::Word(address) if fact.name == fact_names::LOCAL_ADDRESS => address.parse::<SocketAddr>().ok(),
            _ => None,
        });
        let protocol = if protocol == Protocol::Udp { headers::UDP } else { headers::TCP };
        let found = own.and_then(|own| Some((interface::name_of(own.ip())?, own.port())));
        let (interface, port) = found.ok_or_else(|| failed("no interface has the address of the client"))?;
        let program =
            std::env::current_exe().map_err(|error| failed(format!("cannot find this program: {error}")))?;
        let (child, input, output) = spawn(NAME, &program, COMMAND, None)?;
        let mut process = Self { child, input: Some(input), output: BufReader::new(output) };
        let order = serde_json::to_string(&Order { interface, protocol, port }).expect("an order is plain data");
        let sent = process.input.as_mut().map_or(Ok(()), |input| writeln!(input, "{order}"));
        sent.map_err(|error| Failure::new(&error, format!("cannot start {NAME}: {error}"), limit(&error)))?;
        match process.line()? {
            line if line == READY => Ok(process),
            line => Err(failed(line)),
        }
    }

    /// Ends the capture. Returns the numbers of captured and of lost packets.
    pub(crate) fn finish(mut self) -> Result<Vec<Fact>, Failure> {
        drop(self.input.take());
        let line = self.line()?;
        let counts = line.split_once(' ').and_then(|(one, other)| Some([one.parse().ok()?, other.parse().ok()?]));
        let [recorded, lost] = counts.ok_or_else(|| failed(line.as_str()))?;
        if recorded == 0.0 {
            return Err(failed("it saw no packet"));
        }
        Ok(vec![Fact::number(fact_names::OBSERVED, recorded), Fact::number(fact_names::CAPTURE_LOST, lost)])
    }

    fn line(&mut self) -> Result<String, Failure> {
        let mut line = String::new();
        match readable(self.output.get_ref(), TIMEOUT).and_then(|_| self.output.read_line(&mut line)) {
            Ok(1..) => Ok(line.trim_end().to_owned()),
            Ok(0) => Err(failed("it ended early")),
            Err(error) => Err(failed(error.to_string())),
        }
    }
}

impl Drop for CaptureProcess {
    fn drop(&mut self) {
        drop(self.input.take());
        leave(&mut self.child, TIMEOUT);
    }
}

fn failed(cause: impl Into<String>) -> Failure {
    Failure::new(FailureKind::Unsupported, format!("{NAME}: {}", cause.into()), "use another --observer")
}

/// Captures until standard input closes. `parent` is the id of the process that started this one.
pub fn serve_as_process(parent: u32) -> Result<(), String> {
    if !process::die_with_parent(parent) {
        return Err("the round that started this capture has ended".to_owned());
    }
    process::ignore_interrupts();
    let Order { interface, protocol, port } = receive_order()?;
    // The client, which started this process, may be pinned. If this fails, both share its CPU.
    drop(cpu::pin(&(0..usize::from(u16::MAX)).collect::<Vec<_>>()));
    let mut output = io::stdout().lock();
    let mut say =
        |line: &str| writeln!(output, "{line}").and_then(|()| output.flush()).map_err(|error| error.to_string());
    let mut live = match begin_of(&interface, protocol, port) {
        Ok(live) => live,
        Err(why) => return say(&why.to_string()),
    };
    say(READY)?;
    let [recorded, lost] = live.discard_until(io::stdin()).map_err(|error| format!("cannot capture: {error}"))?;
    say(&format!("{recorded} {lost}"))
}

impl Live {
    /// Reads and discards packets until something can be read from `end`. Returns the numbers of captured and of lost
    /// packets.
    fn discard_until(&mut self, end: impl AsFd) -> io::Result<[u64; 2]> {
        let mut recorded = 0;
        let mut has_ended = false;
        while !has_ended {
            has_ended = readable(&end, READ_INTERVAL)?;
            while self.ring.receive(|frame| black_box(frame.bytes.len())).is_some() {
                recorded += 1;
            }
        }
        let (_, lost) = packet_ring::statistics(self.socket.as_fd())?;
        Ok([recorded, lost])
    }
}
