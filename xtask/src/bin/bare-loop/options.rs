//! The command lines of a round trip and of one-way traffic.

use clap::ArgAction::Set;
use clap::Parser;
use clap::builder::RangedU64ValueParser as Ranged;

use crate::extras::Extras;
use crate::wires::ServerHost;

#[derive(Debug, Parser)]
#[command(no_binary_name = true, after_help = "Also: bare-loop rates --help")]
pub(crate) struct Options {
    #[arg(long, value_parser = ["tcp", "udp", "unix-stream", "pipe", "shm"])]
    pub(crate) transport: String,
    /// Block in the receive call, or repeat it (spin)
    #[arg(long = "waiting", action = Set, value_parser = spins, default_value = "block", value_name = "block|spin")]
    pub(crate) spin: bool,
    /// CPUs of client and echo
    #[arg(long, value_parser = cpus, default_value = "0,0", value_name = "CLIENT,ECHO")]
    pub(crate) cpus: (usize, usize),
    #[arg(long, value_parser = Ranged::<usize>::new().range(1..), default_value = "20000")]
    pub(crate) count: usize,
    /// Unmeasured messages before the measured ones
    #[arg(long, default_value = "2000")]
    pub(crate) warmup: usize,
    /// The echo reads the clock after each receive and before each send
    #[arg(long, action = Set, value_parser = is_on, value_name = "on|off")]
    echo_stamps: Option<bool>,
    /// Additional work: dynamic,scaled,rows,verify,alarm,histogram,pages=N,fences=N,calls=N,pause=TICKS
    #[arg(long = "add", value_parser = Extras::parse, default_value = "")]
    pub(crate) extras: Extras,
    #[command(flatten)]
    pub(crate) server: ServerHost,
}

impl Options {
    pub(crate) fn parse(words: &[String]) -> Result<Self, String> {
        let asked = Self::try_parse_from(words).map_err(|error| error.to_string())?;
        if asked.server != ServerHost::default() && !["tcp", "udp"].contains(&asked.transport.as_str()) {
            return Err(format!("{} has no server on another host", asked.transport));
        }
        if asked.spin && asked.cpus.0 == asked.cpus.1 {
            return Err("two spinning ends on one CPU only measure the scheduler's time slice".to_owned());
        }
        Ok(asked)
    }

    /// Whether the echo reads the clock. Like Hairpin, not for spinning shared memory, where this would be too slow.
    pub(crate) fn echo_stamps(&self) -> bool {
        self.echo_stamps.unwrap_or(self.transport != "shm" || !self.spin)
    }
}

#[derive(Debug, Parser)]
#[command(name = "bare-loop rates", no_binary_name = true)]
pub(crate) struct RateOptions {
    #[arg(long, value_parser = ["tcp", "udp", "unix-stream", "pipe"])]
    pub(crate) transport: String,
    /// CPUs of sender and receiver
    #[arg(long, value_parser = cpus, default_value = "0,0", value_name = "SENDER,RECEIVER")]
    pub(crate) cpus: (usize, usize),
    /// Bytes of a message
    #[arg(long, value_parser = Ranged::<usize>::new().range(1..=1 << 20), default_value = "64")]
    pub(crate) size: usize,
    /// Messages per send call: one buffer on a stream and with GSO, else one `sendmmsg`. A receive call receives up to
    /// this number of datagrams; on streams and with GRO, up to `--read-size` bytes
    #[arg(long, value_parser = Ranged::<usize>::new().range(1..=1024), default_value = "1")]
    pub(crate) batch: usize,
    /// The receiver repeats its call instead of blocking; sockets only
    #[arg(long = "waiting", action = Set, value_parser = spins, default_value = "block", value_name = "block|spin")]
    pub(crate) spin: bool,
    /// UDP_SEGMENT at the sender, UDP_GRO at the receiver
    #[arg(long, action = Set, value_parser = is_on, default_value = "off", value_name = "on|off")]
    pub(crate) gso: bool,
    #[arg(long, action = Set, value_parser = is_on, default_value = "off", value_name = "on|off")]
    pub(crate) nodelay: bool,
    /// Both ends read CLOCK_MONOTONIC before and after each message
    #[arg(long, action = Set, value_parser = is_on, default_value = "off", value_name = "on|off")]
    pub(crate) clock: bool,
    /// TCP_CONGESTION of both ends; empty leaves the default
    #[arg(long, default_value = "")]
    pub(crate) congestion: String,
    /// Maximum bytes of a receive call on a stream; 0 for the larger of 64 KiB and a message
    #[arg(long, value_parser = Ranged::<usize>::new().range(..=1 << 24), default_value = "0")]
    pub(crate) read_size: usize,
    #[arg(long, value_parser = Ranged::<u64>::new().range(..=60_000), default_value = "200")]
    pub(crate) warmup_ms: u64,
    #[arg(long, value_parser = Ranged::<u64>::new().range(1..=60_000), default_value = "1000")]
    pub(crate) duration_ms: u64,
}

impl RateOptions {
    pub(crate) fn parse(words: &[String]) -> Result<Self, String> {
        let mut asked = Self::try_parse_from(words).map_err(|error| error.to_string())?;
        if asked.spin && asked.transport == "pipe" {
            return Err("--waiting spin needs a socket, not pipe".to_owned());
        }
        if asked.spin && asked.cpus.0 == asked.cpus.1 {
            return Err("a spinning receiver on the sender's CPU only measures the scheduler's time slice".to_owned());
        }
        if asked.gso && asked.transport != "udp" {
            return Err(format!("--gso is for udp, not for {}", asked.transport));
        }
        if asked.read_size == 0 {
            asked.read_size = asked.size.max(64 << 10);
        }
        Ok(asked)
    }
}

fn spins(value: &str) -> Result<bool, &'static str> {
    match value {
        "spin" => Ok(true),
        "block" => Ok(false),
        _ => Err("must be spin or block"),
    }
}

fn is_on(value: &str) -> Result<bool, &'static str> {
    match value {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err("must be on or off"),
    }
}

pub(crate) fn cpus(value: &str) -> Result<(usize, usize), &'static str> {
    let two = value.split_once(',').and_then(|(one, other)| Some((one.parse().ok()?, other.parse().ok()?)));
    two.ok_or("must be two numbers")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        line.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn a_command_line_is_parsed() {
        let parse = |line| Options::parse(&words(line)).unwrap();
        let asked = parse("--transport tcp --waiting spin --cpus 0,1 --count 7");
        assert_eq!((asked.spin, asked.cpus, asked.count, asked.echo_stamps()), (true, (0, 1), 7, true));
        assert!(!parse("--transport shm --waiting spin --cpus 0,1").echo_stamps());
        assert!(parse("--transport shm --waiting block --cpus 0,1").echo_stamps());
    }

    #[test]
    fn a_command_line_of_rates_is_parsed() {
        let parse = |line| RateOptions::parse(&words(line)).unwrap();
        let asked = parse("--transport udp --cpus 0,1 --batch 32 --gso on --duration-ms 7");
        assert_eq!((asked.cpus, asked.size, asked.batch, asked.gso, asked.duration_ms), ((0, 1), 64, 32, true, 7));
        let bulk = parse("--transport tcp --size 131072 --congestion cubic --nodelay on");
        assert_eq!((bulk.read_size, bulk.congestion.as_str(), bulk.nodelay), (131_072, "cubic", true));
    }

    #[test]
    fn invalid_command_lines_are_refused() {
        for (line, why) in [
            ("--transport tpc", "invalid value 'tpc' for '--transport"),
            ("--transport tcp --cpus 1", "invalid value '1' for '--cpus <CLIENT,ECHO>': must be two numbers"),
            ("--transport tcp --count", "a value is required for '--count"),
            ("--transport pipe --server-address 192.0.2.1", "pipe has no server on another host"),
            ("--transport tcp --server-address ::1", "'::1' for '--server-address <ADDRESS>': invalid IPv4"),
            ("--transport tcp --waiting poll", "'poll' for '--waiting <block|spin>': must be spin or block"),
            ("--transport tcp --waiting spin --cpus 1,1", "one CPU"),
            ("--transport tcp --count 0", "0 is not in 1.."),
        ] {
            let refused = Options::parse(&words(line)).unwrap_err();
            assert!(refused.contains(why), "{line}: {refused}");
        }
    }

    #[test]
    fn invalid_command_lines_of_rates_are_refused() {
        for (line, why) in [
            ("--transport tpc", "invalid value 'tpc' for '--transport"),
            ("--transport tcp --cpus 1", "invalid value '1' for '--cpus <SENDER,RECEIVER>': must be two numbers"),
            ("--transport tcp --size", "a value is required for '--size"),
            ("--transport tcp --nodelay yes", "'yes' for '--nodelay <on|off>': must be on or off"),
            ("--transport tcp --gso on", "--gso is for udp, not for tcp"),
            ("--transport tcp --batch 0", "0 is not in 1..=1024"),
            ("--transport tcp --size 0", "0 is not in 1..=1048576"),
            ("--transport tcp --duration-ms 0", "0 is not in 1..=60000"),
        ] {
            let refused = RateOptions::parse(&words(line)).unwrap_err();
            assert!(refused.contains(why), "{line}: {refused}");
        }
    }
}
