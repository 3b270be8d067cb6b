//! Unary calls of a gRPC server that is not Hairpin's. A request is empty, or has its bytes in field 1; any answer counts.

use std::sync::Arc;

use bytes::{Buf, BufMut, Bytes};
use hairpin_model::{CodeOf, FailureKind};
use hyper::Uri;
use hyper::client::conn::http2::{Builder, SendRequest};
use hyper::http::uri::PathAndQuery;
use tonic::client::Grpc;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::{Code, Status};

use super::http::{self, Target, Version};
use crate::foreign::{ForeignServer, MAX_ANSWER_BYTES, Refusal, shown};
use crate::library::grpc::Channel;
use crate::library::http::{Client, Outgoing, Sender};
use crate::library::port::Form;
use crate::linux::wires::description::Connected;
use crate::wire::{Connection, TransportError};

pub(crate) fn open(
    connected: Connected<'_>,
    server: &Arc<ForeignServer>,
) -> Result<Box<dyn Connection>, TransportError> {
    let handshake = |io, handle| Builder::new(handle).handshake(io);
    http::connect(connected, server, Version::Two, handshake, |channel, target| Calls { channel, target })
}

/// Calls a method of a foreign server.
struct Calls {
    channel: SendRequest<Outgoing>,
    target: Target,
}

impl Sender for Calls {
    fn another(&self) -> Option<Self> {
        Some(Self { channel: self.channel.clone(), target: self.target.clone() })
    }

    async fn send(
        &mut self,
        request: hyper::Request<Outgoing>,
    ) -> Result<hyper::Response<hyper::body::Incoming>, hyper::Error> {
        self.channel.send(request).await
    }

    fn form(_has_answers: bool) -> Form {
        Form::Messages
    }

    async fn run(client: Client<Self>, _has_answers: bool) -> Result<(), Option<String>> {
        if let Err(refusal) = call_each(&client).await {
            client.mailbox.on_refused(refusal);
        }
        Ok(())
    }
}

async fn call_each(client: &Client<Calls>) -> Result<(), Refusal> {
    let Client { sender: Calls { channel, target }, mailbox, .. } = client;
    mailbox.on_opened();
    let limit = usize::try_from(MAX_ANSWER_BYTES).unwrap_or(usize::MAX);
    let (origin, method) = parts(target.uri())?;
    let mut grpc = Grpc::with_origin(Channel(channel.clone()), origin).max_decoding_message_size(limit);
    while let Some(message) = mailbox.outgoing().await {
        grpc.ready().await.map_err(|error| http::refusal(&error))?;
        let answer = grpc.unary(tonic::Request::new(message.clone()), method.clone(), FieldCodec).await;
        target.server.count_answer(answer.map_err(|status| refusal(&status))?.into_inner());
        if mailbox.room().await {
            mailbox.deliver_or_drop(message);
        }
    }
    mailbox.on_all_sent();
    Ok(())
}

/// The origin of the server, and the method.
fn parts(uri: &Uri) -> Result<(Uri, PathAndQuery), Refusal> {
    let method = uri.path_and_query().filter(|path| path.as_str().matches('/').count() == 2);
    let Some(method) = method else {
        let cause = format!("`{}` is not the path of a method", uri.path());
        return Err(Refusal::new(FailureKind::Unsupported, cause, "use /package.Service/Method"));
    };
    let mut origin = uri.clone().into_parts();
    origin.path_and_query = Some(PathAndQuery::from_static("/"));
    let origin = Uri::from_parts(origin).map_err(|error| Refusal::unexpected(error.to_string(), ""))?;
    Ok((origin, method.clone()))
}

fn refusal(status: &Status) -> Refusal {
    let causes = std::iter::successors(std::error::Error::source(status), |error| error.source());
    if let Some(error) = causes.into_iter().find_map(|cause| cause.downcast_ref::<hyper::Error>()) {
        return http::refusal(error);
    }
    let code = status.code() as i32;
    let cause =
        format!("the server answered with gRPC status {code} ({}): {}", status.code(), shown(status.message()));
    let hint = match status.code() {
        Code::Unimplemented => "use the path /package.Service/Method of a unary method",
        Code::OutOfRange => "choose a shorter answer",
        _ => "see the server's log",
    };
    Refusal::with_code(CodeOf::GrpcStatus, code.unsigned_abs().into(), cause, hint)
}

/// Writes the bytes as field 1 of a message, and nothing for an empty one. Of an answer it takes the length.
#[derive(Clone, Copy, Debug)]
struct FieldCodec;

impl Codec for FieldCodec {
    type Encode = Bytes;
    type Decode = u64;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for FieldCodec {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, payload: Bytes, into: &mut EncodeBuf<'_>) -> Result<(), Status> {
        if !payload.is_empty() {
            prost::encoding::encode_key(1, prost::encoding::WireType::LengthDelimited, into);
            prost::encoding::encode_varint(payload.len() as u64, into);
            into.put(payload);
        }
        Ok(())
    }
}

impl Decoder for FieldCodec {
    type Item = u64;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<u64>, Status> {
        let bytes = from.remaining();
        from.advance(bytes);
        Ok(Some(bytes as u64))
    }
}
