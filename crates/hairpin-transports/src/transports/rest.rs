//! A JSON API over HTTP/1.1 and TCP with hyper. Where messages are answered, each is a POST request whose body is a JSON document
//! (RFC 8259), else each wire is one PUT request whose bodies are lines of documents.

use std::borrow::Cow;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bytes::{Buf, Bytes};
use hairpin_model::card::Library;
use hairpin_model::trace::End;
use hairpin_model::{Card, RoughRoundTrip};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::client::conn::http1::{self as client, SendRequest};
use hyper::header::{CONTENT_TYPE, HOST, HeaderValue};
use hyper::http::Uri;
use hyper::server::conn::http1 as server;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use serde::{Deserialize, Serialize};

use super::http1::HTTP1;
use crate::library::http::{Client, Outgoing, Sender, Service, accept, connect, failure, status, text};
use crate::library::identity::SERVER_NAME;
use crate::library::mailbox::Mailbox;
use crate::library::port::Form;
use crate::wire::{Connection, TransportError};
use crate::wires::description::Connected;
use crate::wires::socket_transport::SocketTransport;

pub(super) const REST: SocketTransport = SocketTransport {
    card: Card {
        name: "rest",
        summary: "JSON documents over HTTP/1.1, TCP and IPv4 (hyper, serde_json)",
        boundaries: true,
        max_message_bytes: MAX_MESSAGE_BYTES as u64,
        rough_round_trip: RoughRoundTrip { blocking_ns: 45_000, spinning_ns: 30_000 },
        library: match HTTP1.card.library {
            Some(library) => Some(Library {
                message: "a POST request and its response, each with a JSON document that has the bytes as base64; in a load \
                          without answers, which a request cannot carry, a line with such a document in a streamed body (JSON \
                          Lines); sent at once",
                defaults: "`nodelay` on; read buffer of 8 KiB at first; base64 takes 4 bytes for 3; serde_json writes and \
                           parses the documents",
                ..library
            }),
            None => None,
        },
        ..HTTP1.card
    },
    layer: Some(open),
    foreign: None,
    ..HTTP1
};

pub(super) const REST_TLS: SocketTransport = REST.over_tls(
    "rest-tls",
    "JSON documents over HTTP/1.1, TLS 1.3, TCP and IPv4 (hyper, serde_json, rustls)",
    b"http/1.1",
);

pub(super) const REST_UNIX: SocketTransport = REST.over_unix(
    "rest-unix",
    "JSON documents over HTTP/1.1 and a Unix domain stream socket (hyper, serde_json)",
    "read buffer of 8 KiB at first; base64 takes 4 bytes for 3; serde_json writes and parses the documents",
);

/// As of the other transports whose messages are parsed as a whole.
const MAX_MESSAGE_BYTES: usize = 4 << 20;
/// Maximum length of a document: four bytes of base64 for three of the payload, and its frame.
const MAX_DOCUMENT_BYTES: usize = MAX_MESSAGE_BYTES / 3 * 4 + 64;

const PATH: &str = "/messages";
const JSON: HeaderValue = HeaderValue::from_static("application/json");
const JSON_LINES: HeaderValue = HeaderValue::from_static("application/jsonl");

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document<'d> {
    /// Base64 (RFC 4648, section 4).
    #[serde(borrow)]
    payload: Cow<'d, str>,
}

fn encode(message: &[u8]) -> Bytes {
    let document = Document { payload: BASE64_STANDARD.encode(message).into() };
    serde_json::to_vec(&document).expect("a map of strings is JSON").into()
}

fn encode_line(message: &[u8]) -> Bytes {
    [&encode(message)[..], b"\n"].concat().into()
}

/// Returns the message of a document, which anyone may have written, or what is wrong with it.
fn decode(document: &[u8]) -> Result<Bytes, String> {
    let parsed: Document<'_> =
        serde_json::from_slice(document).map_err(|error| format!("a message is no JSON document: {error}"))?;
    // serde also takes the fields from an array.
    if !document.trim_ascii_start().starts_with(b"{") {
        return Err("a message is a JSON array, not an object".to_owned());
    }
    let message = BASE64_STANDARD.decode(&parsed.payload[..]);
    let message = message.map_err(|error| format!("the payload of a message is no base64: {error}"))?;
    match message.len() {
        0 => Err("a message has no payload".to_owned()),
        1..=MAX_MESSAGE_BYTES => Ok(message.into()),
        bytes => Err(format!("a message has {bytes} bytes, more than {MAX_MESSAGE_BYTES}")),
    }
}

/// Joins the parts of a body to documents.
#[derive(Default)]
struct Parts(Vec<u8>);

impl Parts {
    fn add(&mut self, part: &[u8]) -> Result<(), String> {
        if self.0.len() + part.len() > MAX_DOCUMENT_BYTES {
            return Err(format!("a document has more than {MAX_DOCUMENT_BYTES} bytes"));
        }
        self.0.extend_from_slice(part);
        Ok(())
    }

    /// Takes bytes from `came`, up to the end of a line. Returns the line, without its end, once it is complete.
    fn line(&mut self, came: &mut impl Buf) -> Result<Option<Vec<u8>>, String> {
        while came.has_remaining() {
            let chunk = came.chunk();
            let end = chunk.iter().position(|byte| *byte == b'\n');
            let bytes = end.unwrap_or(chunk.len());
            self.add(&chunk[..bytes])?;
            came.advance(bytes + usize::from(end.is_some()));
            if end.is_some() {
                return Ok(Some(std::mem::take(&mut self.0)));
            }
        }
        Ok(None)
    }
}

/// Delivers the message of a body with one document.
async fn deliver(mut body: Incoming, to: &Mailbox) -> Result<(), String> {
    let mut document = Parts::default();
    while let Some(frame) = body.frame().await {
        if let Ok(data) = frame.map_err(|error| text(&error))?.into_data() {
            document.add(&data)?;
        }
    }
    to.deliver(to.decode(|| decode(&document.0))?).await;
    Ok(())
}

/// Delivers the messages of a body with lines, until it ends. Fails with why, or with `None` if the other end just closed the
/// connection.
async fn deliver_lines(mut body: Incoming, to: &Mailbox) -> Result<(), Option<String>> {
    let mut parts = Parts::default();
    while to.room().await {
        let Some(frame) = body.frame().await else { break };
        let frame = frame.map_err(|error| failure(&error))?;
        let Ok(mut data) = frame.into_data() else { continue };
        while let Some(line) = parts.line(&mut data)? {
            to.deliver(to.decode(|| decode(&line))?).await;
        }
    }
    to.on_end();
    Ok(())
}

fn open(connected: Connected<'_>) -> Result<Box<dyn Connection>, TransportError> {
    match connected.end {
        End::Client => connect(connected, |io, _| {
            let handshake = client::handshake(io);
            async move { handshake.await.map(|(sender, connection)| (RestSender(sender), connection)) }
        }),
        End::Server => accept::<RestSender, _>(connected, false, |io, _, service| {
            let service = service_fn(move |request| answer(service.clone(), request));
            server::Builder::new().serve_connection(io, service)
        }),
    }
}

struct RestSender(SendRequest<Outgoing>);

impl Sender for RestSender {
    fn another(&self) -> Option<Self> {
        None
    }

    async fn send(&mut self, request: Request<Outgoing>) -> Result<Response<Incoming>, hyper::Error> {
        self.0.send(request).await
    }

    fn form(_has_answers: bool) -> Form {
        Form::Messages
    }

    async fn run(client: Client<Self>, has_answers: bool) -> Result<(), Option<String>> {
        let Client { mut sender, mailbox, opens_with_message, .. } = client;
        if !has_answers {
            let lines = Outgoing::Encoded(mailbox.clone(), encode_line);
            let response = sender.request(Method::PUT, &JSON_LINES, lines).await?;
            mailbox.on_opened();
            return deliver_lines(response.into_body(), &mailbox).await;
        }
        if !opens_with_message {
            sender.request(Method::GET, &JSON, Outgoing::empty()).await?;
        }
        mailbox.on_opened();
        while let Some(message) = mailbox.outgoing().await {
            let document = Outgoing::Whole(Some(mailbox.encode(|| encode(&message))));
            let response = sender.request(Method::POST, &JSON, document).await?;
            deliver(response.into_body(), &mailbox).await?;
        }
        mailbox.on_all_sent();
        Ok(())
    }
}

impl RestSender {
    async fn request(
        &mut self,
        method: Method,
        content: &HeaderValue,
        body: Outgoing,
    ) -> Result<Response<Incoming>, Option<String>> {
        let mut request = Request::new(body);
        *request.method_mut() = method;
        *request.uri_mut() = Uri::from_static(PATH);
        request.headers_mut().insert(HOST, HeaderValue::from_static(SERVER_NAME));
        request.headers_mut().insert(CONTENT_TYPE, content.clone());
        let response = self.send(request).await.map_err(|error| failure(&error))?;
        match response.status() {
            StatusCode::OK | StatusCode::NO_CONTENT => Ok(response),
            refused => Err(Some(format!("the server answered {refused}"))),
        }
    }
}

/// Answers the requests of a server.
async fn answer(service: Service, request: Request<Incoming>) -> Result<Response<Outgoing>, String> {
    let mailbox = service.mailbox(Some(0)).filter(|_| request.uri().path() == PATH);
    let Some(mailbox) = mailbox else { return Ok(status(StatusCode::NOT_FOUND)) };
    match *request.method() {
        Method::GET => {
            mailbox.on_opened();
            Ok(status(StatusCode::NO_CONTENT))
        }
        Method::POST => {
            mailbox.on_opened();
            if let Err(why) = deliver(request.into_body(), &mailbox).await {
                mailbox.on_gone(Some(why));
                return Ok(status(StatusCode::BAD_REQUEST));
            }
            let answer = mailbox.outgoing().await.ok_or("the server has ended")?;
            let document = Outgoing::Whole(Some(mailbox.encode(|| encode(&answer))));
            Ok(with_content(document, JSON))
        }
        Method::PUT => {
            mailbox.on_opened();
            let (body, to) = (request.into_body(), mailbox.clone());
            service.handle.spawn(Box::pin(async move {
                if let Err(why) = deliver_lines(body, &to).await {
                    to.on_gone(why);
                }
            }));
            Ok(with_content(Outgoing::Encoded(mailbox, encode_line), JSON_LINES))
        }
        _ => Ok(status(StatusCode::METHOD_NOT_ALLOWED)),
    }
}

fn with_content(body: Outgoing, content: HeaderValue) -> Response<Outgoing> {
    let mut response = Response::new(body);
    response.headers_mut().insert(CONTENT_TYPE, content);
    response
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_document_has_the_message_as_base64() {
        assert_eq!(&encode(b"hairpin!")[..], br#"{"payload":"aGFpcnBpbiE="}"#);
        assert_eq!(&encode_line(b"hairpin!")[..], b"{\"payload\":\"aGFpcnBpbiE=\"}\n");
        assert_eq!(decode(br#" { "payload" : "aGFp\u0063nBpbiE=" } "#).unwrap(), &b"hairpin!"[..]);
        assert!(encode(&vec![7; MAX_MESSAGE_BYTES]).len() <= MAX_DOCUMENT_BYTES);
    }

    #[test]
    fn invalid_documents_are_refused_with_the_cause() {
        for (document, cause) in [
            (&b""[..], "no JSON document"),
            (b"{", "no JSON document"),
            (b"\xff\xfe", "no JSON document"),
            (br#"{"payload":"aGFp"}x"#, "no JSON document"),
            (br#"{"payload":7}"#, "no JSON document"),
            (br#"{"payload":"aGFp","more":1}"#, "unknown field `more`"),
            (br#"{"payload":"aGFp","payload":"aGFp"}"#, "duplicate field `payload`"),
            (br#"{}"#, "missing field `payload`"),
            (br#" ["aGFp"]"#, "a JSON array, not an object"),
            (br#"[]"#, "no JSON document"),
            (br#"{"payload":"aGF"}"#, "no base64"),
            (br#"{"payload":"a-_p"}"#, "no base64"),
            (br#"{"payload":""}"#, "no payload"),
        ] {
            let error = decode(document).unwrap_err();
            assert!(error.contains(cause), "{}: {error}", String::from_utf8_lossy(document));
        }
        let deep = [vec![b'['; 100_000], vec![b']'; 100_000]].concat();
        assert!(decode(&deep).unwrap_err().contains("no JSON document"));
        let long = encode(&vec![0; MAX_MESSAGE_BYTES + 1]);
        assert!(decode(&long).unwrap_err().contains("4194305 bytes"));
        let mut parts = Parts::default();
        parts.add(&vec![b' '; MAX_DOCUMENT_BYTES]).unwrap();
        let error = parts.line(&mut &b" "[..]).unwrap_err();
        assert!(error.contains("more than"), "{error}");
    }

    /// The lines of bytes that arrive in parts, and whether all fit.
    fn lines<'b>(parts: impl Iterator<Item = &'b [u8]>) -> Vec<Vec<u8>> {
        let mut joined = Parts::default();
        let mut lines = Vec::new();
        for mut part in parts {
            while let Some(line) = joined.line(&mut part).unwrap() {
                lines.push(line);
            }
        }
        lines
    }

    proptest! {
        #[test]
        fn only_objects_are_documents(fields in prop::collection::vec("[a-zA-Z0-9+/]{4}", 0..3), space in "[ \t\r\n]{0,3}") {
            let array = format!("{space}{}", serde_json::to_string(&fields).unwrap());
            prop_assert!(decode(array.as_bytes()).is_err());
            let object = fields.iter().map(|field| format!(r#"{space}{{"payload":"{field}"}}"#));
            prop_assert!(object.into_iter().all(|object| decode(object.as_bytes()).is_ok()));
        }

        #[test]
        fn messages_survive_lines_in_any_parts(
            messages in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..50), 0..6),
            size in 1_usize..100,
        ) {
            let bytes: Vec<u8> = messages.iter().flat_map(|message| encode_line(message)).collect();
            let decoded: Result<Vec<Bytes>, String> =
                lines(bytes.chunks(size)).iter().map(|line| decode(line)).collect();
            prop_assert_eq!(decoded.unwrap(), messages);
        }

        #[test]
        fn any_bytes_are_the_same_lines_in_any_parts(
            bytes in prop::collection::vec(prop_oneof![Just(b'\n'), Just(b'"'), any::<u8>()], 0..200),
            size in 1_usize..20,
        ) {
            let all = lines(bytes.chunks(size));
            let expected: Vec<&[u8]> = bytes.split(|byte| *byte == b'\n').collect();
            prop_assert_eq!(&all[..], &expected[..expected.len() - 1]);
            for line in &all {
                if let Ok(message) = decode(line) {
                    prop_assert_eq!(decode(&encode(&message)).unwrap(), message);
                }
            }
        }
    }
}
