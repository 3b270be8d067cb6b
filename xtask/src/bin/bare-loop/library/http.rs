//! HTTP/1.1 and HTTP/2 with hyper: each message is a POST request with a response, or a part of the body of one request.

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper::rt::{Executor, Read, Write};
use hyper::service::service_fn;
use hyper::{Request, Response, server};

use super::Outcome;
use super::load::Load;
use super::runtime::Spawn;

fn post<B>(body: B) -> Outcome<Request<B>> {
    Ok(Request::post("http://hairpin.invalid/0").header("host", "hairpin.invalid").body(body)?)
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
                sender.send_request(post(load.messages())?).await?.collect().await?;
                return Ok(Vec::new());
            }
            let (mut sender, connection) = $handshake.await?;
            $spawn.execute(connection);
            let round_trips = load.round_trips(async |message| {
                sender.ready().await?;
                let body = Full::new(Bytes::copy_from_slice(&message));
                let response = sender.send_request(post(body)?).await?;
                Ok(response.collect().await?.to_bytes()[..].try_into()?)
            });
            round_trips.await
        }
    };
}

client!(client1, io, spawn, http1::handshake(io));
client!(client2, io, spawn, http2::Builder::new(spawn).handshake(io));

async fn answer(load: Load, request: Request<Incoming>) -> Result<Response<Full<Bytes>>, hyper::Error> {
    let mut body = request.into_body();
    if load.is_one_way() {
        while let Some(frame) = body.frame().await {
            load.count(frame?.into_data().map_or(0, |data| data.len()));
        }
        return Ok(Response::new(Full::default()));
    }
    Ok(Response::new(Full::new(body.collect().await?.to_bytes())))
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
