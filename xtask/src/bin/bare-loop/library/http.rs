//! HTTP/1.1 and HTTP/2 with hyper: each message is a POST request with a response, or a part of the body of one request. With
//! `rest`, it is a JSON document with the bytes as base64, or a line with such a document.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper::header::HeaderValue;
use hyper::rt::{Executor, Read, Write};
use hyper::service::service_fn;
use hyper::{Request, Response, server};
use serde::{Deserialize, Serialize};

use super::Outcome;
use super::load::Load;
use super::runtime::Spawn;

fn post<B>(load: Load, body: B) -> Outcome<Request<B>> {
    let request = Request::post("http://hairpin.invalid/0").header("host", "hairpin.invalid");
    Ok(if load.is_json { request.header("content-type", "application/json") } else { request }.body(body)?)
}

#[derive(Serialize, Deserialize)]
struct Document {
    payload: String,
}

/// The document with a message if the load is of documents, else the message.
pub(super) fn encode(load: Load, message: &[u8]) -> Bytes {
    if !load.is_json {
        return Bytes::copy_from_slice(message);
    }
    let mut document =
        serde_json::to_vec(&Document { payload: BASE64_STANDARD.encode(message) }).expect("a string is JSON");
    if load.is_one_way() {
        document.push(b'\n');
    }
    document.into()
}

fn decode(load: Load, received: Bytes) -> Outcome<Bytes> {
    if !load.is_json {
        return Ok(received);
    }
    Ok(BASE64_STANDARD.decode(serde_json::from_slice::<Document>(&received)?.payload)?.into())
}

/// A client with one of hyper's two kinds of connection.
macro_rules! client {
    ($name:ident, $io:ident, $spawn:ident, $handshake:expr) => {
        pub(super) async fn $name<I: Read + Write + Unpin + Send + 'static>(
            $io: I,
            $spawn: Spawn,
            load: Load,
        ) -> Outcome<Vec<u64>> {
            if load.is_one_way() {
                let (mut sender, connection) = $handshake.await?;
                $spawn.execute(connection);
                sender.send_request(post(load, load.messages())?).await?.collect().await?;
                return Ok(Vec::new());
            }
            let (mut sender, connection) = $handshake.await?;
            $spawn.execute(connection);
            let round_trips = load.round_trips(async |message| {
                sender.ready().await?;
                let body = Full::new(encode(load, &message));
                let response = sender.send_request(post(load, body)?).await?;
                Ok(decode(load, response.collect().await?.to_bytes())?[..].try_into()?)
            });
            round_trips.await
        }
    };
}

client!(client1, io, spawn, http1::handshake(io));
client!(client2, io, spawn, http2::Builder::new(spawn).handshake(io));

async fn answer(load: Load, request: Request<Incoming>) -> Outcome<Response<Full<Bytes>>> {
    let mut body = request.into_body();
    if !load.is_one_way() {
        let message = decode(load, body.collect().await?.to_bytes())?;
        let mut response = Response::new(Full::new(encode(load, &message)));
        if load.is_json {
            response.headers_mut().insert("content-type", HeaderValue::from_static("application/json"));
        }
        return Ok(response);
    }
    let mut line = Vec::new();
    while let Some(frame) = body.frame().await {
        let data = frame?.into_data().unwrap_or_default();
        if !load.is_json {
            load.count(data.len());
            continue;
        }
        for part in data.split_inclusive(|byte| *byte == b'\n') {
            line.extend_from_slice(part);
            if line.ends_with(b"\n") {
                load.count(decode(load, std::mem::take(&mut line).into())?.len());
            }
        }
    }
    Ok(Response::new(Full::default()))
}

pub(super) async fn serve<I: Read + Write + Unpin + Send + 'static>(
    is_http2: bool,
    io: I,
    spawn: Spawn,
    load: Load,
) -> Outcome<Vec<u64>> {
    let service = service_fn(move |request| answer(load, request));
    if is_http2 {
        server::conn::http2::Builder::new(spawn).serve_connection(io, service).await?;
    } else {
        server::conn::http1::Builder::new().serve_connection(io, service).await?;
    }
    Ok(Vec::new())
}
