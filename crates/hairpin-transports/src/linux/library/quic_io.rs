//! What quinn needs of its surroundings: a socket, timers and a way to spawn futures.

use std::fmt;
use std::future::Future;
use std::io::{self, IoSliceMut};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use quinn::udp::{RecvMeta, Transmit, UdpSockRef, UdpSocketState};
use quinn::{AsyncTimer, AsyncUdpSocket, Endpoint, EndpointConfig, ServerConfig, UdpPoller};

use super::runtime::Handle;
use crate::linux::wires::hello::is_icmp_error;
use crate::wire::TransportError;
use crate::wires::unreached;

/// Payload of the datagrams with which a client begins (RFC 9000, section 14.1).
const INITIAL_BYTES: u32 = 1_200;

/// An endpoint on a socket, and its counts. `established` is the connection to close if the kernel reports that the other end's
/// socket is closed.
pub(crate) fn new_endpoint(
    handle: &Handle,
    server: Option<ServerConfig>,
    established: Option<Established>,
) -> io::Result<(Endpoint, Traffic)> {
    let state = UdpSocketState::new(UdpSockRef::from(handle.socket()))?;
    let traffic = Traffic::default();
    let socket = Arc::new(QuicSocket { handle: handle.clone(), state, established, traffic: traffic.clone() });
    let runtime = Arc::new(handle.clone());
    let endpoint = Endpoint::new_with_abstract_socket(EndpointConfig::default(), server, socket, runtime)?;
    Ok((endpoint, traffic))
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Traffic(Arc<Counts>);

/// Sends and receives, which are datagrams during a handshake, and the last ICMP error.
#[derive(Debug, Default)]
struct Counts {
    sent: AtomicU32,
    received: AtomicU32,
    error: AtomicI32,
}

impl Traffic {
    /// Why a client completed no handshake within a time-out.
    pub(crate) fn unanswered(&self, transport: &'static str, at: SocketAddr, after: Duration) -> TransportError {
        let [sent, answers] = [&self.0.sent, &self.0.received].map(|count| count.load(Ordering::Relaxed));
        let address = at.to_string();
        match (answers, self.0.error.load(Ordering::Relaxed)) {
            (0, error @ 1..) => unreached("connect to", &address, io::Error::from_raw_os_error(error)),
            _ => TransportError::Unwelcome { transport, address, sent, answers, after, bytes: Some(INITIAL_BYTES) },
        }
    }
}

impl fmt::Debug for Handle {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Handle")
    }
}

impl quinn::Runtime for Handle {
    fn new_timer(&self, at: Instant) -> Pin<Box<dyn AsyncTimer>> {
        Box::pin(Timer { handle: self.clone(), at, key: None, waker: Waker::noop().clone() })
    }

    fn spawn(&self, future: Pin<Box<dyn Future<Output = ()> + Send>>) {
        Self::spawn(self, future);
    }

    fn wrap_udp_socket(&self, _socket: std::net::UdpSocket) -> io::Result<Arc<dyn AsyncUdpSocket>> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

#[derive(Debug)]
struct Timer {
    handle: Handle,
    at: Instant,
    /// The timer that is set, and what it wakes.
    key: Option<(Instant, u64)>,
    waker: Waker,
}

impl Timer {
    fn cancel(&mut self) {
        if let Some(key) = self.key.take() {
            self.handle.cancel_timer(key);
        }
    }
}

impl AsyncTimer for Timer {
    fn reset(mut self: Pin<&mut Self>, at: Instant) {
        self.cancel();
        self.at = at;
    }

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.at <= Instant::now() {
            self.cancel();
            return Poll::Ready(());
        }
        if self.key.is_none() || !self.waker.will_wake(context.waker()) {
            self.cancel();
            self.waker.clone_from(context.waker());
            self.key = Some(self.handle.set_timer(self.at, self.waker.clone()));
        }
        Poll::Pending
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        self.cancel();
    }
}

pub(crate) type Established = Arc<OnceLock<quinn::Connection>>;

#[derive(Debug)]
struct QuicSocket {
    handle: Handle,
    state: UdpSocketState,
    /// Closed if the kernel reports that the other end's socket is closed; `None` if such reports are not believed.
    established: Option<Established>,
    traffic: Traffic,
}

impl AsyncUdpSocket for QuicSocket {
    fn create_io_poller(self: Arc<Self>) -> Pin<Box<dyn UdpPoller>> {
        Box::pin(self.handle.clone())
    }

    fn try_send(&self, transmit: &Transmit<'_>) -> io::Result<()> {
        self.handle.try_send(|socket| self.state.send(UdpSockRef::from(socket), transmit))?;
        self.traffic.0.sent.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn poll_recv(
        &self,
        context: &mut Context<'_>,
        buffers: &mut [IoSliceMut<'_>],
        meta: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        self.handle.poll_receive(context, |socket| match self.state.recv(UdpSockRef::from(socket), buffers, meta) {
            Err(error) if is_icmp_error(&error) => {
                self.traffic.0.error.store(error.raw_os_error().unwrap_or(0), Ordering::Relaxed);
                if let Some(connection) = self.established.as_ref().and_then(|established| established.get()) {
                    connection.close(0_u32.into(), b"");
                }
                // The kernel reports it once.
                Err(io::ErrorKind::Interrupted.into())
            }
            received => {
                // Packets of a handshake have long headers (RFC 8999, section 5.1). A hello does not.
                let is_long = received.is_ok() && buffers[0].first().is_some_and(|first| first & 0x80 != 0);
                self.traffic.0.received.fetch_add(u32::from(is_long), Ordering::Relaxed);
                received
            }
        })
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        let address = self.handle.socket().local_addr()?;
        address.as_socket().ok_or_else(|| io::ErrorKind::InvalidInput.into())
    }

    fn max_transmit_segments(&self) -> usize {
        self.state.max_gso_segments()
    }

    fn max_receive_segments(&self) -> usize {
        self.state.gro_segments()
    }

    fn may_fragment(&self) -> bool {
        self.state.may_fragment()
    }
}

impl UdpPoller for Handle {
    fn poll_writable(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_may_send(context)
    }
}
