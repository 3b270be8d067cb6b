//! gRPC with tonic over hyper's HTTP/2, without tonic's transport: unary calls, or one streaming call.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_core::Stream;
use hyper::body::Incoming;
use hyper::client::conn::http2::{Builder, SendRequest};
use hyper::http::Uri;
use hyper::http::uri::PathAndQuery;
use hyper::rt::{Executor, Read, Write};
use hyper::server::conn::http2 as server;
use hyper::service::service_fn;
use hyper::{Request, Response};
use tokio::sync::mpsc;
use tonic::body::Body;
use tonic::{Status, Streaming};
use tonic_prost::ProstCodec;

use super::Outcome;
use super::load::{Load, Messages};
use super::runtime::Spawn;

/// `message Payload { bytes payload = 1; }`
#[derive(Clone, PartialEq, prost::Message)]
struct Payload {
    #[prost(bytes = "bytes", tag = "1")]
    payload: Bytes,
}

type Codec = ProstCodec<Payload, Payload>;

const UNARY: PathAndQuery = PathAndQuery::from_static("/hairpin.Echo/Unary");
const STREAMING: PathAndQuery = PathAndQuery::from_static("/hairpin.Echo/Streaming");
const ONE_WAY: PathAndQuery = PathAndQuery::from_static("/hairpin.Echo/OneWay");

struct Channel(SendRequest<Body>);

impl tower_service::Service<Request<Body>> for Channel {
    type Response = Response<Incoming>;
    type Error = hyper::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, hyper::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), hyper::Error>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        Box::pin(self.0.send_request(request))
    }
}

/// The messages of a call whose answers this client waits for.
struct Sent(mpsc::Receiver<Payload>);

impl Stream for Sent {
    type Item = Payload;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Payload>> {
        self.0.poll_recv(context)
    }
}

struct OneWay(Messages);

impl Stream for OneWay {
    type Item = Payload;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Payload>> {
        self.0.poll(context).map(|message| message.map(|payload| Payload { payload }))
    }
}

pub(super) async fn client<I: Read + Write + Unpin + Send + 'static>(
    io: I,
    spawn: Spawn,
    is_unary: bool,
    load: Load,
) -> Outcome<Vec<u64>> {
    let (sender, connection) = Builder::new(spawn).handshake(io).await?;
    spawn.execute(connection);
    let mut grpc = tonic::client::Grpc::with_origin(Channel(sender), Uri::from_static("http://hairpin.invalid"));
    grpc.ready().await?;
    if load.is_one_way() {
        grpc.client_streaming(tonic::Request::new(OneWay(load.messages())), ONE_WAY, Codec::default()).await?;
        return Ok(Vec::new());
    }
    let payload = |message: [u8; 4]| Payload { payload: Bytes::copy_from_slice(&message) };
    if is_unary {
        let round_trips = load.round_trips(async |message| {
            grpc.ready().await?;
            let answer = grpc.unary(tonic::Request::new(payload(message)), UNARY, Codec::default()).await?;
            Ok(answer.into_inner().payload[..].try_into()?)
        });
        return round_trips.await;
    }
    let (sender, receiver) = mpsc::channel(1);
    let answers = grpc.streaming(tonic::Request::new(Sent(receiver)), STREAMING, Codec::default()).await?;
    let mut answers = answers.into_inner();
    let round_trips = load.round_trips(async |message| {
        sender.send(payload(message)).await?;
        let answer = answers.message().await?.ok_or("the server ended the call")?;
        Ok(answer.payload[..].try_into()?)
    });
    round_trips.await
}

pub(super) async fn serve<I: Read + Write + Unpin + Send + 'static>(
    io: I,
    spawn: Spawn,
    load: Load,
) -> Outcome<Vec<u64>> {
    let service = service_fn(move |request: Request<Incoming>| async move {
        let mut grpc = tonic::server::Grpc::new(Codec::default());
        let path = request.uri().path();
        Ok::<_, Status>(if path == UNARY.path() {
            grpc.unary(Echo, request).await
        } else if path == STREAMING.path() {
            grpc.streaming(Echo, request).await
        } else {
            grpc.client_streaming(Count(load), request).await
        })
    });
    server::Builder::new(spawn).serve_connection(io, service).await?;
    Ok(Vec::new())
}

type Answering<T> = Pin<Box<dyn Future<Output = Result<tonic::Response<T>, Status>> + Send>>;

struct Echo;

impl<T: Send + 'static> tower_service::Service<tonic::Request<T>> for Echo {
    type Response = tonic::Response<T>;
    type Error = Status;
    type Future = Answering<T>;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), Status>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: tonic::Request<T>) -> Self::Future {
        Box::pin(async { Ok(tonic::Response::new(request.into_inner())) })
    }
}

struct Count(Load);

impl tower_service::Service<tonic::Request<Streaming<Payload>>> for Count {
    type Response = tonic::Response<Payload>;
    type Error = Status;
    type Future = Answering<Payload>;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), Status>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: tonic::Request<Streaming<Payload>>) -> Self::Future {
        let load = self.0;
        Box::pin(async move {
            let mut messages = request.into_inner();
            while let Some(message) = messages.message().await? {
                load.count(message.payload.len());
            }
            Ok(tonic::Response::new(Payload::default()))
        })
    }
}
