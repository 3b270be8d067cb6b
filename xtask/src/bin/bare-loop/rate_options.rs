//! Command line of one-way traffic.

use crate::arguments::{cpus, each_pair, number, one_of};

/// Maximum datagrams of one call, and segments of one UDP GSO send.
const MAX_BATCH: usize = 1024;

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct RateOptions {
    /// `tcp`, `udp`, `unix-stream` or `pipe`.
    pub(crate) transport: String,
    /// CPUs of sender and receiver.
    pub(crate) cpus: (usize, usize),
    /// Bytes of a message.
    pub(crate) size: usize,
    /// Messages per send call: one buffer on a stream and with GSO, else one `sendmmsg`. A receive call takes as many
    /// datagrams; streams and GRO take what `read_size` holds.
    pub(crate) batch: usize,
    /// The receiver repeats its call instead of sleeping; sockets only.
    pub(crate) spin: bool,
    /// UDP_SEGMENT at the sender, UDP_GRO at the receiver.
    pub(crate) gso: bool,
    pub(crate) nodelay: bool,
    /// TCP_CONGESTION of both ends; empty leaves the default.
    pub(crate) congestion: String,
    /// Maximum bytes of a stream's receive call; datagrams have their own space.
    pub(crate) read_size: usize,
    pub(crate) warmup_ms: u64,
    pub(crate) duration_ms: u64,
}

impl RateOptions {
    /// Parses the command line after the program's name.
    pub(crate) fn parse(arguments: &[String]) -> Result<Self, String> {
        let mut asked = Self {
            transport: String::new(),
            cpus: (0, 0),
            size: 64,
            batch: 1,
            spin: false,
            gso: false,
            nodelay: false,
            congestion: String::new(),
            read_size: 0,
            warmup_ms: 200,
            duration_ms: 1000,
        };
        each_pair(arguments, |name, value| {
            match name {
                "--transport" => value.clone_into(&mut asked.transport),
                "--cpus" => asked.cpus = cpus(value)?,
                "--size" => asked.size = number(name, value)?,
                "--batch" => asked.batch = number(name, value)?,
                "--waiting" => asked.spin = one_of(name, value, "spin", "block")?,
                "--gso" => asked.gso = one_of(name, value, "on", "off")?,
                "--nodelay" => asked.nodelay = one_of(name, value, "on", "off")?,
                "--congestion" => value.clone_into(&mut asked.congestion),
                "--read-size" => asked.read_size = number(name, value)?,
                "--warmup-ms" => asked.warmup_ms = number(name, value)?,
                "--duration-ms" => asked.duration_ms = number(name, value)?,
                _ => return Err(format!("unknown argument `{name}`")),
            }
            Ok(())
        })?;
        asked.checked()
    }

    fn checked(mut self) -> Result<Self, String> {
        if !["tcp", "udp", "unix-stream", "pipe"].contains(&self.transport.as_str()) {
            return Err(format!("unknown transport `{}`", self.transport));
        }
        if !(1..=1 << 20).contains(&self.size) {
            return Err("--size must be from 1 to 1048576".to_owned());
        }
        if !(1..=MAX_BATCH).contains(&self.batch) {
            return Err(format!("--batch must be from 1 to {MAX_BATCH}"));
        }
        if !(1..=60_000).contains(&self.duration_ms) || self.warmup_ms > 60_000 {
            return Err("--duration-ms must be from 1 to 60000, --warmup-ms at most 60000".to_owned());
        }
        if self.read_size > 1 << 24 {
            return Err("--read-size must be at most 16777216".to_owned());
        }
        if self.spin && self.transport == "pipe" {
            return Err("--waiting spin is for sockets, not for pipe".to_owned());
        }
        if self.spin && self.cpus.0 == self.cpus.1 {
            return Err("a spinning receiver on the sender's CPU only measures the scheduler's time slice".to_owned());
        }
        if self.gso && self.transport != "udp" {
            return Err(format!("--gso is for udp, not for {}", self.transport));
        }
        if self.read_size == 0 {
            self.read_size = DEFAULT_READ_SIZE.max(self.size);
        }
        Ok(self)
    }
}

const DEFAULT_READ_SIZE: usize = 64 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<RateOptions, String> {
        RateOptions::parse(&line.split(' ').map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn a_command_line_is_read() {
        let asked = parse("--transport udp --cpus 0,1 --batch 32 --gso on --duration-ms 7").unwrap();
        assert_eq!((asked.cpus, asked.size, asked.batch, asked.gso, asked.duration_ms), ((0, 1), 64, 32, true, 7));
        let bulk = parse("--transport tcp --size 131072 --congestion cubic --nodelay on").unwrap();
        assert_eq!((bulk.read_size, bulk.congestion.as_str(), bulk.nodelay), (131_072, "cubic", true));
    }

    #[test]
    fn what_cannot_be_measured_is_refused() {
        for (line, why) in [
            ("--transport tpc", "unknown transport `tpc`"),
            ("--transport tcp --cpus 1", "--cpus takes two numbers, not `1`"),
            ("--transport tcp --size", "`--size` has no value"),
            ("--transport tcp --nodelay yes", "--nodelay takes on or off, not `yes`"),
            ("--transport tcp --gso on", "--gso is for udp, not for tcp"),
            ("--transport tcp --batch 0", "--batch must be from 1 to 1024"),
            ("--transport tcp --size 0", "--size must be from 1 to 1048576"),
        ] {
            assert_eq!(parse(line).unwrap_err(), why);
        }
        assert!(parse("--transport tcp --duration-ms 0").unwrap_err().contains("from 1 to 60000"));
    }
}
