//! Carriers of `Control`, and their faults: a relay between the ends forwards each frame, possibly late or spoilt
//! (with a fault). A carrier is a line in [`CARRIERS`].

use std::fs::File;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use hairpin_engine::control::channel::Channel;
use hairpin_engine::control::{Control, ControlError, MAX_ORDER_BYTES, MAX_REPORT_BYTES, Message, Progress, VERSION};

/// Time-out of an end that is made impatient, so that it soon notices a missing message.
pub(super) const IMPATIENT: Duration = Duration::from_millis(300);
/// Longer than any end needs, but still a limit.
const MAX_WAIT: Duration = Duration::from_secs(600);

#[derive(Clone, Copy)]
pub(super) struct Carrier {
    pub(super) name: &'static str,
    /// Whether the server is a process, started as the program starts it; otherwise it is a thread of this process.
    pub(super) is_a_process: bool,
    /// One end and its peer, each as a reader and a writer.
    pub(super) join: fn() -> [[OwnedFd; 2]; 2],
}

pub(super) const CARRIERS: &[Carrier] = &[
    Carrier { name: "thread", is_a_process: false, join: socket_pair },
    Carrier { name: "child process", is_a_process: true, join: pipes },
    Carrier { name: "TCP", is_a_process: false, join: tcp },
];

fn socket_pair() -> [[OwnedFd; 2]; 2] {
    let (one, other) = UnixStream::pair().expect("a socket pair");
    [one, other].map(|end| [end.try_clone().expect("a copy").into(), end.into()])
}

fn pipes() -> [[OwnedFd; 2]; 2] {
    let [(one_reads, other_writes), (other_reads, one_writes)] = [(); 2].map(|()| std::io::pipe().expect("a pipe"));
    [[one_reads.into(), one_writes.into()], [other_reads.into(), other_writes.into()]]
}

fn tcp() -> [[OwnedFd; 2]; 2] {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let one = TcpStream::connect(listener.local_addr().expect("it is bound")).expect("it listens");
    let other = listener.accept().expect("it connects").0;
    [one, other].map(|end| [end.try_clone().expect("a copy").into(), end.into()])
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Client,
    Server,
}

impl End {
    /// Name of this end in the other end's errors.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Client => "the client",
            Self::Server => "the server",
        }
    }

    pub(super) fn other(self) -> Self {
        match self {
            Self::Client => Self::Server,
            Self::Server => Self::Client,
        }
    }

    /// Largest message that this end accepts, in bytes.
    pub(super) fn most_bytes(self) -> usize {
        match self {
            Self::Client => MAX_REPORT_BYTES,
            Self::Server => MAX_ORDER_BYTES,
        }
    }
}

/// Fault of a frame. Some faults also affect all following frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// Only this number of its first bytes arrives, then the channel is closed.
    Cut(usize),
    /// Only this number of its first bytes arrives, then nothing more.
    Silent(usize),
    /// The frame arrives byte by byte, without a long gap, but is not complete in time.
    Slow,
    /// Correct length, random bytes.
    Garbage(u64),
    /// Random bytes, including the length.
    Noise(u64),
    /// Its length exceeds the maximum.
    TooLarge,
    Newer,
    /// Progress messages arrive in its place, forever.
    OnlyProgress,
}

/// Sender, name and fault of a frame.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spoilt {
    pub(super) by: End,
    pub(super) message: &'static str,
    pub(super) fault: Fault,
}

/// How the other frames are forwarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pace {
    AtOnce,
    /// Byte by byte, and each frame late.
    Late,
}

/// The relay between the ends: a thread for each direction, which returns all messages that its end has sent.
pub(super) struct Relay([JoinHandle<Vec<Message>>; 2]);

impl Relay {
    /// Connects the peers of the client and of the server.
    pub(super) fn start(client: [OwnedFd; 2], server: [OwnedFd; 2], pace: Pace, spoilt: Option<Spoilt>) -> Self {
        let [client_reads, client_writes] = client.map(File::from);
        let [server_reads, server_writes] = server.map(File::from);
        let way = |by, from, to| {
            let spoilt = spoilt.filter(|spoilt| spoilt.by == by);
            let way = Way { from, to: Some(to), pace, spoilt };
            std::thread::spawn(move || way.carry())
        };
        Self([way(End::Client, client_reads, server_writes), way(End::Server, server_reads, client_writes)])
    }

    /// Messages of the client and of the server, once both have ended.
    pub(super) fn end(self) -> [Vec<Message>; 2] {
        self.0.map(|thread| thread.join().expect("the relay does not panic"))
    }

    pub(super) fn has_ended(&self) -> bool {
        self.0.iter().all(JoinHandle::is_finished)
    }
}

struct Way {
    from: File,
    /// `None` once this direction is closed.
    to: Option<File>,
    pace: Pace,
    spoilt: Option<Spoilt>,
}

/// Fate of the following frames.
enum Then {
    Passed,
    Kept,
    /// The following frames are dropped too, and the other end's channel is closed.
    Closed,
}

impl Way {
    fn carry(mut self) -> Vec<Message> {
        let (mut said, mut then) = (Vec::new(), Then::Passed);
        while let Some(frame) = read_frame(&mut self.from) {
            let message: Message = serde_json::from_slice(&frame[4..]).expect("the ends themselves write messages");
            if matches!(then, Then::Passed) {
                then = self.pass(&frame, &message.name());
            }
            if matches!(then, Then::Closed) {
                self.close();
            }
            said.push(message);
        }
        self.close();
        said
    }

    fn pass(&mut self, frame: &[u8], name: &str) -> Then {
        let Some(to) = &mut self.to else { return Then::Closed };
        let spoilt = self.spoilt.filter(|spoilt| spoilt.message == name);
        let written = match (spoilt, self.pace) {
            (Some(Spoilt { fault: Fault::Silent(bytes), .. }), _) => {
                drop(to.write_all(&frame[..bytes.min(frame.len() - 1)]));
                return Then::Kept;
            }
            (Some(Spoilt { fault: Fault::Cut(bytes), .. }), _) => {
                drop(to.write_all(&frame[..bytes.min(frame.len() - 1)]));
                return Then::Closed;
            }
            (Some(spoilt), _) => spoil(to, frame, spoilt),
            (None, Pace::AtOnce) => to.write_all(frame),
            (None, Pace::Late) => {
                std::thread::sleep(Duration::from_millis(20));
                write_slowly(to, frame, Duration::from_micros(20))
            }
        };
        if written.is_ok() { Then::Passed } else { Then::Closed }
    }

    /// Shuts down a socket, because the other direction has a copy of it. This fails for a pipe: a drop closes it.
    fn close(&mut self) {
        if let Some(to) = self.to.take() {
            drop(UnixStream::from(OwnedFd::from(to)).shutdown(Shutdown::Write));
        }
    }
}

/// Writes the frame with its fault.
fn spoil(to: &mut File, frame: &[u8], Spoilt { by, fault, .. }: Spoilt) -> std::io::Result<()> {
    match fault {
        Fault::Slow => write_slowly(to, frame, IMPATIENT / 4),
        Fault::Garbage(seed) => to.write_all(&[&frame[..4], &random(seed, frame.len() - 4)].concat()),
        Fault::Noise(seed) => to.write_all(&random(seed, frame.len())),
        Fault::TooLarge => {
            let length = u32::try_from(by.other().most_bytes() + 1).expect("limits are far below 4 GiB");
            to.write_all(&[&length.to_le_bytes()[..], &frame[4..]].concat())
        }
        Fault::OnlyProgress => {
            let much = framed(&Message::Progress(Progress::default())).repeat(50);
            loop {
                to.write_all(&much)?;
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        Fault::Newer => to.write_all(&framed(&Message::Version(VERSION + 1))),
        Fault::Cut(_) | Fault::Silent(_) => to.write_all(frame),
    }
}

fn write_slowly(to: &mut File, frame: &[u8], pause: Duration) -> std::io::Result<()> {
    for byte in frame {
        std::thread::sleep(pause);
        to.write_all(&[*byte])?;
    }
    Ok(())
}

fn read_frame(from: &mut File) -> Option<Vec<u8>> {
    let mut frame = vec![0; 4];
    from.read_exact(&mut frame).ok()?;
    let length = u32::from_le_bytes(frame[..4].try_into().expect("four bytes"));
    frame.resize(4 + length as usize, 0);
    from.read_exact(&mut frame[4..]).ok()?;
    Some(frame)
}

/// A message with its length, as it is sent.
pub(super) fn framed(message: &Message) -> Vec<u8> {
    let text = serde_json::to_vec(message).expect("a message has only string keys");
    let length = u32::try_from(text.len()).expect("short");
    [&length.to_le_bytes()[..], &text].concat()
}

/// Random bytes of a seed, by splitmix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators",
/// 2014).
fn random(seed: u64, bytes: usize) -> Vec<u8> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    };
    let words = (0..bytes.div_ceil(8)).flat_map(|_| next().to_le_bytes());
    words.take(bytes).collect()
}

/// A carrier of control for the tests: a channel that limits each wait for a message, and panics if an end waits
/// without a limit.
pub(super) struct Limited {
    channel: Channel,
    longest: Duration,
    /// Set when the other end reports that the load is running.
    stop: Option<Arc<AtomicBool>>,
}

impl Limited {
    pub(super) fn new([reads, writes]: [OwnedFd; 2], end: End, is_impatient: bool) -> Self {
        let longest = if is_impatient { IMPATIENT } else { MAX_WAIT };
        Self { channel: Channel::new(reads, writes, end.most_bytes()), longest, stop: None }
    }

    /// Sets `stop`, as Ctrl-C does, when the load is running.
    pub(super) fn stopping(self, stop: Arc<AtomicBool>) -> Self {
        Self { stop: Some(stop), ..self }
    }
}

impl Control for Limited {
    fn send(&mut self, message: &Message) -> Result<(), ControlError> {
        self.channel.send(message)
    }

    fn receive(&mut self, within: Duration) -> Result<Message, ControlError> {
        assert!(within <= MAX_WAIT, "a wait without a limit: {within:?}");
        let heard = self.channel.receive(within.min(self.longest));
        if let (Some(stop), Ok(Message::Measuring | Message::Progress(_))) = (&self.stop, &heard) {
            stop.store(true, Ordering::Relaxed);
        }
        heard
    }

    fn is_ready(&mut self) -> bool {
        self.channel.is_ready()
    }
}
