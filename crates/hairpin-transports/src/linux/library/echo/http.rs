//! Echoes requests over HTTP/1.1 and HTTP/2, and the messages of gRPC calls.

use std::net::TcpStream;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Instant;

use bytes::Bytes;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Body, Frame, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use socket2::Socket;

use super::limits::{Connection, IDLE_TIMEOUT, MAX_MESSAGE_BYTES};
use crate::library::runtime::Runtime;
use crate::library::socket_io::SocketIo;

/// What HTTP/2 with prior knowledge begins with (RFC 9113, section 3.4).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Concurrent requests of a connection.
const MAX_STREAMS: u32 = 4;
const MAX_HEADER_BYTES: usize = 16 << 10;

type EchoBody = UnsyncBoxBody<Bytes, hyper::Error>;

pub(super) fn serve(stream: TcpStream, connection: &Connection) {
    drop(stream.set_nodelay(true));
    let Some(is_http2) = begins_with_preface(&stream) else { return };
    let runtime = Runtime::new(Socket::from(stream));
    let (handle, of_requests) = (runtime.handle(), connection.clone());
    let service = service_fn(move |request| answer(request, of_requests.clone()));
    let (io, has_ended) = (SocketIo::Plain(handle.clone()), Arc::new(AtomicBool::new(false)));
    let ended = Arc::clone(&has_ended);
    if is_http2 {
        let mut builder = http2::Builder::new(handle.clone());
        builder.max_concurrent_streams(MAX_STREAMS).max_header_list_size(MAX_HEADER_BYTES as u32);
        let serving = builder.serve_connection(io, service);
        handle.spawn(Box::pin(async move {
            drop(serving.await);
            ended.store(true, Ordering::Relaxed);
        }));
    } else {
        let serving = http1::Builder::new().max_buf_size(MAX_HEADER_BYTES).serve_connection(io, service);
        handle.spawn(Box::pin(async move {
            drop(serving.await);
            ended.store(true, Ordering::Relaxed);
        }));
    }
    super::limits::drive(runtime, || has_ended.load(Ordering::Relaxed) || connection.is_over());
}

/// Waits for the first bytes, and says whether they are those of HTTP/2; `None` if they do not arrive.
fn begins_with_preface(stream: &TcpStream) -> Option<bool> {
    let began = Instant::now();
    let mut start = [0; PREFACE.len()];
    loop {
        let left = IDLE_TIMEOUT.checked_sub(began.elapsed()).filter(|left| !left.is_zero())?;
        stream.set_read_timeout(Some(left)).ok()?;
        let count = stream.peek(&mut start).ok().filter(|count| *count > 0)?;
        if count == start.len() || start[..count] != PREFACE[..count] {
            stream.set_read_timeout(None).ok()?;
            return Some(start[..count] == *PREFACE);
        }
        // A part of the preface has arrived: `peek` does not wait for the rest.
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
}

async fn answer(request: Request<Incoming>, connection: Connection) -> Result<Response<EchoBody>, hyper::Error> {
    let content_type = request.headers().get(CONTENT_TYPE).cloned();
    if content_type.as_ref().is_some_and(|kind| kind.as_bytes().starts_with(b"application/grpc")) {
        let body = Calls { body: request.into_body(), connection, has_ended: false };
        let mut response = Response::new(body.boxed_unsync());
        response.headers_mut().extend(content_type.map(|kind| (CONTENT_TYPE, kind)));
        return Ok(response);
    }
    let is_known = [Method::GET, Method::HEAD, Method::POST, Method::PUT].contains(request.method());
    let declared = request.body().size_hint().lower();
    if !is_known || declared > MAX_MESSAGE_BYTES as u64 {
        connection.count_and_sleep(0);
        return Ok(status(if is_known { StatusCode::PAYLOAD_TOO_LARGE } else { StatusCode::METHOD_NOT_ALLOWED }));
    }
    let Ok(body) = Limited::new(request.into_body(), MAX_MESSAGE_BYTES).collect().await else {
        return Ok(status(StatusCode::PAYLOAD_TOO_LARGE));
    };
    let bytes = body.to_bytes();
    connection.count_and_sleep(bytes.len());
    let mut response = Response::new(full(bytes));
    response.headers_mut().extend(content_type.map(|kind| (CONTENT_TYPE, kind)));
    Ok(response)
}

fn full(bytes: Bytes) -> EchoBody {
    Full::new(bytes).map_err(|never| match never {}).boxed_unsync()
}

fn status(status: StatusCode) -> Response<EchoBody> {
    let mut response = Response::new(full(Bytes::new()));
    *response.status_mut() = status;
    response
}

/// The frames of a call as they arrive, then its status.
struct Calls {
    body: Incoming,
    connection: Connection,
    has_ended: bool,
}

impl Body for Calls {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        if self.has_ended {
            return Poll::Ready(None);
        }
        loop {
            let frame = match ready!(Pin::new(&mut self.body).poll_frame(context)) {
                Some(frame) => frame?,
                None => break,
            };
            // Clients take many empty frames for an attack.
            if let Some(bytes) = frame.data_ref().map(Bytes::len).filter(|bytes| *bytes > 0) {
                self.connection.count_and_sleep(bytes);
                return Poll::Ready(Some(Ok(frame)));
            }
        }
        self.has_ended = true;
        let mut trailers = HeaderMap::new();
        trailers.insert("grpc-status", HeaderValue::from_static("0"));
        Poll::Ready(Some(Ok(Frame::trailers(trailers))))
    }
}
