//! Several streams on one TCP connection, framed by Hairpin: what a program does that multiplexes without a protocol of its own.
//!
//! Streams have no flow control of their own: one that is not read holds up the others.

use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use hairpin_model::card::Library;
use hairpin_model::trace::End;
use hairpin_model::{Card, RoughRoundTrip};

use super::tcp::{LAYERED, TCP};
use crate::library::frames::{Frames, HEADER_BYTES, MAX_STREAMS, Part, header};
use crate::library::mailbox::Mailbox;
use crate::library::port::{Driven, Form};
use crate::library::runtime::{Handle, Runtime};
use crate::wire::{Connection, Setup, TransportError, Wire};
use crate::wires::description::Connected;
use crate::wires::failed;
use crate::wires::socket_transport::SocketTransport;

pub(super) const TCP_STREAMS: SocketTransport = SocketTransport {
    card: Card {
        name: "tcp-streams",
        summary: "several streams on one TCP connection over IPv4, in frames of Hairpin",
        many_streams: true,
        rough_round_trip: RoughRoundTrip { blocking_ns: 20_000, spinning_ns: 13_000 },
        library: Some(Library {
            name: "hairpin-transports",
            version: env!("CARGO_PKG_VERSION"),
            message: "the bytes of one send in one frame, sent at once",
            stream: "the frames with its number",
            runtime: "the end's own thread polls it and waits in poll(2); no timers",
            defaults: "no flow control by stream; `nodelay` on",
            ..Library::UNNAMED
        }),
        ..LAYERED
    },
    layer: Some(open),
    ..TCP
};

const READ_BYTES: usize = 64 << 10;

fn open(connected: Connected<'_>) -> Result<Box<dyn Connection>, TransportError> {
    connected.set_nodelay()?;
    let (end, setup) = (connected.end, connected.setup.clone());
    let socket = connected.socket.try_clone();
    let runtime = socket.map(Runtime::new).map_err(|source| failed("duplicate", "a socket", source, ""))?;
    let (handle, streams) = (runtime.handle(), Streams::new(end));
    let driven = Driven::of_socket(runtime, connected);
    let (reads, writes) = (streams.clone(), streams.clone());
    let (reader, writer) = (handle.clone(), handle.clone());
    handle.spawn(Box::pin(async move { reads.on_gone(read_frames(reader, &reads).await) }));
    handle.spawn(Box::pin(async move {
        if let Err(error) = write_frames(writer, &writes).await {
            writes.on_gone(Err(error));
        }
    }));
    Ok(Box::new(FramedConnection { driven, streams, end, next: 0, setup }))
}

#[derive(Clone)]
struct Streams(Arc<Mutex<State>>);

struct State {
    end: End,
    /// By number.
    streams: Vec<Stream>,
    /// The future that writes frames.
    writer: Option<Waker>,
}

#[derive(Clone, Default)]
struct Stream {
    mailbox: Mailbox,
    /// Whether this end has a frame to send that opens the stream.
    opens: bool,
    has_ended: bool,
}

impl Streams {
    fn new(end: End) -> Self {
        Self(Arc::new(Mutex::new(State { end, streams: Vec::new(), writer: None })))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn mailbox(&self, number: u32) -> Mailbox {
        let mut state = self.lock();
        while state.streams.len() <= number as usize {
            state.streams.push(Stream::default());
        }
        state.streams[number as usize].mailbox.clone()
    }

    fn send_open(&self, number: u32) {
        let mut state = self.lock();
        state.streams[number as usize].opens = true;
        let writer = state.writer.take();
        drop(state);
        writer.into_iter().for_each(Waker::wake);
    }

    fn on_gone(&self, result: io::Result<()>) {
        use io::ErrorKind::{BrokenPipe, ConnectionReset};
        let failure = result.err().filter(|error| !matches!(error.kind(), BrokenPipe | ConnectionReset));
        let failure = failure.map(|error| error.to_string());
        self.lock().streams.iter().for_each(|stream| stream.mailbox.on_gone(failure.clone()));
    }

    /// The next frame to send, after that of stream `last`: its stream and what it has.
    fn poll_frame(&self, context: &Context<'_>, last: u32) -> Poll<(u32, Part<Bytes>)> {
        let mut state = self.lock();
        let count = state.streams.len();
        for place in (0..count).map(|place| (last as usize + 1 + place) % count) {
            let stream = &mut state.streams[place];
            let number = u32::try_from(place).unwrap_or(MAX_STREAMS);
            if std::mem::take(&mut stream.opens) {
                return Poll::Ready((number, Part::Open));
            }
            if stream.has_ended {
                continue;
            }
            match stream.mailbox.poll_outgoing(context.waker()) {
                Poll::Ready(Some(payload)) => return Poll::Ready((number, Part::Payload(payload))),
                Poll::Ready(None) => {
                    stream.has_ended = true;
                    return Poll::Ready((number, Part::End));
                }
                Poll::Pending => {}
            }
        }
        state.writer = Some(context.waker().clone());
        Poll::Pending
    }
}

async fn write_frames(handle: Handle, streams: &Streams) -> io::Result<()> {
    let mut last = 0;
    loop {
        let (number, frame) = poll_fn(|context| streams.poll_frame(context, last)).await;
        last = number;
        let header = header(number, &frame);
        let payload: &[u8] = if let Part::Payload(payload) = &frame { payload } else { &[] };
        let mut sent = 0;
        while sent < HEADER_BYTES + payload.len() {
            let parts = [
                IoSlice::new(&header[sent.min(HEADER_BYTES)..]),
                IoSlice::new(&payload[sent.saturating_sub(HEADER_BYTES)..]),
            ];
            sent += poll_fn(|context| handle.poll_send_vectored(context, &parts)).await?;
        }
        if frame == Part::End {
            streams.mailbox(number).on_all_sent();
        }
    }
}

/// Delivers frames until the connection ends.
async fn read_frames(handle: Handle, streams: &Streams) -> io::Result<()> {
    let mut buffer = vec![0; READ_BYTES];
    let mut frames = Frames::default();
    loop {
        let length = poll_fn(|context| handle.poll_receive_into(context, &mut buffer)).await?;
        if length == 0 {
            return Ok(());
        }
        let mut came = &buffer[..length];
        while let Some((number, part)) = frames.next(&mut came)? {
            let mailbox = streams.mailbox(number);
            match part {
                Part::Open => {
                    mailbox.on_opened();
                    if streams.lock().end == End::Server {
                        streams.send_open(number);
                    }
                }
                Part::Payload(payload) => drop(mailbox.deliver(Bytes::copy_from_slice(payload)).await),
                Part::End => mailbox.on_end(),
            }
        }
    }
}

struct FramedConnection {
    driven: Arc<Driven>,
    streams: Streams,
    end: End,
    next: u32,
    setup: Setup,
}

impl FramedConnection {
    fn wire(&mut self) -> Result<Box<dyn Wire>, TransportError> {
        let mailbox = self.streams.mailbox(self.next);
        if self.end == End::Client {
            self.streams.send_open(self.next);
        }
        self.driven.wait_until_opened(&mailbox, &self.setup)?;
        self.next += 1;
        self.driven.wire(mailbox, Form::Bytes, usize::MAX, &self.setup)
    }
}

impl Connection for FramedConnection {
    fn open(&mut self) -> Result<Box<dyn Wire>, TransportError> {
        self.wire()
    }

    fn accept_wire(&mut self) -> Result<Box<dyn Wire>, TransportError> {
        self.wire()
    }
}
