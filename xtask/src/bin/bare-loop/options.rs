//! Command line of a round trip.

use crate::arguments::{cpus, each_pair, number, one_of};
use crate::extras::Extras;
use crate::wires::ServerHost;

/// Printed with every refusal.
pub(crate) const USAGE: &str = "usage: bare-loop --transport tcp|udp|unix-stream|pipe|shm --waiting block|spin \
--cpus CLIENT,ECHO [--count N] [--warmup N] [--echo-stamps on|off] [--timeout-s N] \
[--add dynamic,scaled,rows,verify,alarm,histogram,pages=N,fences=N,calls=N,\
pause=TICKS] [--server-address IPV4] [--server-namespace FILE]\n       bare-loop --clock-costs\n       bare-loop rates --transport \
tcp|udp|unix-stream|pipe --cpus SENDER,RECEIVER [--size N] [--batch N] [--waiting block|spin] [--gso on|off] \
[--nodelay on|off] [--congestion NAME] [--read-size N] [--warmup-ms N] [--duration-ms N]";

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Options {
    /// `tcp`, `udp`, `unix-stream`, `pipe` or `shm`.
    pub(crate) transport: String,
    /// Repeat the receive call instead of sleeping in it.
    pub(crate) spin: bool,
    /// CPUs of client and echo.
    pub(crate) cpus: (usize, usize),
    pub(crate) count: usize,
    /// Unmeasured messages before them.
    pub(crate) warmup: usize,
    /// The echo reads the clock after each receive and before each send.
    pub(crate) echo_stamps: bool,
    /// SO_RCVTIMEO of both ends, in seconds; 0 leaves the kernel's default (no time-out).
    pub(crate) timeout_s: i64,
    /// Additional work.
    pub(crate) extras: Extras,
    /// Where the echo's tcp and udp sockets are.
    pub(crate) server: ServerHost,
}

impl Options {
    /// Parses the command line after the program's name.
    pub(crate) fn parse(arguments: &[String]) -> Result<Self, String> {
        let mut asked = Self {
            transport: String::new(),
            spin: false,
            cpus: (0, 0),
            count: 20_000,
            warmup: 2_000,
            echo_stamps: true,
            timeout_s: 0,
            extras: Extras::default(),
            server: ServerHost::default(),
        };
        let mut stamps = None;
        each_pair(arguments, |name, value| {
            match name {
                "--transport" => value.clone_into(&mut asked.transport),
                "--waiting" => asked.spin = one_of(name, value, "spin", "block")?,
                "--cpus" => asked.cpus = cpus(value)?,
                "--count" => asked.count = number(name, value)?,
                "--warmup" => asked.warmup = number(name, value)?,
                "--echo-stamps" => stamps = Some(one_of(name, value, "on", "off")?),
                "--timeout-s" => asked.timeout_s = number(name, value)?,
                "--add" => asked.extras = Extras::parse(value)?,
                "--server-address" => {
                    asked.server.address =
                        value.parse().map_err(|_| format!("{name} takes an IPv4 address, not `{value}`"))?;
                }
                "--server-namespace" => asked.server.namespace = Some(value.into()),
                _ => return Err(format!("unknown argument `{name}`")),
            }
            Ok(())
        })?;
        if !["tcp", "udp", "unix-stream", "pipe", "shm"].contains(&asked.transport.as_str()) {
            return Err(format!("unknown transport `{}`", asked.transport));
        }
        if asked.server != ServerHost::default() && !["tcp", "udp"].contains(&asked.transport.as_str()) {
            return Err(format!("{} has no server on another host", asked.transport));
        }
        if asked.count == 0 {
            return Err("--count must be at least 1".to_owned());
        }
        if asked.spin && asked.cpus.0 == asked.cpus.1 {
            return Err("two spinning ends on one CPU only measure the scheduler's time slice".to_owned());
        }
        // Two clock reads would be a good part of a round trip through spinning shared memory; Hairpin omits them there
        // too.
        asked.echo_stamps = stamps.unwrap_or(asked.transport != "shm" || !asked.spin);
        Ok(asked)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Options, String> {
        Options::parse(&line.split(' ').map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn a_command_line_is_read() {
        let asked = parse("--transport tcp --waiting spin --cpus 0,1 --count 7").unwrap();
        assert_eq!((asked.spin, asked.cpus, asked.count, asked.echo_stamps), (true, (0, 1), 7, true));
        assert!(!parse("--transport shm --waiting spin --cpus 0,1").unwrap().echo_stamps);
        assert!(parse("--transport shm --waiting block --cpus 0,1").unwrap().echo_stamps);
    }

    #[test]
    fn what_cannot_be_measured_is_refused() {
        for (line, why) in [
            ("--transport tpc", "unknown transport `tpc`"),
            ("--transport tcp --cpus 1", "--cpus takes two numbers, not `1`"),
            ("--transport tcp --count", "`--count` has no value"),
            ("--transport pipe --server-address 192.0.2.1", "pipe has no server on another host"),
            ("--transport tcp --server-address ::1", "--server-address takes an IPv4 address, not `::1`"),
            ("--transport tcp --waiting poll", "--waiting takes spin or block, not `poll`"),
        ] {
            assert_eq!(parse(line).unwrap_err(), why);
        }
        assert!(parse("--transport tcp --waiting spin --cpus 1,1").unwrap_err().contains("one CPU"));
        assert!(parse("--transport tcp --count 0").unwrap_err().contains("at least 1"));
    }
}
