//! Round trips of 4 bytes over TCP, as plain as possible: with tokio (`--waiting async`), and with the crate io-uring (`--waiting
//! uring`). As in [`crate::pair`], the server reads the clock twice for each message.

use std::hint::black_box;
use std::io;
use std::net::TcpStream;
use std::os::fd::AsRawFd;

use io_uring::types::Fd;
use io_uring::{IoUring, opcode, squeue};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::load::Load;
use super::{End, Outcome, own_loop};
use crate::clock::ticks;

/// As servers have it: larger than a message.
const READ_BYTES: usize = 1024;

pub(super) async fn on_tokio(end: End, socket: TcpStream, load: Load) -> Outcome<Vec<u64>> {
    let mut socket = tokio::net::TcpStream::from_std(socket)?;
    let mut buffer = [0; READ_BYTES];
    if end == End::Client {
        let exchange = async |message: [u8; 4]| {
            socket.write_all(&message).await?;
            let bytes = socket.read(&mut buffer).await?;
            Ok(buffer[..bytes].try_into()?)
        };
        return load.round_trips(exchange).await;
    }
    loop {
        let bytes = socket.read(&mut buffer).await?;
        let since = ticks();
        black_box(ticks().wrapping_sub(since));
        socket.write_all(&buffer[..bytes]).await?;
    }
}

/// One call submits a send and the next receive, and waits for both.
pub(super) fn on_uring(end: End, socket: &TcpStream, load: Load) -> Outcome<Vec<u64>> {
    let mut ring: IoUring = IoUring::builder().setup_coop_taskrun().build(2)?;
    let socket = Fd(socket.as_raw_fd());
    let (mut sent, mut received) = ([0_u8; 4], [0_u8; 4]);
    let (to, into) = (sent.as_mut_ptr(), received.as_mut_ptr());
    let send = opcode::Send::new(socket, to, 4).flags(libc::MSG_NOSIGNAL).build();
    let receive = opcode::Recv::new(socket, into, 4).build();
    let mut turn = |entries: &[squeue::Entry], message: [u8; 4]| -> Outcome<[u8; 4]> {
        // SAFETY: no operation is in flight, and both arrays outlive the ring.
        unsafe { to.cast::<[u8; 4]>().write(message) };
        // SAFETY: as above; the operations are complete when this function returns.
        entries.iter().try_for_each(|entry| unsafe { ring.submission().push(entry) })?;
        let mut left = entries.len();
        while left > 0 {
            match ring.submit_and_wait(left) {
                Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error.into()),
                _ => {}
            }
            loop {
                let Some(completed) = ring.completion().next() else { break };
                match (completed.result(), entries.last()) {
                    (4, _) => left -= 1,
                    // A signal interrupted the receive. SAFETY: as above.
                    (result, Some(receive)) if result == -libc::EINTR => unsafe { ring.submission().push(receive)? },
                    (result, _) => return Err(format!("an operation returned {result}").into()),
                }
            }
        }
        // SAFETY: no operation is in flight.
        Ok(unsafe { into.cast::<[u8; 4]>().read() })
    };
    if end == End::Client {
        return own_loop::block_on(
            -1,
            load.round_trips(async |message| turn(&[send.clone(), receive.clone()], message)),
        );
    }
    let mut message = turn(std::slice::from_ref(&receive), [0; 4])?;
    loop {
        let since = ticks();
        black_box(ticks().wrapping_sub(since));
        message = turn(&[send.clone(), receive.clone()], message)?;
    }
}
