//! gRPC with tonic, on hyper's HTTP/2 and without tonic's transport.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_core::Stream;
use hairpin_model::trace::End;
use hyper::body::Incoming;
use hyper::client::conn::http2::{Builder, SendRequest};
use hyper::http::Uri;
use hyper::http::uri::PathAndQuery;
use hyper::server::conn::http2 as server;
use hyper::service::service_fn;
use hyper::{Request, Response};
use tonic::metadata::MetadataValue;
use tonic::{Status, Streaming};
use tonic_prost::ProstCodec;

use super::http::{Client, Outgoing, Sender, Service, accept, connect};
use super::mailbox::Mailbox;
use super::port::Form;
use super::runtime::Handle;
use crate::wire::{Connection, TransportError};
use crate::wires::description::Connected;

/// What carries messages that are answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Calls {
    Unary,
    Streaming,
}

const UNARY: &str = "/hairpin.Echo/Unary";
const STREAMING: &str = "/hairpin.Echo/Streaming";
/// Metadata with the number of the wire on its connection.
const WIRE: &str = "wire";

/// `message Payload { bytes payload = 1; }`
#[derive(Clone, PartialEq, prost::Message)]
struct Payload {
    #[prost(bytes = "bytes", tag = "1")]
    payload: Bytes,
}

type Codec = ProstCodec<Payload, Payload>;

pub(crate) fn open(connected: Connected<'_>, calls: Calls) -> Result<Box<dyn Connection>, TransportError> {
    match connected.end {
        End::Client => connect(connected, move |io, handle: Handle| {
            let handshake = Builder::new(handle).handshake(io);
            async move { handshake.await.map(|(channel, connection)| (GrpcSender { channel, calls }, connection)) }
        }),
        End::Server => accept::<GrpcSender, _>(connected, true, |io, handle, service| {
            let service = service_fn(move |request| answer(service.clone(), request));
            server::Builder::new(handle).serve_connection(io, service)
        }),
    }
}

/// Sends the calls of a client.
struct GrpcSender {
    channel: SendRequest<Outgoing>,
    calls: Calls,
}

impl Sender for GrpcSender {
    fn another(&self) -> Option<Self> {
        Some(Self { channel: self.channel.clone(), calls: self.calls })
    }

    async fn send(&mut self, request: Request<Outgoing>) -> Result<Response<Incoming>, hyper::Error> {
        self.channel.ready().await?;
        self.channel.send_request(request).await
    }

    fn form(_has_answers: bool) -> Form {
        Form::Messages
    }

    async fn run(client: Client<Self>, has_answers: bool) -> Result<(), Option<String>> {
        let Client { sender, mailbox, index, origin, opens_with_message } = client;
        let is_unary = has_answers && sender.calls == Calls::Unary;
        let origin = Uri::try_from(origin).map_err(|error| Some(error.to_string()))?;
        let mut grpc = tonic::client::Grpc::with_origin(Channel(sender.channel), origin);
        if opens_with_message {
            mailbox.on_opened();
        }
        let called = if is_unary {
            unary(&mut grpc, &mailbox, index, opens_with_message).await
        } else {
            streaming(&mut grpc, &mailbox, index).await
        };
        // The connection's own future reports why it ended.
        called.map_err(|status| (status.code() != tonic::Code::Unknown).then(|| status.to_string()))
    }
}

/// Sends each message in a unary call. The first call, without a message, opens the wire unless a message does.
async fn unary(
    grpc: &mut tonic::client::Grpc<Channel>,
    mailbox: &Mailbox,
    index: usize,
    opens_with_message: bool,
) -> Result<(), Status> {
    let mut is_opened = opens_with_message;
    let mut message = if is_opened { mailbox.outgoing().await } else { Some(Bytes::new()) };
    while let Some(payload) = message {
        grpc.ready().await.map_err(|error| Status::unknown(error.to_string()))?;
        let request = with_wire(tonic::Request::new(Payload { payload }), index);
        let answer = grpc.unary(request, PathAndQuery::from_static(UNARY), Codec::default()).await?;
        if is_opened {
            mailbox.deliver(answer.into_inner().payload).await;
        } else {
            mailbox.on_opened();
            is_opened = true;
        }
        message = mailbox.outgoing().await;
    }
    mailbox.on_all_sent();
    Ok(())
}

async fn streaming(grpc: &mut tonic::client::Grpc<Channel>, mailbox: &Mailbox, index: usize) -> Result<(), Status> {
    grpc.ready().await.map_err(|error| Status::unknown(error.to_string()))?;
    let request = with_wire(tonic::Request::new(Sent(mailbox.clone())), index);
    let answers = grpc.streaming(request, PathAndQuery::from_static(STREAMING), Codec::default()).await?;
    mailbox.on_opened();
    deliver(answers.into_inner(), mailbox).await
}

async fn deliver(mut messages: Streaming<Payload>, mailbox: &Mailbox) -> Result<(), Status> {
    while mailbox.room().await {
        match messages.message().await? {
            Some(message) => drop(mailbox.deliver(message.payload).await),
            None => {
                mailbox.on_end();
                break;
            }
        }
    }
    Ok(())
}

fn with_wire<T>(mut request: tonic::Request<T>, index: usize) -> tonic::Request<T> {
    request.metadata_mut().insert(WIRE, MetadataValue::from(index as u64));
    request
}

/// The messages that a wire sends.
struct Sent(Mailbox);

impl Sent {
    fn poll(&self, context: &Context<'_>) -> Poll<Option<Payload>> {
        self.0.poll_outgoing(context.waker()).map(|message| {
            if message.is_none() {
                self.0.on_all_sent();
            }
            message.map(|payload| Payload { payload })
        })
    }
}

impl Stream for Sent {
    type Item = Payload;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Payload>> {
        self.poll(context)
    }
}

/// The answers of a server, which cannot fail.
struct Answers(Sent);

impl Stream for Answers {
    type Item = Result<Payload, Status>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll(context).map(|message| message.map(Ok))
    }
}

type Answering<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// The HTTP/2 connection of a client.
pub(crate) struct Channel(pub(crate) SendRequest<Outgoing>);

impl tower_service::Service<Request<tonic::body::Body>> for Channel {
    type Response = Response<Incoming>;
    type Error = hyper::Error;
    type Future = Answering<Result<Self::Response, hyper::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), hyper::Error>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, request: Request<tonic::body::Body>) -> Self::Future {
        Box::pin(self.0.send_request(request.map(Outgoing::Other)))
    }
}

/// Answers a call.
async fn answer(service: Service, request: Request<Incoming>) -> Result<Response<Outgoing>, String> {
    let index = request.headers().get(WIRE).and_then(|wire| wire.to_str().ok()?.parse().ok());
    let Some(mailbox) = service.mailbox(index) else {
        return Ok(Status::invalid_argument("no such wire").into_http::<tonic::body::Body>().map(Outgoing::Other));
    };
    let mut grpc = tonic::server::Grpc::new(Codec::default());
    let failed = mailbox.clone();
    let response = match request.uri().path() {
        UNARY => grpc.unary(Unary(mailbox), request).await,
        STREAMING => grpc.streaming(Both(mailbox, service.handle.clone()), request).await,
        _ => Status::unimplemented("no such method").into_http(),
    };
    // What is no message, which the library has answered itself.
    if let Some(status) =
        Status::from_header_map(response.headers()).filter(|status| status.code() != tonic::Code::Ok)
    {
        failed.on_gone((status.code() != tonic::Code::Unavailable).then(|| status.to_string()));
    }
    Ok(response.map(Outgoing::Other))
}

struct Unary(Mailbox);

impl tower_service::Service<tonic::Request<Payload>> for Unary {
    type Response = tonic::Response<Payload>;
    type Error = Status;
    type Future = Answering<Result<Self::Response, Status>>;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), Status>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: tonic::Request<Payload>) -> Self::Future {
        let mailbox = self.0.clone();
        Box::pin(async move {
            let message = request.into_inner().payload;
            if message.is_empty() {
                mailbox.on_opened();
                return Ok(tonic::Response::new(Payload::default()));
            }
            mailbox.on_opened();
            mailbox.deliver(message).await;
            let answer = mailbox.outgoing().await.ok_or_else(|| Status::unavailable("the server has ended"))?;
            Ok(tonic::Response::new(Payload { payload: answer }))
        })
    }
}

struct Both(Mailbox, Handle);

impl tower_service::Service<tonic::Request<Streaming<Payload>>> for Both {
    type Response = tonic::Response<Answers>;
    type Error = Status;
    type Future = Answering<Result<Self::Response, Status>>;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), Status>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: tonic::Request<Streaming<Payload>>) -> Self::Future {
        let (mailbox, answers) = (self.0.clone(), Answers(Sent(self.0.clone())));
        mailbox.on_opened();
        self.1.spawn(Box::pin(async move {
            if let Err(status) = deliver(request.into_inner(), &mailbox).await {
                mailbox.on_gone((status.code() != tonic::Code::Unknown).then(|| status.to_string()));
            }
        }));
        Box::pin(async move { Ok(tonic::Response::new(answers)) })
    }
}
