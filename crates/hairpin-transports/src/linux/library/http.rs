//! HTTP/1.1 and HTTP/2 with hyper, without a runtime of its own.
//!
//! Where messages are answered, each message is a POST request, and its answer the response. Otherwise each wire is one PUT
//! request whose body and response body are streams: each send is one chunk or DATA frame, flushed at once.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::http::{HeaderValue, Uri};
use hyper::rt::Executor;
use hyper::{Method, Request, Response, StatusCode};

use super::identity::{Identity, SERVER_NAME};
use super::mailbox::{Mailbox, Mailboxes};
use super::port::{Driven, Form};
use super::runtime::{Handle, Runtime};
use super::socket_io::SocketIo;
use crate::linux::wires::description::Connected;
use crate::wire::{Connection, Setup, TransportError, Wire};
use crate::wires::layer::handshake_failed;
use crate::wires::{failed, second_wire};

/// Maximum streams of a connection.
const MAX_STREAMS: usize = 10_000;

type BodyError = Box<dyn std::error::Error + Send + Sync>;

/// The body of a request or a response.
pub(crate) enum Outgoing {
    Whole(Option<Bytes>),
    /// What the wire sends, until it is closed.
    Stream(Mailbox),
    /// The same, with each message encoded.
    Encoded(Mailbox, fn(&[u8]) -> Bytes),
    /// The body of another library.
    #[cfg(feature = "grpc")]
    Other(tonic::body::Body),
}

impl Outgoing {
    pub(crate) fn empty() -> Self {
        Self::Whole(None)
    }
}

impl Body for Outgoing {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        match &mut *self {
            Self::Whole(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Self::Stream(mailbox) => next_frame(mailbox, context),
            Self::Encoded(mailbox, encode) => next_frame(mailbox, context)
                .map_ok(|frame| frame.map_data(|message| mailbox.encode(|| encode(&message)))),
            #[cfg(feature = "grpc")]
            Self::Other(body) => Pin::new(body).poll_frame(context).map_err(Into::into),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Whole(bytes) => bytes.is_none(),
            Self::Stream(_) | Self::Encoded(..) => false,
            #[cfg(feature = "grpc")]
            Self::Other(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64)),
            Self::Stream(_) | Self::Encoded(..) => SizeHint::default(),
            #[cfg(feature = "grpc")]
            Self::Other(body) => body.size_hint(),
        }
    }
}

fn next_frame(mailbox: &Mailbox, context: &Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
    mailbox.poll_outgoing(context.waker()).map(|message| {
        if message.is_none() {
            mailbox.on_all_sent();
        }
        message.map(|message| Ok(Frame::data(message)))
    })
}

impl<F: Future<Output: Send> + Send + 'static> Executor<F> for Handle {
    fn execute(&self, future: F) {
        self.spawn(Box::pin(async move {
            future.await;
        }));
    }
}

/// Sends the requests of a client.
pub(crate) trait Sender: Send + Sized + 'static {
    /// The sender of another wire; `None` if the connection carries one request at a time.
    fn another(&self) -> Option<Self>;

    fn send(
        &mut self,
        request: Request<Outgoing>,
    ) -> impl Future<Output = Result<Response<Incoming>, hyper::Error>> + Send;

    /// What the wires exchange with the library.
    fn form(has_answers: bool) -> Form {
        if has_answers { Form::Requests } else { Form::Bytes }
    }

    /// Sends what the wire sends, and delivers the answers, until the wire is closed. Fails with why the connection ended, unless
    /// the other end just closed it.
    fn run(client: Client<Self>, has_answers: bool) -> impl Future<Output = Result<(), Option<String>>> + Send {
        async move { client.run(has_answers).await.map_err(|error| error.and_then(|error| failure(&error))) }
    }
}

fn on_gone(mailboxes: &Mailboxes, result: Result<(), hyper::Error>) {
    let failure = result.err().and_then(|error| failure(&error));
    mailboxes.each(|mailbox| mailbox.on_gone(failure.clone()));
}

/// Why a connection ended, unless the other end just closed it.
pub(crate) fn failure(error: &hyper::Error) -> Option<String> {
    (!is_closed(error)).then(|| text(error))
}

/// Whether the other end has just closed the connection.
pub(crate) fn is_closed(error: &hyper::Error) -> bool {
    use std::error::Error;
    use std::io::ErrorKind::{InvalidData, InvalidInput};
    fn is_io(error: &(dyn Error + 'static)) -> bool {
        let is_of_stream = error.downcast_ref::<h2::Error>().is_some_and(h2::Error::is_io);
        // The library's name for bytes that are no body.
        let of_socket = error.downcast_ref().map(std::io::Error::kind);
        let is_of_socket = of_socket.is_some_and(|kind| !matches!(kind, InvalidInput | InvalidData));
        is_of_stream || is_of_socket || error.source().is_some_and(is_io)
    }
    error.is_incomplete_message()
        || error.is_canceled()
        || error.is_closed()
        || error.is_body_write_aborted()
        || error.source().is_some_and(is_io)
}

pub(crate) fn text(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

struct HttpConnection<S> {
    driven: Arc<Driven>,
    /// The sender of the next wire; `None` at a server, and once there can be no other wire.
    sender: Option<S>,
    carries_several: bool,
    mailboxes: Mailboxes,
    next: usize,
    setup: Setup,
}

/// Returns the client of a connection, after the library's handshake.
pub(crate) fn connect<S: Sender, C, H>(
    connected: Connected<'_>,
    handshake: impl FnOnce(SocketIo, Handle) -> H,
) -> Result<Box<dyn Connection>, TransportError>
where
    C: Future<Output = Result<(), hyper::Error>> + Send + 'static,
    H: Future<Output = Result<(S, C), hyper::Error>> + Send + 'static,
{
    let mut runtime = runtime(&connected)?;
    let handshake = handshake(socket_io(&mut runtime, &connected)?, runtime.handle());
    established(runtime, connected, handshake, on_gone)
}

/// Notes the end of a connection.
pub(crate) type Ended = fn(&Mailboxes, Result<(), hyper::Error>);

/// Completes the library's handshake, and returns the client of the connection.
pub(crate) fn established<S: Sender, C>(
    mut runtime: Runtime,
    connected: Connected<'_>,
    handshake: impl Future<Output = Result<(S, C), hyper::Error>> + Send + 'static,
    on_end: Ended,
) -> Result<Box<dyn Connection>, TransportError>
where
    C: Future<Output = Result<(), hyper::Error>> + Send + 'static,
{
    let (handle, setup) = (runtime.handle(), connected.setup.clone());
    let error = |source| failed("set up HTTP with", "the other end", source, "");
    let timeout = setup.opening_timeout();
    let opened = runtime.complete(handshake, timeout).map_err(error)?;
    let opened = opened.ok_or(TransportError::TimedOut { what: "answered", after: timeout })?;
    let (sender, connection) = opened.map_err(|source| error(std::io::Error::other(source)))?;
    let mailboxes = Mailboxes::default();
    let ended = mailboxes.clone();
    handle.spawn(Box::pin(async move { on_end(&ended, connection.await) }));
    let carries_several = sender.another().is_some();
    let driven = Driven::of_socket(runtime, connected);
    Ok(Box::new(HttpConnection { driven, sender: Some(sender), carries_several, mailboxes, next: 0, setup }))
}

/// Returns the server of a connection, whose clients have senders of type `S`.
pub(crate) fn accept<S: Sender, C>(
    connected: Connected<'_>,
    carries_several: bool,
    serve: impl FnOnce(SocketIo, Handle, Service) -> C,
) -> Result<Box<dyn Connection>, TransportError>
where
    C: Future<Output = Result<(), hyper::Error>> + Send + 'static,
{
    let (mut runtime, setup) = (runtime(&connected)?, connected.setup.clone());
    let io = socket_io(&mut runtime, &connected)?;
    let (handle, mailboxes) = (runtime.handle(), Mailboxes::default());
    let service = Service { mailboxes: mailboxes.clone(), handle: handle.clone() };
    let (connection, ended) = (serve(io, handle.clone(), service), mailboxes.clone());
    handle.spawn(Box::pin(async move { on_gone(&ended, connection.await) }));
    let driven = Driven::of_socket(runtime, connected);
    Ok(Box::new(HttpConnection { driven, sender: None::<S>, carries_several, mailboxes, next: 0, setup }))
}

pub(crate) fn runtime(connected: &Connected<'_>) -> Result<Runtime, TransportError> {
    connected.set_nodelay()?;
    let socket = connected.socket.try_clone();
    socket.map(Runtime::new).map_err(|source| failed("duplicate", "a socket", source, "is `ulimit -n` reached?"))
}

/// The socket, after the handshake of TLS if the transport is over TLS.
fn socket_io(runtime: &mut Runtime, connected: &Connected<'_>) -> Result<SocketIo, TransportError> {
    let Some(protocol) = connected.transport.encrypted else { return Ok(SocketIo::Plain(runtime.handle())) };
    let (setup, end) = (connected.setup, connected.end);
    let encrypted = Identity::of(setup, &[protocol]).and_then(|identity| {
        let io = SocketIo::encrypted(runtime, identity.begin(end)?, setup.opening_timeout())?;
        io.tls().map_or(Ok(()), |tls| identity.on_shaken(end, tls)).map(|()| io)
    });
    encrypted.map_err(|source| handshake_failed("TLS", setup, source))
}

impl<S: Sender> Connection for HttpConnection<S> {
    fn open(&mut self) -> Result<Box<dyn Wire>, TransportError> {
        let sender = self.sender.take().ok_or_else(|| second_wire(self.driven.transport.card.name))?;
        self.sender = sender.another();
        let index = self.next;
        self.next += 1;
        let mailbox = self.mailboxes.get(index);
        let scheme = if self.driven.transport.encrypted.is_some() { "https" } else { "http" };
        let origin = format!("{scheme}://{SERVER_NAME}");
        let opens_with_message = self.setup.opens_with_message;
        let client = Client { sender, mailbox: mailbox.clone(), index, origin, opens_with_message };
        let (failed, answers) = (mailbox.clone(), self.setup.has_answers);
        self.driven.handle().spawn(Box::pin(async move {
            if let Err(failure) = S::run(client, answers).await {
                failed.on_gone(failure);
            }
        }));
        self.driven.wait_until_opened(&mailbox, &self.setup)?;
        self.driven.wire(mailbox, S::form(self.setup.has_answers), usize::MAX, &self.setup)
    }

    fn accept_wire(&mut self) -> Result<Box<dyn Wire>, TransportError> {
        if self.next > 0 && !self.carries_several {
            return Err(second_wire(self.driven.transport.card.name));
        }
        let mailbox = self.mailboxes.get(self.next);
        if !self.setup.opens_with_message {
            self.driven.wait_until_opened(&mailbox, &self.setup)?;
        }
        self.next += 1;
        self.driven.wire(mailbox, S::form(self.setup.has_answers), usize::MAX, &self.setup)
    }
}

pub(crate) struct Client<S> {
    pub(crate) sender: S,
    pub(crate) mailbox: Mailbox,
    /// Number of the wire on its connection, from 0.
    pub(crate) index: usize,
    /// Of the URIs. The name is never looked up.
    pub(crate) origin: String,
    pub(crate) opens_with_message: bool,
}

impl<S: Sender> Client<S> {
    /// Fails with an error, or with `None` if the server refuses a request.
    async fn run(mut self, has_answers: bool) -> Result<(), Option<hyper::Error>> {
        let uri = Uri::try_from(format!("{}/{}", self.origin, self.index)).map_err(|_| None)?;
        if !has_answers {
            let body = Outgoing::Stream(self.mailbox.clone());
            let response = self.request(Method::PUT, &uri, body).await?;
            self.mailbox.on_opened();
            deliver(response.into_body(), &self.mailbox).await?;
            self.mailbox.on_end();
            return Ok(());
        }
        if !self.opens_with_message {
            deliver(self.request(Method::GET, &uri, Outgoing::empty()).await?.into_body(), &self.mailbox).await?;
        }
        self.mailbox.on_opened();
        while let Some(message) = self.mailbox.outgoing().await {
            let response = self.request(Method::POST, &uri, Outgoing::Whole(Some(message))).await?;
            deliver(response.into_body(), &self.mailbox).await?;
        }
        self.mailbox.on_all_sent();
        Ok(())
    }

    async fn request(
        &mut self,
        method: Method,
        uri: &Uri,
        body: Outgoing,
    ) -> Result<Response<Incoming>, Option<hyper::Error>> {
        let request = Request::builder().method(method).uri(uri.clone());
        let request = request.header("host", HeaderValue::from_static(SERVER_NAME)).body(body).map_err(|_| None)?;
        let response = self.sender.send(request).await?;
        if response.status() == StatusCode::OK { Ok(response) } else { Err(None) }
    }
}

async fn deliver(mut body: Incoming, to: &Mailbox) -> Result<(), hyper::Error> {
    while to.room().await {
        let Some(frame) = body.frame().await else { break };
        if let Ok(data) = frame?.into_data() {
            to.deliver(data).await;
        }
    }
    Ok(())
}

/// Answers the requests of a server.
#[derive(Clone)]
pub(crate) struct Service {
    mailboxes: Mailboxes,
    pub(crate) handle: Handle,
}

impl Service {
    /// The mailbox of the wire with this number; `None` if the number is not allowed.
    pub(crate) fn mailbox(&self, index: Option<usize>) -> Option<Mailbox> {
        index.filter(|index| *index < MAX_STREAMS).map(|index| self.mailboxes.get(index))
    }

    pub(crate) async fn answer(self, request: Request<Incoming>) -> Result<Response<Outgoing>, String> {
        let index = request.uri().path().strip_prefix('/').and_then(|index| index.parse::<usize>().ok());
        let Some(mailbox) = self.mailbox(index) else { return Ok(status(StatusCode::NOT_FOUND)) };
        match *request.method() {
            Method::GET => {
                mailbox.on_opened();
                Ok(Response::new(Outgoing::empty()))
            }
            Method::POST => {
                mailbox.on_opened();
                if let Err(error) = deliver(request.into_body(), &mailbox).await {
                    mailbox.on_gone(failure(&error));
                    return Err(text(&error));
                }
                match mailbox.outgoing().await {
                    Some(answer) => Ok(Response::new(Outgoing::Whole(Some(answer)))),
                    None => Err("the server has ended".to_owned()),
                }
            }
            Method::PUT => {
                mailbox.on_opened();
                let (body, to) = (request.into_body(), mailbox.clone());
                self.handle.spawn(Box::pin(async move {
                    match deliver(body, &to).await {
                        Ok(()) => to.on_end(),
                        Err(error) => to.on_gone(failure(&error)),
                    }
                }));
                Ok(Response::new(Outgoing::Stream(mailbox)))
            }
            _ => Ok(status(StatusCode::METHOD_NOT_ALLOWED)),
        }
    }
}

pub(crate) fn status(status: StatusCode) -> Response<Outgoing> {
    let mut response = Response::new(Outgoing::empty());
    *response.status_mut() = status;
    response
}
