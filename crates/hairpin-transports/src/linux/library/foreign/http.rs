//! Requests to an HTTP server that is not Hairpin's: GET for an empty message, else POST. Whatever it answers counts, within
//! [`MAX_ANSWER_BYTES`].

use std::future::Future;
use std::sync::Arc;

use bytes::Bytes;
use hairpin_model::{CodeOf, FailureKind};
use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};
use hyper::header::{ACCEPT, CONTENT_TYPE, HOST, HeaderValue, LOCATION, USER_AGENT};
use hyper::{Method, Request, Response, Uri};
use rustls::ClientConnection;

use super::tls;
use crate::foreign::{ForeignServer, MAX_ANSWER_BYTES, Refusal, shown};
use crate::library::http::{Client, Ended, Outgoing, Sender, established, is_closed, runtime, text};
use crate::library::port::Form;
use crate::library::runtime::Handle;
use crate::library::socket_io::SocketIo;
use crate::linux::wires::description::Connected;
use crate::linux::wires::layer::handshake_failed;
use crate::wire::{Connection, Setup, TransportError};

/// What a request says about its sender.
const AGENT: HeaderValue = HeaderValue::from_static(concat!("hairpin/", env!("CARGO_PKG_VERSION")));

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Version {
    One,
    Two,
}

impl Version {
    /// The name in the handshake of TLS.
    fn protocol(self) -> &'static [u8] {
        if self == Self::One { b"http/1.1" } else { b"h2" }
    }
}

/// Returns the client of a connection to a foreign server. `handshake` is that of the library; `sender` makes the sender of its
/// requests.
pub(crate) fn connect<S, Sent, C, H>(
    connected: Connected<'_>,
    server: &Arc<ForeignServer>,
    version: Version,
    handshake: impl FnOnce(SocketIo, Handle) -> H,
    sender: impl FnOnce(Sent, Target) -> S + Send + 'static,
) -> Result<Box<dyn Connection>, TransportError>
where
    S: Sender,
    Sent: Send + 'static,
    C: Future<Output = Result<(), hyper::Error>> + Send + 'static,
    H: Future<Output = Result<(Sent, C), hyper::Error>> + Send + 'static,
{
    let mut runtime = runtime(&connected)?;
    let (handle, target) = (runtime.handle(), Target::new(server, version)?);
    let io = match server.tls(&[version.protocol()]) {
        None => SocketIo::Plain(handle.clone()),
        Some(config) => {
            let tls = ClientConnection::new(config, server.name()?).map_err(|error| tls::refusal(&error))?;
            let shaken = SocketIo::encrypted(&mut runtime, tls.into(), connected.setup.opening_timeout());
            let io = shaken.map_err(|source| not_shaken(connected.setup, source))?;
            // Servers of HTTP/1.1 need not choose.
            let chosen = io.tls().and_then(|tls| tls.alpn_protocol());
            if version == Version::Two && chosen != Some(version.protocol()) {
                return Err(tls::not_chosen().into());
            }
            io
        }
    };
    let handshake = handshake(io, handle);
    let ended: Ended = |mailboxes, result| {
        let refusal = result.err().map_or_else(Refusal::closed, |error| refusal(&error));
        mailboxes.each(|mailbox| mailbox.on_refused(refusal.clone()));
    };
    established(runtime, connected, async move { handshake.await.map(|(sent, c)| (sender(sent, target), c)) }, ended)
}

fn not_shaken(setup: &Setup, source: std::io::Error) -> TransportError {
    if source.kind() == std::io::ErrorKind::UnexpectedEof {
        let cause = "the server closed the connection during the handshake of TLS";
        return Refusal::new(FailureKind::Closed, cause, "does it expect TLS on this port? see its log").into();
    }
    tls::refusal_in(&source).map_or_else(|| handshake_failed("TLS", setup, source), TransportError::from)
}

/// What a request asks for.
#[derive(Clone)]
pub(crate) struct Target {
    pub(crate) server: Arc<ForeignServer>,
    uri: Uri,
    host: Option<HeaderValue>,
}

impl Target {
    fn new(server: &Arc<ForeignServer>, version: Version) -> Result<Self, Refusal> {
        let url = &server.url;
        let scheme = if url.scheme.is_encrypted { "https" } else { "http" };
        let uri = match version {
            Version::One => url.path.parse(),
            Version::Two => format!("{scheme}://{}{}", url.authority(), url.path).parse(),
        };
        let host = (version == Version::One).then(|| HeaderValue::try_from(url.authority())).transpose();
        match (uri, host) {
            (Ok(uri), Ok(host)) => Ok(Self { server: Arc::clone(server), uri, host }),
            _ => {
                Err(Refusal::new(FailureKind::Unsupported, format!("no request can ask for {url}"), "check the URL"))
            }
        }
    }

    pub(crate) fn uri(&self) -> &Uri {
        &self.uri
    }

    fn request(&self, message: &Bytes) -> Request<Outgoing> {
        let is_empty = message.is_empty();
        let body = if is_empty { Outgoing::empty() } else { Outgoing::Whole(Some(message.clone())) };
        let mut request = Request::new(body);
        *request.method_mut() = if is_empty { Method::GET } else { Method::POST };
        request.uri_mut().clone_from(&self.uri);
        let headers = request.headers_mut();
        headers.extend(self.host.clone().map(|host| (HOST, host)));
        headers.insert(USER_AGENT, AGENT);
        headers.insert(ACCEPT, HeaderValue::from_static("*/*"));
        if !is_empty {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
        }
        request
    }
}

/// Sends the requests to a foreign server.
pub(crate) struct Requests<S> {
    pub(crate) sender: S,
    pub(crate) target: Target,
}

impl<S: Sender> Sender for Requests<S> {
    fn another(&self) -> Option<Self> {
        Some(Self { sender: self.sender.another()?, target: self.target.clone() })
    }

    async fn send(&mut self, request: Request<Outgoing>) -> Result<Response<Incoming>, hyper::Error> {
        self.sender.send(request).await
    }

    fn form(_has_answers: bool) -> Form {
        Form::Messages
    }

    async fn run(mut client: Client<Self>, _has_answers: bool) -> Result<(), Option<String>> {
        if let Err(refusal) = client.request_each().await {
            client.mailbox.on_refused(refusal);
        }
        Ok(())
    }
}

impl<S: Sender> Client<Requests<S>> {
    /// Sends each message in a request. Delivers the message when its answer is complete.
    async fn request_each(&mut self) -> Result<(), Refusal> {
        self.mailbox.on_opened();
        while let Some(message) = self.mailbox.outgoing().await {
            let request = self.sender.target.request(&message);
            let response = self.sender.send(request).await.map_err(|error| refusal(&error))?;
            check_status(&response)?;
            let bytes = read(response.into_body()).await?;
            self.sender.target.server.count_answer(bytes);
            if self.mailbox.room().await {
                self.mailbox.deliver_or_drop(message);
            }
        }
        self.mailbox.on_all_sent();
        Ok(())
    }
}

fn check_status(response: &Response<Incoming>) -> Result<(), Refusal> {
    let status = response.status();
    if status.is_success() {
        return Ok(());
    }
    let location = response.headers().get(LOCATION).map(|to| shown(&String::from_utf8_lossy(to.as_bytes())));
    let (cause, hint) = match location.filter(|_| status.is_redirection()) {
        Some(to) => (format!("the server answered {status}: it redirects to {to}"), "use that URL with --to"),
        None => (format!("the server answered {status}"), "check the path of the URL, and what the server expects"),
    };
    Err(Refusal::with_code(CodeOf::HttpStatus, status.as_u16().into(), cause, hint))
}

async fn read(mut body: Incoming) -> Result<u64, Refusal> {
    let mut bytes = body.size_hint().lower();
    let mut received = 0;
    while bytes <= MAX_ANSWER_BYTES {
        let Some(frame) = body.frame().await else { return Ok(received) };
        let frame = frame.map_err(|error| match refusal(&error) {
            closed if closed.is_closed() => {
                let cause = format!("the server closed the connection after {received} B of an answer");
                Refusal::new(FailureKind::Closed, cause, "see the server's log")
            }
            refusal => refusal,
        })?;
        received += frame.data_ref().map_or(0, |data| data.len() as u64);
        bytes = bytes.max(received);
    }
    Err(Refusal::too_long())
}

/// Why a request failed.
pub(crate) fn refusal(error: &hyper::Error) -> Refusal {
    let causes = || std::iter::successors(Some(error as &(dyn std::error::Error + 'static)), |error| error.source());
    let of_http2 = || causes().find_map(|cause| cause.downcast_ref::<h2::Error>());
    let of_io = causes().find_map(|cause| cause.downcast_ref()).or_else(|| of_http2()?.get_io());
    if let Some(refusal) = of_io.and_then(tls::refusal_in) {
        return refusal;
    }
    let reason = of_http2().filter(|error| error.is_remote()).and_then(h2::Error::reason);
    match reason.filter(|reason| *reason != h2::Reason::NO_ERROR) {
        Some(reason) => {
            let cause = format!("the server ended the request or the connection with {reason:?}");
            Refusal::with_code(CodeOf::Http2Error, u32::from(reason).into(), cause, "see the server's log")
        }
        None if is_closed(error) || of_http2().is_some_and(h2::Error::is_remote) => Refusal::closed(),
        None => {
            let hint = "is it a port for another protocol, or for TLS? try another scheme or --transport";
            Refusal::unexpected(format!("the server does not answer with valid HTTP: {}", shown(&text(error))), hint)
        }
    }
}
