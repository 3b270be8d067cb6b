//! How two datagram sockets come to know each other: the near end says hello, the far end connects to whoever said it
//! and answers.
//!
//! Both datagrams may be lost on the way, so hello is said again until it is answered; what then arrives twice is
//! recognised by its contents and never reaches a caller.

use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use socket2::{SockAddr, Socket};

use super::{Deadline, failed, slice, unreached};
use crate::system::descriptor::{READABLE, poll};
use crate::system::socket;
use crate::wire::TransportError;

/// The near end's first datagram: 16 random bytes that no message is.
pub(crate) const HELLO: [u8; 16] = 0xb51e_7c0f_93d2_48a6_8f6b_d10e_2a75_c43d_u128.to_be_bytes();
/// The far end's answer.
pub(crate) const WELCOME: [u8; 16] = 0xc2a9_04e8_5d37_b61f_e470_196c_8bd3_f52a_u128.to_be_bytes();

/// Whether a datagram is one by which two ends come to know each other, and so no message.
#[must_use]
pub fn is_greeting(datagram: &[u8]) -> bool {
    datagram == HELLO || datagram == WELCOME
}

/// Says hello on a connected socket until it is answered.
pub(crate) fn say(
    socket: &Socket,
    address: &str,
    timeout: Duration,
    again_after: Duration,
) -> Result<(), TransportError> {
    let error = |operation| move |source| unreached(operation, address, source);
    let mut deadline = Deadline::new(timeout);
    while let Some(left) = deadline.left() {
        socket::send(socket.as_fd(), &HELLO, false).map_err(error("send a hello to"))?;
        if patient_poll(socket, left.min(again_after)).map_err(error("wait for an answer of"))? {
            let mut answer = [0; WELCOME.len() + 1];
            match socket::receive(socket.as_fd(), &mut answer, false, true) {
                Ok(bytes) if answer.get(..bytes) == Some(&WELCOME) => return Ok(()),
                Err(source) if source.kind() != io::ErrorKind::WouldBlock => {
                    return Err(error("receive an answer of")(source));
                }
                _ => {}
            }
        }
    }
    Err(TransportError::TimedOut { what: "answered", after: timeout })
}

/// Waits for a hello, connects to whoever said it, and answers.
pub(crate) fn hear(socket: &Socket, address: &str, timeout: Duration) -> Result<(), TransportError> {
    let error = |operation| move |source| failed(operation, address, source, "");
    // Taking a datagram that turns out to have a bad checksum would otherwise wait for the next one without end.
    socket.set_read_timeout(Some(timeout.max(Duration::from_millis(1)))).map_err(error("set the time-out of"))?;
    let mut deadline = Deadline::new(timeout);
    while let Some(left) = deadline.left() {
        if !patient_poll(socket, slice(left)).map_err(error("wait for a hello at"))? {
            continue;
        }
        let Some(from) = one_hello(socket).map_err(error("receive a hello at"))? else { continue };
        socket.connect(&from).map_err(error("connect back from"))?;
        // What others sent before the socket was connected is still in its queue.
        let mut thrown_away = [0; 1];
        while socket::receive(socket.as_fd(), &mut thrown_away, false, false).is_ok() {}
        socket::send(socket.as_fd(), &WELCOME, false).map_err(error("answer a hello at"))?;
        return Ok(());
    }
    Err(TransportError::TimedOut { what: "connected", after: timeout })
}

/// Who said hello; `None` when the datagram was something else.
fn one_hello(socket: &Socket) -> io::Result<Option<SockAddr>> {
    // Its sender first, then its bytes: between the two calls nobody else takes from this socket.
    let from = match socket.peek_sender() {
        Ok(from) => from,
        // Nothing after all.
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut datagram = [0; HELLO.len() + 1];
    let bytes = socket::receive(socket.as_fd(), &mut datagram, false, true)?;
    Ok((datagram.get(..bytes) == Some(&HELLO)).then_some(from))
}

fn patient_poll(socket: &Socket, at_most: Duration) -> io::Result<bool> {
    match poll(socket.as_fd(), READABLE, at_most) {
        Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(false),
        answer => answer,
    }
}
