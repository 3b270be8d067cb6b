//! A test transport whose connections carry several wires. Each wire is a Unix socket pair; the connection passes one
//! socket to the other end, which is in the same process.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use hairpin_model::{Card, Reach, Receipt, WhyNot};
use hairpin_transports::{Connection, Listener, Setup, Transport, TransportError, Wire, find};

/// `several-streams`.
pub(crate) struct SeveralStreams;

const NAME: &str = "several-streams";
const LOOK: Duration = Duration::from_millis(10);

fn inner() -> &'static dyn Transport {
    find("unix-stream").expect("a built-in transport")
}

type Listening = (Setup, Sender<End>);

/// Listeners by the number in their address.
static LISTENERS: Mutex<BTreeMap<u64, Listening>> = Mutex::new(BTreeMap::new());

fn listeners() -> MutexGuard<'static, BTreeMap<u64, Listening>> {
    LISTENERS.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Transport for SeveralStreams {
    fn card(&self) -> Card {
        Card {
            name: NAME,
            summary: "socket pairs, several on each connection",
            reach: Reach::Process,
            many_streams: true,
            ..inner().card()
        }
    }

    fn can_run(&self) -> Result<Receipt, WhyNot> {
        inner().can_run()
    }

    fn listen(&self, setup: &Setup) -> Result<Box<dyn Listener>, TransportError> {
        check(setup)?;
        let (come, coming) = channel();
        let mut listeners = listeners();
        let number = listeners.keys().next_back().map_or(1, |last| last + 1);
        listeners.insert(number, (setup.clone(), come));
        Ok(Box::new(Server { number, coming, timeout: setup.opening_timeout() }))
    }

    fn connect(&self, address: &str, setup: &Setup) -> Result<Box<dyn Connection>, TransportError> {
        check(setup)?;
        let refused = || TransportError::System {
            operation: "connect to",
            object: address.to_owned(),
            source: std::io::ErrorKind::ConnectionRefused.into(),
            hint: "nothing listens at this address".to_owned(),
        };
        let number = address.strip_prefix("several:").and_then(|number| number.parse::<u64>().ok());
        let listeners = listeners();
        let (theirs, come) = number.and_then(|number| listeners.get(&number)).ok_or_else(refused)?;
        let ((to_server, from_client), (to_client, from_server)) = (channel(), channel());
        let server = End { own: theirs.clone(), peer: setup.clone(), opened: to_client, come: from_client };
        come.send(server).map_err(|_| refused())?;
        Ok(Box::new(End { own: setup.clone(), peer: theirs.clone(), opened: to_server, come: from_server }))
    }
}

/// Refuses the setups that the socket pairs refuse.
fn check(setup: &Setup) -> Result<(), TransportError> {
    inner().listen(setup).map(drop).map_err(|error| match error {
        TransportError::NoSuchOption { name, .. } => TransportError::NoSuchOption { transport: NAME, name },
        other => other,
    })
}

struct Server {
    number: u64,
    coming: Receiver<End>,
    timeout: Duration,
}

impl Listener for Server {
    fn address(&self) -> String {
        format!("several:{}", self.number)
    }

    fn accept(&mut self, is_abandoned: &mut dyn FnMut() -> bool) -> Result<Box<dyn Connection>, TransportError> {
        next(&self.coming, self.timeout, is_abandoned).map(|end| Box::new(end) as Box<dyn Connection>)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        listeners().remove(&self.number);
    }
}

/// One end of a connection, and both setups.
struct End {
    own: Setup,
    peer: Setup,
    /// Sends the other end the wires that this end opened.
    opened: Sender<Box<dyn Wire>>,
    /// Receives the wires that the other end opened.
    come: Receiver<Box<dyn Wire>>,
}

impl Connection for End {
    fn open(&mut self) -> Result<Box<dyn Wire>, TransportError> {
        let mut pair = inner().listen(&self.peer)?;
        let own = inner().connect(&pair.address(), &self.own)?.open()?;
        let theirs = pair.accept(&mut || false)?.accept_wire()?;
        // If the other end has closed, its wire is not needed.
        drop(self.opened.send(theirs));
        Ok(own)
    }

    fn accept_wire(&mut self) -> Result<Box<dyn Wire>, TransportError> {
        next(&self.come, self.own.opening_timeout(), &mut || false)
    }
}

fn next<T>(from: &Receiver<T>, after: Duration, is_abandoned: &mut dyn FnMut() -> bool) -> Result<T, TransportError> {
    let began = Instant::now();
    loop {
        if is_abandoned() {
            return Err(TransportError::Abandoned);
        }
        match from.recv_timeout(LOOK.min(after)) {
            Ok(next) => return Ok(next),
            Err(RecvTimeoutError::Timeout) if began.elapsed() < after => {}
            Err(_) => return Err(TransportError::TimedOut { what: "connected", after }),
        }
    }
}
