//! The server of a run, if it is not Hairpin's.

use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use hairpin_engine::engine::Far;
use hairpin_engine::foreign::ForeignTarget;
use hairpin_model::{Binding, Case, Failure, FailureKind, FarHost, Interface, Limits, Refused};
use hairpin_transports::foreign::{Url, check_roots};
use hairpin_transports::transports::find_foreign;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Assumed round-trip time to a server that is not reached over TCP, in ns.
const UNKNOWN_ROUND_TRIP_NS: u64 = 20_000_000;

#[derive(Debug)]
pub struct ForeignHost {
    url: Url,
    roots: Option<PathBuf>,
    /// Names of the transports that can measure it, the default first.
    transports: Vec<&'static str>,
    at: SocketAddr,
    here: Option<SocketAddr>,
    round_trip_ns: u64,
    binding: Binding,
}

impl ForeignHost {
    /// Looks the server up, and connects once, for the round-trip time. `roots` is a file with the authority that signed its
    /// certificate; `None` for those of the system.
    ///
    /// # Errors
    /// The URL is not valid, the file has no certificate, or nothing accepts a connection.
    pub fn connect(url: &str, roots: Option<PathBuf>, binding: Binding) -> Result<Self, Refused> {
        let (url, transports) = find_foreign(url)?;
        roots.as_deref().map_or(Ok(()), check_roots)?;
        let mut addresses = url.addresses()?;
        addresses.retain(|at| binding.address.is_none_or(|own| own.is_ipv4() == at.is_ipv4()));
        let mut this = Self {
            at: *addresses
                .first()
                .ok_or_else(|| Refused::new(format!("{url} has no such address"), "omit --bind"))?,
            url,
            roots,
            transports,
            here: None,
            round_trip_ns: UNKNOWN_ROUND_TRIP_NS,
            binding,
        };
        if !this.url.scheme.is_tcp {
            return Ok(this);
        }
        let mut last = None;
        for at in addresses {
            let began = Instant::now();
            match TcpStream::connect_timeout(&at, CONNECT_TIMEOUT) {
                Ok(connected) => {
                    this.round_trip_ns = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
                    (this.at, this.here) = (at, connected.local_addr().ok());
                    return Ok(this);
                }
                Err(error) => last = Some((at, error)),
            }
        }
        let why = last.map_or_else(String::new, |(at, error)| format!(" at {at}: {error}"));
        Err(Refused::new(
            format!("cannot connect to {}{why}", this.url),
            "is the server running, and is this its port?",
        ))
    }

    pub(crate) fn refuse_experiment(&self, name: &str, repeats: fn(&Case) -> bool) -> Result<(), Refused> {
        if repeats(&Case::ping_pong(self.transports[0])) {
            return Ok(());
        }
        Err(Refused::new(
            format!("{name} needs Hairpin at both ends, and {} is another server", self.url),
            "use round-trip, or run `hairpin serve` there and give its ticket",
        ))
    }

    pub(crate) fn host(&self) -> FarHost {
        FarHost {
            name: self.url.to_string(),
            is_ipv6: self.at.is_ipv6(),
            round_trip_ns: self.round_trip_ns,
            transports: self.transports.iter().map(|name| (*name).to_owned()).collect(),
            congestion_controls: Vec::new(),
            limits: Limits::default(),
            fallback: None,
            is_foreign: true,
        }
    }

    pub(crate) fn interface(&self) -> Option<Interface> {
        hairpin_engine::environment::interface(self.here?.ip())
    }

    pub(crate) fn far(&self) -> Far {
        let foreign = ForeignTarget { url: self.url.to_string(), roots: self.roots.clone() };
        let dial =
            |_: &str| Err(Failure::new(FailureKind::Unsupported, "a foreign server has no control channel", ""));
        Far { at: self.at, credentials: String::new(), dial, binding: self.binding, foreign: Some(foreign) }
    }
}
