//! quinn's view of the minimal loop.

use std::future::Future;
use std::io::{self, IoSliceMut};
use std::net::{SocketAddr, UdpSocket};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Instant;

use quinn::udp::{RecvMeta, Transmit, UdpSocketState};
use quinn::{AsyncTimer, AsyncUdpSocket, Runtime, UdpPoller};

use super::own_loop::{poll_may_send, poll_receive, set_timer, spawn, try_send};

#[derive(Debug)]
pub(super) struct OwnRuntime;

impl Runtime for OwnRuntime {
    fn new_timer(&self, at: Instant) -> Pin<Box<dyn AsyncTimer>> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Box::pin(Timer { number: NEXT.fetch_add(1, Ordering::Relaxed), at })
    }

    fn spawn(&self, future: Pin<Box<dyn Future<Output = ()> + Send>>) {
        spawn(future);
    }

    fn wrap_udp_socket(&self, socket: UdpSocket) -> io::Result<Arc<dyn AsyncUdpSocket>> {
        Ok(Arc::new(Socket { state: UdpSocketState::new((&socket).into())?, socket }))
    }
}

#[derive(Debug)]
struct Timer {
    number: u64,
    at: Instant,
}

impl AsyncTimer for Timer {
    fn reset(mut self: Pin<&mut Self>, at: Instant) {
        set_timer(self.number, None);
        self.at = at;
    }

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let is_due = self.at <= Instant::now();
        set_timer(self.number, (!is_due).then(|| (self.at, context.waker().clone())));
        if is_due { Poll::Ready(()) } else { Poll::Pending }
    }
}

#[derive(Debug)]
struct Socket {
    socket: UdpSocket,
    state: UdpSocketState,
}

impl AsyncUdpSocket for Socket {
    fn create_io_poller(self: Arc<Self>) -> Pin<Box<dyn UdpPoller>> {
        Box::pin(Poller)
    }

    fn try_send(&self, transmit: &Transmit<'_>) -> io::Result<()> {
        try_send(|| self.state.send((&self.socket).into(), transmit))
    }

    fn poll_recv(
        &self,
        context: &mut Context<'_>,
        buffers: &mut [IoSliceMut<'_>],
        meta: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        poll_receive(context, || self.state.recv((&self.socket).into(), buffers, meta))
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
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

#[derive(Debug)]
struct Poller;

impl UdpPoller for Poller {
    fn poll_writable(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        poll_may_send(context)
    }
}
