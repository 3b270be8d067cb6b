//! Runs each round in its own process, so that the client's process is new in each round, like the server's.
//!
//! The memory layout of a process changes the cost of its calls by a few percent for its whole lifetime (Mytkowicz,
//! Diwan, Hauswirth and Sweeney, "Producing wrong data without doing anything obviously wrong!", ASPLOS 2009). If one
//! process were the client of all rounds of a run, all rounds would share this error, and no confidence interval over
//! the rounds could show it.
//!
//! The process is this program, started with a hidden command. It reads its job as a line of JSON, writes one byte when
//! its signal handlers are installed, runs the round and writes the result. SIGTERM ends the round early.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use hairpin_link::profile::Profile;
use hairpin_model::case::Scheduling;
use hairpin_model::phases::Phase;
use hairpin_model::samples::latency_histogram;
use hairpin_model::{
    Binding, ByPhase, Failure, FailureKind, Finished, FlowId, FlowSamples, Measured, Outcome, PhaseCounts,
    PhaseHistograms, PhaseSamples, ProbeTimeLine, RoundOrder, RoundRecord, Samples,
};
use hairpin_transports::giving_up::has_given_up;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Deserializer, Serializer, V2Serializer};
use serde::{Deserialize, Serialize};

use crate::barrier::{Barrier, CONNECTED};
use crate::child::{cannot, exit_status, leave, spawn};
use crate::engine::Engine;
use crate::foreign::ForeignTarget;
use crate::links::traces::Named;
use crate::placement::Cpus;
use crate::system::process::Process;
use crate::wait::readable;
use hairpin_loops::clock::RealClock;

pub const COMMAND: &str = "__round";
/// Maximum flows of a case.
const MAX_FLOWS: usize = 64;
const NAME: &str = "the round's process";

/// Interval between checks whether the user ended the run. A signal interrupts the wait too; the interval is for a
/// signal that arrived just before the wait.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// Time for a round to write its result after the user ended the run: its waits end within half a second, and the
/// rest is for busy machines.
const RESULT_TIMEOUT: Duration = Duration::from_secs(3);
/// Time for the process to exit after writing its result.
const EXIT_TIMEOUT: Duration = Duration::from_secs(2);
/// Maximum bytes of a record, of a trace, and of a capture.
const MAX_PART_BYTES: u64 = 1 << 30;
/// Maximum rows of samples, as for `--keep-samples`.
const MAX_ROWS: usize = 10_000_000;

#[derive(Serialize, Deserialize)]
pub(crate) struct Job {
    pub(crate) number: u32,
    pub(crate) order: RoundOrder,
    pub(crate) clock: RealClock,
    pub(crate) cpus: Cpus,
    /// When the run began, in ns of the clock.
    pub(crate) started_ns: u64,
    /// The run folder, if the link's logs are kept.
    pub(crate) link_logs: Option<PathBuf>,
    /// The profile's line, and the texts of the traces that the profile replays.
    pub(crate) traces: Option<(String, Named)>,
    /// Set if the round carries one of several flows. Once its ends are connected, it waits for the other flows.
    pub(crate) barrier: Option<Barrier>,
    /// The address of a server on another host, the credentials of its control channel, the binding of the flows'
    /// sockets, and what is known of a server that is not Hairpin's.
    pub(crate) far: Option<(SocketAddr, String, Binding, Option<ForeignTarget>)>,
}

impl Engine {
    /// Runs one round in its own process. An error makes this round fail, but does not end the run.
    pub fn run_apart(&self, number: u32, order: &RoundOrder) -> Finished {
        self.wait_until(order.not_before_ns);
        if self.stop.load(Ordering::Relaxed) {
            return self.run(number, order);
        }
        let started_ns = self.elapsed_ns();
        let mut finished = self.attempt_apart(number, order).unwrap_or_else(|failure| {
            let outcome = Outcome::Failed(failure);
            let record = RoundRecord { number, started_ns, case_id: order.case.id(), order: order.clone(), outcome };
            Finished { record, samples: FlowSamples::new(), trace: None, budget: None }
        });
        if let Outcome::Failed(failure) = &mut finished.record.outcome
            && failure.kind == FailureKind::Killed
            && order.case.ends.scheduling == Scheduling::Fifo
        {
            failure.hint =
                "the kernel kills a process of SCHED_FIFO that uses a CPU for 1 s without blocking (RLIMIT_RTTIME)"
                    .to_owned();
        }
        finished
    }

    fn attempt_apart(&self, number: u32, order: &RoundOrder) -> Result<Finished, Failure> {
        let job =
            Job { link_logs: self.link_logs.clone(), traces: self.traces_of(order)?, ..self.job(number, order) };
        let mut round = RoundProcess::start(self, &job)?;
        drop(round.input.take());
        let finished = round.finished()?;
        // Another version of the program ignores fields that it does not know.
        if finished.record.order != *order {
            let cause = format!("{} did not run the round as ordered", self.server_program.display());
            return Err(Failure::new(FailureKind::Unsupported, cause, "use builds of one version"));
        }
        Ok(finished)
    }

    pub(crate) fn job(&self, number: u32, order: &RoundOrder) -> Job {
        Job {
            number,
            order: order.clone(),
            clock: self.clock,
            cpus: self.cpus.clone(),
            started_ns: self.started_ns,
            link_logs: None,
            traces: None,
            barrier: None,
            far: self.far.as_ref().map(|far| (far.at, far.credentials.clone(), far.binding, far.foreign.clone())),
        }
    }

    fn traces_of(&self, order: &RoundOrder) -> Result<Option<(String, Named)>, Failure> {
        let profile = Some(&order.case.path.link).filter(|_| order.case.is_emulated());
        // The round itself reports a line that cannot be parsed.
        let Some(profile) = profile.and_then(|line| line.parse::<Profile>().ok()) else { return Ok(None) };
        let traces = self.traces.of(&profile)?;
        Ok((!traces.is_empty()).then(|| (profile.to_string(), traces)))
    }
}

/// The running process of a round. Dropping it ends the process.
pub(crate) struct RoundProcess<'e> {
    child: Child,
    /// The standard input of the process, for the job and, with several flows, for the start of the load.
    input: Option<ChildStdin>,
    answer: BufReader<Answer<'e>>,
}

impl<'e> RoundProcess<'e> {
    pub(crate) fn start(engine: &'e Engine, job: &Job) -> Result<Self, Failure> {
        let program = &engine.server_program;
        let failed = |operation: &str, error: &io::Error| cannot(operation, NAME, program, error);
        let (child, input, output) = spawn(NAME, program, COMMAND, None)?;
        let process = Process::with_id(child.id()).map_err(|error| failed("watch", &error))?;
        let answer = BufReader::new(Answer {
            output,
            process,
            stop: &engine.stop,
            is_prepared: false,
            is_asked: false,
            deadline: deadline_of(&job.order),
            given_up_at: None,
        });
        let mut this = Self { child, input: Some(input), answer };
        let mut line = serde_json::to_string(job).expect("a job has only string keys");
        line.push('\n');
        let mut byte = [0];
        let written = this.write(line.as_bytes());
        let ready = written.and_then(|()| this.answer.read_exact(&mut byte)).and_then(|()| match byte {
            [READY] => Ok(()),
            _ => Err(invalid("it did not report that it is ready")),
        });
        ready.map_err(|error| this.failed(&error))?;
        Ok(this)
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.input.as_mut().map_or(Err(io::ErrorKind::BrokenPipe.into()), |input| input.write_all(bytes))
    }

    /// Waits until the ends of this flow are connected. Returns the process ids of client and server; `None` for a
    /// server that is not a process.
    pub(crate) fn connected(&mut self) -> Result<[Option<u32>; 2], Failure> {
        match self.answer.fill_buf().map(|bytes| bytes.first() == Some(&CONNECTED)) {
            Ok(true) => {
                self.answer.consume(1);
                let mut server = [0; 4];
                self.answer.read_exact(&mut server).map_err(|error| self.failed(&error))?;
                let server = u32::from_le_bytes(server);
                Ok([Some(self.child.id()), Some(server).filter(|server| *server != 0)])
            }
            Ok(false) => Err(match self.finished()?.record.outcome {
                Outcome::Failed(failure) => failure,
                Outcome::Measured(_) => self.failed(&invalid("it did not wait for the other flows")),
            }),
            Err(error) => Err(self.failed(&error)),
        }
    }

    /// Reports that all flows were connected at `begin_ns`, from which the start times of loads count.
    pub(crate) fn begin(&mut self, begin_ns: u64) -> Result<(), Failure> {
        self.write(&begin_ns.to_le_bytes()).map_err(|error| self.failed(&error))
    }

    /// Waits up to `within` for the result of the round; `None` if the round is still running.
    pub(crate) fn result(&mut self, within: Duration) -> Option<Result<(Measured, FlowSamples), Failure>> {
        let finished = self.has_finished(within).and_then(|is| is.then(|| self.finished()).transpose());
        finished.transpose().map(|finished| match finished? {
            Finished { record: RoundRecord { outcome: Outcome::Measured(measured), .. }, samples, .. } => {
                Ok((*measured, samples))
            }
            Finished { record: RoundRecord { outcome: Outcome::Failed(failure), .. }, .. } => Err(failure),
        })
    }

    fn has_finished(&mut self, within: Duration) -> Result<bool, Failure> {
        if !self.answer.buffer().is_empty() {
            return Ok(true);
        }
        self.answer.get_mut().look(within).map_err(|error| self.failed(&error))
    }

    fn finished(&mut self) -> Result<Finished, Failure> {
        read_finished(&mut self.answer).map_err(|error| self.failed(&error))
    }

    /// Explains a round without a result.
    fn failed(&mut self, error: &io::Error) -> Failure {
        let unreadable = |how: &str| format!("{NAME} cannot be read: {how}");
        let (kind, cause) = match error.kind() {
            io::ErrorKind::TimedOut => (FailureKind::TimedOut, "the round did not end in time".to_owned()),
            _ => match exit_status(&mut self.child) {
                Some(status) => (FailureKind::Killed, unreadable(&format!("it ended early ({status})"))),
                None => (error.into(), unreadable(&error.to_string())),
            },
        };
        Failure::new(kind, cause, "was it ended from outside?")
    }
}

impl Drop for RoundProcess<'_> {
    fn drop(&mut self) {
        // The process exits when its input is closed.
        drop(self.input.take());
        leave(&mut self.child, if has_given_up() { Duration::ZERO } else { EXIT_TIMEOUT });
    }
}

/// The output of the process. Reading it also forwards the user's request to end the run.
struct Answer<'e> {
    output: ChildStdout,
    process: Process,
    stop: &'e AtomicBool,
    /// Whether the process wrote its first byte, so that its SIGTERM handler is installed.
    is_prepared: bool,
    is_asked: bool,
    /// When to give up on the process, well after the round's own deadline; `None` if the round has no deadline.
    deadline: Option<Instant>,
    /// When the end of the program was first noticed.
    given_up_at: Option<Instant>,
}

/// A round ends by its own deadline. This later deadline is for a process that is stopped (SIGSTOP).
fn deadline_of(order: &RoundOrder) -> Option<Instant> {
    let longest = Duration::from_nanos(order.deadline_ns)
        .saturating_add(Duration::from_nanos(order.timeout_ns).saturating_mul(10));
    Instant::now().checked_add(longest.saturating_add(Duration::from_secs(60)))
}

impl Answer<'_> {
    /// Waits up to `at_most` for output. Returns whether output is available.
    fn look(&mut self, at_most: Duration) -> io::Result<bool> {
        let interval = if self.stop.load(Ordering::Relaxed) { POLL_INTERVAL / 10 } else { POLL_INTERVAL };
        if readable(&self.output, interval.min(at_most))? {
            self.is_prepared = true;
            return Ok(true);
        }
        if self.is_prepared && !self.is_asked && self.stop.load(Ordering::Relaxed) {
            self.process.ask_to_end()?;
            self.is_asked = true;
        }
        let is_over = self.deadline.is_some_and(|deadline| Instant::now() >= deadline);
        if is_over || has_given_up() && self.given_up_at.get_or_insert_with(Instant::now).elapsed() > RESULT_TIMEOUT {
            return Err(io::ErrorKind::TimedOut.into());
        }
        Ok(false)
    }
}

impl Read for Answer<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while !self.look(POLL_INTERVAL)? {}
        self.output.read(into)
    }
}

/// The first byte of the output: the signal handlers of the process are installed.
pub(crate) const READY: u8 = b'!';

/// Of the samples of a flow: the number of rows and of measured messages, and the phases without their histograms.
type FlowNumbers = (FlowId, usize, u64, Option<(ByPhase<PhaseCounts>, ProbeTimeLine)>);

/// Writes a part of JSON, then the rows and the histograms of each flow, then the capture, which is empty if there is
/// none.
pub(crate) fn write_finished(to: &mut impl Write, finished: &Finished) -> io::Result<()> {
    let flows = finished.samples.iter().map(|(flow, samples)| {
        let phases = samples.phases.as_ref().map(|phases| (&phases.counts, &phases.over_time));
        (flow, samples.kept(), samples.measured, phases)
    });
    let (trace, capture) = finished.trace.as_ref().map(|(trace, capture)| (trace, capture.as_deref())).unzip();
    write_part(to, &serde_json::to_vec(&(&finished.record, flows.collect::<Vec<_>>(), trace, &finished.budget))?)?;
    for samples in finished.samples.values() {
        samples.write_rows(to)?;
        let Samples { latency, service, lateness, phases, .. } = samples;
        write_histograms(to, [Some(latency), service.as_ref(), lateness.as_ref()])?;
        for (_, of) in phases.iter().flat_map(|phases| phases.others.each()) {
            let of = of.as_ref().map(|of| [Some(&of.latency), of.service.as_ref(), of.lateness.as_ref()]);
            write_histograms(to, of.unwrap_or_default())?;
        }
    }
    write_part(to, capture.flatten().unwrap_or_default())
}

fn read_finished(from: &mut impl Read) -> io::Result<Finished> {
    let (record, flows, trace, budget): (_, Vec<FlowNumbers>, Option<_>, _) =
        serde_json::from_slice(&read_part(from)?)?;
    if flows.len() > MAX_FLOWS {
        return Err(invalid("it has more flows than a case"));
    }
    let samples = flows.into_iter().map(|numbers| read_samples(from, numbers)).collect::<io::Result<_>>()?;
    let capture = Some(read_part(from)?).filter(|capture| !capture.is_empty());
    Ok(Finished { record, samples, trace: trace.map(|trace| (trace, capture)), budget })
}

fn read_samples(from: &mut impl Read, (flow, rows, measured, phases): FlowNumbers) -> io::Result<(FlowId, Samples)> {
    if rows > MAX_ROWS {
        return Err(invalid("it has more samples than are kept of a round"));
    }
    let rows = Samples::read_rows(rows, from)?;
    let [latency, service, lateness] = read_histograms(from)?;
    let latency = latency.unwrap_or_else(latency_histogram);
    let phases = phases.map(|(counts, over_time)| -> io::Result<_> {
        let mut others = ByPhase::default();
        for phase in Phase::ALL {
            let [latency, service, lateness] = read_histograms(from)?;
            *others.get_mut(*phase) = latency.map(|latency| PhaseHistograms { latency, service, lateness });
        }
        Ok(Box::new(PhaseSamples { others, counts, over_time }))
    });
    Ok((flow, Samples { latency, service, lateness, measured, phases: phases.transpose()?, ..rows }))
}

/// Writes a part for each histogram, empty if it is absent.
fn write_histograms(to: &mut impl Write, histograms: [Option<&Histogram<u64>>; 3]) -> io::Result<()> {
    histograms.into_iter().try_for_each(|histogram| {
        let mut bytes = Vec::new();
        if let Some(histogram) = histogram {
            V2Serializer::new().serialize(histogram, &mut bytes).map_err(io::Error::other)?;
        }
        write_part(to, &bytes)
    })
}

fn read_histograms(from: &mut impl Read) -> io::Result<[Option<Histogram<u64>>; 3]> {
    let mut one = || {
        let bytes = Some(read_part(from)?).filter(|bytes| !bytes.is_empty());
        let histogram = bytes.map(|bytes| Deserializer::new().deserialize(&mut bytes.as_slice())).transpose();
        histogram.map_err(|error| io::Error::other(format!("{error:?}")))
    };
    Ok([one()?, one()?, one()?])
}

/// The first byte of a part differs from [`CONNECTED`], because the length has fewer than 8 bytes.
fn write_part(to: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
    to.write_all(&(bytes.len() as u64).to_be_bytes()).and_then(|()| to.write_all(bytes))
}

fn read_part(from: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut length = [0; 8];
    from.read_exact(&mut length)?;
    let length = u64::from_be_bytes(length);
    if length > MAX_PART_BYTES {
        return Err(invalid("a part of it is too large"));
    }
    let mut bytes = Vec::new();
    from.take(length).read_to_end(&mut bytes)?;
    if bytes.len() as u64 == length { Ok(bytes) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}

fn invalid(problem: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, problem)
}

#[cfg(test)]
mod tests {
    use hairpin_model::samples::{COLUMNS, Fate};
    use hairpin_model::{Case, RoundTrace, Stamps};

    use super::*;

    fn finished(rows: u64, open_loop: bool) -> Finished {
        let order = RoundOrder::of(Case::ping_pong("tcp"), 1);
        let outcome = Outcome::Failed(Failure::new(FailureKind::Other, "none", ""));
        let record = RoundRecord { number: 7, started_ns: 1, case_id: order.case.id(), order, outcome };
        let mut latency = latency_histogram();
        (1..=rows).for_each(|row| latency.record(row * 1000).unwrap());
        let stamps = (0..rows).map(|row| Stamps {
            sequence: row,
            due_ns: row * 10,
            sent_ns: row * 11,
            received_ns: row * 20,
            fate: Fate::ALL[row as usize % Fate::ALL.len()],
        });
        let samples = Samples {
            service: open_loop.then(|| latency.clone()),
            lateness: open_loop.then(latency_histogram),
            latency,
            measured: rows * 2,
            ..Samples::of(&stamps.collect::<Vec<_>>(), 2, 0)
        };
        let samples = ['a', 'b'].map(|flow| (flow.to_string().as_str().into(), samples.clone()));
        Finished { record, samples: samples.into(), trace: None, budget: None }
    }

    fn sent(finished: &Finished) -> Vec<u8> {
        let mut bytes = Vec::new();
        write_finished(&mut bytes, finished).unwrap();
        bytes
    }

    #[test]
    fn the_result_of_a_round_is_read_as_written() {
        for (rows, open_loop) in [(2, false), (20_000, true)] {
            let before = finished(rows, open_loop);
            let after = read_finished(&mut sent(&before).as_slice()).unwrap();
            assert_eq!(after.record, before.record);
            assert_eq!(before.samples.len(), after.samples.len());
            let [before, after] = [before, after].map(|finished| finished.samples[&FlowId::from("b")].clone());
            assert_eq!((after.warm_up, after.measured, &after.fate), (2, rows * 2, &before.fate));
            assert_eq!((&after.sequence, &after.received_ns), (&before.sequence, &before.received_ns));
            assert_eq!((&after.due_ns, &after.sent_ns), (&before.due_ns, &before.sent_ns));
            for column in COLUMNS {
                let is_same = |row| (column.get)(&after, row) == (column.get)(&before, row);
                assert!((0..before.kept()).all(is_same), "{}", column.name);
            }
            assert_eq!((after.latency, after.service), (before.latency, before.service));
            assert_eq!(after.lateness.is_some(), open_loop);
        }
        let traced = Finished { trace: Some((RoundTrace::default(), Some(vec![1, 2, 3]))), ..finished(2, false) };
        let (_, capture) = read_finished(&mut sent(&traced).as_slice()).unwrap().trace.unwrap();
        assert_eq!(capture, Some(vec![1, 2, 3]));
    }

    #[test]
    fn a_truncated_or_too_large_result_is_an_error() {
        let whole = sent(&finished(20, true));
        for length in 0..whole.len() {
            read_finished(&mut &whole[..length]).unwrap_err();
        }
        let mut large = Vec::new();
        large.extend(u64::MAX.to_le_bytes());
        assert_eq!(read_finished(&mut large.as_slice()).unwrap_err().kind(), io::ErrorKind::InvalidData);
        let few = finished(2, false);
        let one = few.samples.values().next().unwrap();
        let samples = (0..=MAX_FLOWS).map(|flow| (flow.to_string().as_str().into(), one.clone())).collect();
        let error = read_finished(&mut sent(&Finished { samples, ..few.clone() }).as_slice()).unwrap_err();
        assert_eq!(error.to_string(), "it has more flows than a case");
    }
}
