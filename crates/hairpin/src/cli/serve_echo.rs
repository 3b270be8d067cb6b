//! The echo servers of `hairpin serve`, for clients that are not Hairpin's.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use clap::{Arg, ArgMatches};
use hairpin_model::Prefix;
use hairpin_transports::echo::{EchoProtocol, Rules};

use super::exit::Stopped;
use super::flags::valued;
use super::output;

pub(super) fn flags() -> impl Iterator<Item = Arg> {
    EchoProtocol::ALL.iter().map(|protocol| valued(protocol.flag, "ADDRESS:PORT", protocol.help))
}

/// Starts the echo servers that the flags name. They end with the program, or when `stop` is set. Certificates are saved in `folder`.
pub(super) fn start(
    matches: &ArgMatches,
    allow: &[Prefix],
    folder: &Path,
    stop: &Arc<AtomicBool>,
) -> Result<(), Stopped> {
    for protocol in EchoProtocol::ALL {
        let Some(text) = matches.get_one::<String>(protocol.flag) else { continue };
        let flag = protocol.flag;
        let at: SocketAddr = text.parse().map_err(|_| {
            Stopped::usage(format!(
                "--{flag}: `{text}` is not an address with a port (hint: for instance 127.0.0.1:8080)"
            ))
        })?;
        let allow = allow.to_vec();
        let is_allowed = move |address| allow.is_empty() || allow.iter().any(|prefix| prefix.contains(address));
        let rules = Rules { is_allowed: Arc::new(is_allowed), stop: Arc::clone(stop) };
        let started = protocol.start(at, rules).map_err(|error| {
            Stopped::usage(format!(
                "--{flag}: cannot serve at {at}: {error} (hint: choose another port, or 0 for any)"
            ))
        })?;
        let mut told = format!("{flag} echo at {}, for any client", started.at);
        if let Some(certificate) = started.certificate {
            let file = folder.join(format!("{flag}-echo.pem"));
            std::fs::write(&file, certificate).map_err(|error| {
                Stopped::usage(format!("--{flag}: cannot save the certificate in {}: {error}", file.display()))
            })?;
            told.push_str(&format!("; certificate {}", file.display()));
        }
        output::note(&told);
    }
    Ok(())
}
