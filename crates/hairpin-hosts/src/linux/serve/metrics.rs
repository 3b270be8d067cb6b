//! Counters of a server over HTTP, in the format of OpenMetrics 1.0.

use std::fmt::Write as _;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use hairpin_model::RefusalReason;

use super::shared::Shared;

/// Time for a client to send its request and to receive the answer.
const TIMEOUT: Duration = Duration::from_secs(2);
const MAX_REQUEST_BYTES: usize = 8 << 10;
/// Pause after a failed accept.
const PAUSE: Duration = Duration::from_millis(100);

/// Serves the counters at that address from a thread. Clients are served one after another.
pub(super) fn start(at: SocketAddr, shared: Arc<Shared>) -> io::Result<SocketAddr> {
    let listener = TcpListener::bind(at)?;
    let at = listener.local_addr()?;
    let serve = move || {
        loop {
            match listener.accept() {
                // A client that fails is not reported: it sees its own error.
                Ok((client, _)) => drop(answer(client, &shared)),
                Err(_) => std::thread::sleep(PAUSE),
            }
        }
    };
    std::thread::Builder::new().name("hairpin-metrics".to_owned()).spawn(serve)?;
    Ok(at)
}

fn answer(mut client: TcpStream, shared: &Shared) -> io::Result<()> {
    let until = Instant::now() + TIMEOUT;
    client.set_write_timeout(Some(TIMEOUT))?;
    let mut request = Vec::new();
    let mut part = [0; 1024];
    while !request.windows(4).any(|end| end == b"\r\n\r\n") {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() || request.len() > MAX_REQUEST_BYTES {
            return Err(io::ErrorKind::TimedOut.into());
        }
        client.set_read_timeout(Some(left))?;
        match client.read(&mut part)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            count => request.extend_from_slice(&part[..count]),
        }
    }
    let is_found = request.starts_with(b"GET /metrics ") || request.starts_with(b"GET /metrics?");
    let (status, body) = if is_found { ("200 OK", text(shared)) } else { ("404 Not Found", String::new()) };
    let length = body.len();
    write!(
        client,
        "HTTP/1.1 {status}\r\nContent-Type: application/openmetrics-text; version=1.0.0; charset=utf-8\r\n\
         Content-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    )
}

fn text(shared: &Shared) -> String {
    let (sessions, rounds, bytes) = shared.sessions.totals();
    let mut text = format!(
        "# TYPE hairpin_sessions_open gauge\n# HELP hairpin_sessions_open Sessions in progress.\n\
         hairpin_sessions_open {}\n\
         # TYPE hairpin_sessions counter\n# HELP hairpin_sessions Sessions since the server started.\n\
         hairpin_sessions_total {sessions}\n\
         # TYPE hairpin_rounds counter\n# HELP hairpin_rounds Rounds since the server started.\n\
         hairpin_rounds_total {rounds}\n\
         # TYPE hairpin_bytes counter\n# UNIT hairpin_bytes bytes\n\
         # HELP hairpin_bytes Payload of rounds in both directions.\n\
         hairpin_bytes_total {bytes}\n\
         # TYPE hairpin_refusals counter\n# HELP hairpin_refusals Refused clients by reason.\n",
        shared.sessions.count(),
    );
    for (reason, count) in RefusalReason::ALL.iter().zip(&shared.refused) {
        let _ = writeln!(text, "hairpin_refusals_total{{reason=\"{reason}\"}} {}", count.load(Ordering::Relaxed));
    }
    text + "# EOF\n"
}
