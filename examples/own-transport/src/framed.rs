//! Messages over a TCP connection, each behind its length in 4 bytes: what most protocols over TCP begin with.

use std::io;
use std::time::Duration;

use hairpin::model::card::{Card, Receipt, RoughRoundTrip, WhyNot};
use hairpin::model::fact::Fact;
use hairpin::model::options::OptionName;
use hairpin::transports::{
    Connection, Listener, PassedSocket, Setup, Transport, TransportError, Wire, WireError, check, find,
};

/// `framed`. The built-in TCP opens the connections: with its options, time-outs and ways to wait, also across links
/// and to other hosts.
pub(crate) struct Framed;

/// Length of a frame's header, in bytes.
const HEADER_BYTES: usize = 4;

fn tcp() -> &'static dyn Transport {
    find("tcp").expect("it is built in")
}

impl Framed {
    /// The setup of TCP, which carries messages with their headers.
    fn of_frames(&self, setup: &Setup) -> Result<Setup, TransportError> {
        check(&self.card(), setup)?;
        Ok(Setup { largest_message: setup.largest_message + HEADER_BYTES, ..setup.clone() })
    }
}

impl Transport for Framed {
    fn card(&self) -> Card {
        let tcp = tcp().card();
        Card {
            name: "framed",
            summary: "messages over TCP, each behind its length",
            boundaries: true,
            max_message_bytes: tcp.max_message_bytes - HEADER_BYTES as u64,
            rough_round_trip: RoughRoundTrip { blocking_ns: 13_800, spinning_ns: 8_500 },
            is_reference: false,
            sends_files: false,
            options: &[OptionName::Nodelay, OptionName::Quickack, OptionName::Sndbuf, OptionName::Rcvbuf],
            ..tcp
        }
    }

    fn can_run(&self) -> Result<Receipt, WhyNot> {
        tcp().can_run()
    }

    fn listen(&self, setup: &Setup) -> Result<Box<dyn Listener>, TransportError> {
        FramedListener::over(tcp().listen(&self.of_frames(setup)?), setup)
    }

    fn listen_on(&self, handed: PassedSocket, setup: &Setup) -> Result<Box<dyn Listener>, TransportError> {
        FramedListener::over(tcp().listen_on(handed, &self.of_frames(setup)?), setup)
    }

    fn connect(&self, address: &str, setup: &Setup) -> Result<Box<dyn Connection>, TransportError> {
        FramedConnection::over(tcp().connect(address, &self.of_frames(setup)?), setup.largest_message)
    }
}

struct FramedListener {
    tcp: Box<dyn Listener>,
    largest_message: usize,
}

impl FramedListener {
    fn over(
        tcp: Result<Box<dyn Listener>, TransportError>,
        setup: &Setup,
    ) -> Result<Box<dyn Listener>, TransportError> {
        Ok(Box::new(Self { tcp: tcp?, largest_message: setup.largest_message }))
    }
}

impl Listener for FramedListener {
    fn address(&self) -> String {
        self.tcp.address()
    }

    fn expect(&mut self, clients: u32) {
        self.tcp.expect(clients);
    }

    fn accept(&mut self, is_abandoned: &mut dyn FnMut() -> bool) -> Result<Box<dyn Connection>, TransportError> {
        FramedConnection::over(self.tcp.accept(is_abandoned), self.largest_message)
    }
}

struct FramedConnection {
    tcp: Box<dyn Connection>,
    largest_message: usize,
}

impl FramedConnection {
    fn over(
        tcp: Result<Box<dyn Connection>, TransportError>,
        largest_message: usize,
    ) -> Result<Box<dyn Connection>, TransportError> {
        Ok(Box::new(Self { tcp: tcp?, largest_message }))
    }
}

impl Connection for FramedConnection {
    fn open(&mut self) -> Result<Box<dyn Wire>, TransportError> {
        Ok(Box::new(FramedWire::over(self.tcp.open()?, self.largest_message)))
    }

    fn accept_wire(&mut self) -> Result<Box<dyn Wire>, TransportError> {
        Ok(Box::new(FramedWire::over(self.tcp.accept_wire()?, self.largest_message)))
    }
}

/// Both ends are alike. A wire allocates nothing per message. It names no descriptor to wait for, as a message may have
/// been received together with the one before it. A frame that TCP has accepted in part must be finished: a send that
/// should not block does block if the peer does not receive, and a send that timed out makes the wire unusable.
struct FramedWire {
    tcp: Box<dyn Wire>,
    frame: Vec<u8>,
    /// Bytes received are `came[taken..end]`: frames, the last one perhaps in part.
    came: Box<[u8]>,
    taken: usize,
    end: usize,
}

impl FramedWire {
    fn over(tcp: Box<dyn Wire>, largest_message: usize) -> Self {
        let largest_frame = HEADER_BYTES + largest_message;
        Self { tcp, frame: Vec::with_capacity(largest_frame), came: vec![0; largest_frame].into(), taken: 0, end: 0 }
    }

    fn frame(&mut self, message: &[u8]) -> Result<(), WireError> {
        let length = u32::try_from(message.len()).ok().filter(|_| HEADER_BYTES + message.len() <= self.came.len());
        let length = length.ok_or_else(|| invalid("send", io::ErrorKind::InvalidInput))?;
        self.frame.clear();
        self.frame.extend_from_slice(&length.to_be_bytes());
        self.frame.extend_from_slice(message);
        Ok(())
    }

    /// Length of the next message, if all of it has been received.
    fn next_length(&self) -> Result<Option<usize>, WireError> {
        let came = &self.came[self.taken..self.end];
        let Some((header, rest)) = came.split_first_chunk() else { return Ok(None) };
        let length = usize::try_from(u32::from_be_bytes(*header)).unwrap_or(usize::MAX);
        if length > self.came.len() - HEADER_BYTES {
            return Err(invalid("receive", io::ErrorKind::InvalidData));
        }
        Ok(Some(length).filter(|length| *length <= rest.len()))
    }

    /// Takes the next message, if all of it has been received. If the buffer is too small it is cut off, as by recv(2).
    fn next(&mut self, into: &mut [u8]) -> Result<Option<usize>, WireError> {
        let Some(length) = self.next_length()? else { return Ok(None) };
        let (start, kept) = (self.taken + HEADER_BYTES, length.min(into.len()));
        into[..kept].copy_from_slice(&self.came[start..start + kept]);
        self.taken = start + length;
        Ok(Some(kept))
    }

    /// Makes room for the rest of a frame that was received in part.
    fn make_room(&mut self) {
        self.came.copy_within(self.taken..self.end, 0);
        (self.taken, self.end) = (0, self.end - self.taken);
    }
}

fn invalid(operation: &'static str, kind: io::ErrorKind) -> WireError {
    WireError::System { operation, source: kind.into() }
}

impl Wire for FramedWire {
    fn send(&mut self, message: &[u8]) -> Result<(), WireError> {
        self.frame(message)?;
        self.tcp.send(&self.frame)
    }

    fn receive(&mut self, into: &mut [u8]) -> Result<usize, WireError> {
        loop {
            if let Some(bytes) = self.next(into)? {
                return Ok(bytes);
            }
            self.make_room();
            self.end += self.tcp.receive(&mut self.came[self.end..])?;
        }
    }

    fn try_receive(&mut self, into: &mut [u8]) -> Result<Option<usize>, WireError> {
        loop {
            if let Some(bytes) = self.next(into)? {
                return Ok(Some(bytes));
            }
            self.make_room();
            let Some(bytes) = self.tcp.try_receive(&mut self.came[self.end..])? else { return Ok(None) };
            self.end += bytes;
        }
    }

    fn try_send(&mut self, message: &[u8]) -> Result<usize, WireError> {
        self.frame(message)?;
        let sent = self.tcp.try_send(&self.frame)?;
        if sent == 0 {
            return Ok(0);
        }
        if sent < self.frame.len() {
            self.tcp.send(&self.frame[sent..])?;
        }
        Ok(message.len())
    }

    fn wait(&mut self, at_most: Duration) -> Result<bool, WireError> {
        Ok(self.next_length()?.is_some() || self.tcp.wait(at_most)?)
    }

    fn effective(&self) -> Vec<Fact> {
        self.tcp.effective()
    }

    fn farewell(&mut self) {
        self.tcp.farewell();
    }
}
