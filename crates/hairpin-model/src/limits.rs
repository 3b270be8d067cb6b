//! Limits of a server's tickets for clients on other hosts.
//!
//! The client checks a plan before anything runs, to refuse it early. The server checks each order and counts the bytes
//! moved. Only this count is binding, because the bytes of a closed loop are not known in advance.

use serde::{Deserialize, Serialize};

use crate::card::WhyNot;
use crate::case::Case;
use crate::flow::{Direction, Flow, FlowRole, Load};
use crate::parse;
use crate::periodic::Periodic;
use crate::quantities;
use crate::refused::Refused;
use crate::round::{Extent, RoundOrder};

/// Limits of a ticket; null means no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, crate::JsonSchema)]
#[serde(default)]
pub struct Limits {
    /// Payload of all concurrent flows in the busier direction, in bits per second.
    pub rate_bits_per_s: Option<f64>,
    /// Maximum duration of a round, in ns.
    #[serde(alias = "duration_ns")]
    pub turn_ns: Option<u64>,
    /// Payload of both directions per day (UTC), in bytes.
    pub daily_bytes: Option<u64>,
    /// Concurrent runs.
    pub sessions: Option<u64>,
    /// How long a round waits for its turn while no other round is in progress, in ns.
    pub wait_ns: Option<u64>,
}

/// An exceeded limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExceededLimit {
    /// `rate=100mbit`.
    pub limit: String,
    /// What exceeds the limit: `the load sends 200 Mbit/s`.
    pub by: String,
    /// What would fit.
    pub hint: String,
}

impl ExceededLimit {
    fn new(limit: String, by: impl Into<String>, hint: &str) -> Self {
        Self { limit, by: by.into(), hint: hint.to_owned() }
    }

    /// `limit rate=100mbit: the load sends 200 Mbit/s`.
    pub fn cause(&self) -> String {
        format!("limit {}: {}", self.limit, self.by)
    }
}

impl From<ExceededLimit> for WhyNot {
    fn from(exceeded: ExceededLimit) -> Self {
        Self { reason: format!("the server's {}", exceeded.cause()), hint: exceeded.hint }
    }
}

/// Default of [`Limits::wait_ns`].
const WAIT_NS: u64 = 30_000_000_000;
/// Maximum duration of a round if the server sets no other, in ns.
const TURN_NS: u64 = 10_000_000_000;

impl Limits {
    /// Parses `rate=100mbit,turn=60s,daily-bytes=10GiB,sessions=2,wait=10s`.
    ///
    /// # Errors
    /// An unknown limit, a repeated one, or an invalid value.
    pub fn parse(text: &str) -> Result<Self, Refused> {
        let mut limits = Self::default();
        for part in text.split(',').map(str::trim) {
            let (name, value) = part.split_once('=').ok_or_else(|| {
                Refused::new(format!("`{part}` is not a limit"), "for instance rate=100mbit,turn=60s")
            })?;
            let while_reading = |error: Refused| error.while_reading(name);
            let was_given = match name {
                "rate" => limits.rate_bits_per_s.replace(parse::bits_per_s(value).map_err(while_reading)?).is_some(),
                "turn" => limits.turn_ns.replace(duration_ns(value).map_err(while_reading)?).is_some(),
                "daily-bytes" => limits.daily_bytes.replace(parse::bytes(value).map_err(while_reading)?).is_some(),
                "sessions" => limits.sessions.replace(count(value).map_err(while_reading)?).is_some(),
                "wait" => limits.wait_ns.replace(parse::duration_ns(value).map_err(while_reading)?).is_some(),
                _ => {
                    let known = ["rate", "turn", "daily-bytes", "sessions", "wait"];
                    return Err(crate::names::find("limit", name, &known).unwrap_err().into());
                }
            };
            if was_given {
                return Err(Refused::new(format!("limit `{name}` is given twice"), "give each limit once"));
            }
        }
        Ok(limits)
    }

    /// Each limit as written: `rate=100mbit`.
    pub fn words(&self) -> Vec<String> {
        let words = [
            self.rate_bits_per_s.map(rate_word),
            self.turn_ns.map(|ns| format!("turn={}", quantities::duration_argument(ns))),
            self.daily_bytes.map(|bytes| format!("daily-bytes={}", quantities::exact_bytes(bytes).replace(' ', ""))),
            self.sessions.map(|sessions| format!("sessions={sessions}")),
            self.wait_ns.map(|ns| format!("wait={}", quantities::duration_argument(ns))),
        ];
        words.into_iter().flatten().collect()
    }

    /// How long a round waits for its turn, in ns.
    pub fn waits_ns(&self) -> u64 {
        self.wait_ns.unwrap_or(WAIT_NS)
    }

    /// The limits with the default duration of a round, unless there is another.
    #[must_use]
    pub fn with_turn(self) -> Self {
        Self { turn_ns: self.turn_ns.or(Some(TURN_NS)), ..self }
    }

    /// Maximum payload of a case, in bits per second: the sum over flows of the busier direction. `None` if only the
    /// path limits it.
    pub fn case_bits_per_s(case: &Case, round_trip_ns: u64) -> Option<f64> {
        case.flows.iter().map(|flow| bits_per_s(flow, round_trip_ns)).sum()
    }

    /// Checks the rate of a case over a path with this round-trip time. The client's other loads use
    /// `beside_bits_per_s`.
    ///
    /// # Errors
    /// The case exceeds the rate limit.
    pub fn allow_case(&self, case: &Case, round_trip_ns: u64, beside_bits_per_s: f64) -> Result<(), ExceededLimit> {
        let Some(most) = self.rate_bits_per_s else { return Ok(()) };
        let limit = rate_word(most);
        let Some(own) = Self::case_bits_per_s(case, round_trip_ns) else {
            let is_under_load = case.flows.iter().any(|flow| matches!(flow.role, FlowRole::Probe | FlowRole::Load));
            let hint = if is_under_load { "use --load-rate" } else { "use offered-load, which sends at a --rate" };
            return Err(ExceededLimit::new(limit, "the load sends as fast as it can", hint));
        };
        let sum = own + beside_bits_per_s;
        if sum <= most {
            return Ok(());
        }
        if case.flows.iter().any(|flow| messages_per_s(flow).is_none()) {
            let round_trip = quantities::duration(round_trip_ns as f64);
            let by = format!("with a round trip of {round_trip} the load sends {}", quantities::bit_rate(sum));
            return Err(ExceededLimit::new(limit, by, "use smaller messages, or an experiment that takes a rate"));
        }
        let by = format!("the load sends up to {}", quantities::bit_rate_argument(sum));
        Err(ExceededLimit::new(limit, by, "use a smaller rate"))
    }

    /// Checks a round. `used_bytes` of the daily bytes are already used.
    ///
    /// # Errors
    /// The round exceeds the limit on the duration or on the bytes per day.
    pub fn allow_round(&self, order: &RoundOrder, used_bytes: u64) -> Result<(), ExceededLimit> {
        let lasts_ns = lasts_ns(order);
        if let (Some(most), Some(lasts)) = (self.turn_ns, lasts_ns)
            && lasts > most
        {
            let by = format!("the round lasts {}", quantities::duration(lasts as f64));
            let hint = "use a shorter --duration and --warmup, or a ticket with a longer turn";
            return Err(ExceededLimit::new(self.words_of("turn"), by, hint));
        }
        self.allow_bytes("the round sends", sends_bytes(order), used_bytes)
    }

    /// Checks a plan. `used_bytes` of the daily bytes are already used.
    ///
    /// # Errors
    /// A round exceeds a limit, or all rounds together exceed the bytes per day.
    pub fn allow_plan(&self, rounds: &[RoundOrder], used_bytes: u64) -> Result<(), ExceededLimit> {
        rounds.iter().try_for_each(|order| self.allow_round(order, used_bytes))?;
        self.allow_bytes("the run sends", rounds.iter().map(sends_bytes).fold(0, u64::saturating_add), used_bytes)
    }

    fn allow_bytes(&self, who_sends: &str, sends: u64, used_bytes: u64) -> Result<(), ExceededLimit> {
        let left = match self.daily_bytes {
            None => return Ok(()),
            Some(most) => most.saturating_sub(used_bytes),
        };
        let exceeded = |by: String, hint| ExceededLimit::new(self.words_of("daily-bytes"), by, hint);
        if left == 0 {
            return Err(exceeded("today's bytes are used up".to_owned(), "wait until the next day (UTC)"));
        }
        if sends > left {
            let [left, sends] = [left, sends].map(|bytes| quantities::bytes(bytes as f64));
            let by = format!("{left} are left for today, and {who_sends} about {sends}");
            return Err(exceeded(by, "run less, or wait until the next day (UTC)"));
        }
        Ok(())
    }

    pub fn words_of(&self, name: &str) -> String {
        let starts = |word: &String| word.strip_prefix(name).is_some_and(|rest| rest.starts_with('='));
        self.words().into_iter().find(starts).unwrap_or_else(|| name.to_owned())
    }
}

fn rate_word(bits_per_s: f64) -> String {
    format!("rate={}", quantities::bit_rate_argument(bits_per_s))
}

fn duration_ns(value: &str) -> Result<u64, Refused> {
    let above = |ns: &u64| *ns > 0;
    Some(parse::duration_ns(value)?)
        .filter(above)
        .ok_or_else(|| Refused::new("must be above 0", "for instance turn=60s"))
}

fn count(value: &str) -> Result<u64, Refused> {
    let count = value.parse().ok().filter(|count| (1..=1000).contains(count));
    count.ok_or_else(|| Refused::new(format!("`{value}` is not a number of runs"), "1 to 1000"))
}

/// Maximum payload of a flow in its busier direction, in bits per second; `None` if only the path limits it.
fn bits_per_s(flow: &Flow, round_trip_ns: u64) -> Option<f64> {
    let bytes = flow.load.size_bytes().max(flow.load.reply_size_bytes()) as f64;
    let per_s = match &flow.load {
        Load::Messages { .. } | Load::Stream { .. } => return None,
        Load::Paced { .. } | Load::Offered { .. } => rate_per_s(flow)?,
        Load::Periodic { .. } => messages_per_s(flow)?,
        Load::PingPong { .. } => 1e9 / round_trip_ns.max(1) as f64 * flow.wires() as f64,
        Load::Exchange { exchange, .. } => {
            // An exchange lasts at least as long as the pauses between its writes.
            let pauses = exchange.calls_written().saturating_sub(1) as f64 * exchange.gap_ns as f64;
            let pipeline = exchange.pipeline.max(1) as f64;
            pipeline * 1e9 / (round_trip_ns.max(1) as f64 + pipeline * pauses) * flow.wires() as f64
        }
    };
    Some(per_s * bytes * 8.0)
}

/// Rate at which messages are due, by rate or period; `None` without either.
fn messages_per_s(flow: &Flow) -> Option<f64> {
    let of_loop = |periodic: &Periodic| 1e9 / periodic.period_ns.max(1) as f64 * flow.wires() as f64;
    rate_per_s(flow).or(flow.load.periodic().map(of_loop))
}

/// Rate at which messages are due; `None` without a rate, or if an order contains a rate that is not positive.
fn rate_per_s(flow: &Flow) -> Option<f64> {
    flow.load.rate_per_s().filter(|rate| *rate > 0.0)
}

/// Payload of a flow in both directions, in bytes per second, if its rate is given; else 0.
fn bytes_per_s(flow: &Flow) -> f64 {
    let reply = if flow.direction == Direction::RoundTrip { flow.load.reply_size_bytes() } else { 0 };
    messages_per_s(flow).unwrap_or(0.0) * flow.load.size_bytes().saturating_add(reply) as f64
}

/// Payload in both directions, in bytes, of a round's flows that have a given rate. A round without a rate ends when
/// the day's bytes are used up.
fn sends_bytes(order: &RoundOrder) -> u64 {
    let per_s = order.case.flows.iter().map(bytes_per_s).sum::<f64>();
    lasts_ns(order).map_or(0.0, |lasts| per_s * lasts as f64 / 1e9) as u64
}

/// Duration of a round according to its order, in ns; `None` if the order is for a number of messages.
fn lasts_ns(order: &RoundOrder) -> Option<u64> {
    if let Some(phases) = &order.phases {
        let all = [phases.idle, phases.ramp, phases.loaded, phases.recovering];
        return Some(all.into_iter().fold(0, u64::saturating_add));
    }
    match (order.warm_up, order.extent) {
        (Extent::DurationNs(warm_up), Extent::DurationNs(extent)) => Some(warm_up.saturating_add(extent)),
        (Extent::Count(_), Extent::DurationNs(extent)) => Some(extent),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exchange::{Exchange, Remedy};

    #[test]
    fn printed_limits_equal_the_parsed_text() {
        let text = "rate=100mbit,turn=60s,daily-bytes=10GiB,sessions=2,wait=500ms";
        let limits = Limits::parse(text).unwrap();
        assert_eq!(limits.rate_bits_per_s, Some(1e8));
        assert_eq!(limits.words().join(","), text);
        assert_eq!(limits.words_of("turn"), "turn=60s");
        assert!(Limits::default().words().is_empty());
    }

    #[test]
    fn invalid_limits_are_refused() {
        let why = |text: &str| Limits::parse(text).unwrap_err().to_string();
        assert_eq!(why("rate"), "`rate` is not a limit (hint: for instance rate=100mbit,turn=60s)");
        assert_eq!(why("rat=1mbit"), "unknown limit `rat` (hint: did you mean `rate`?)");
        assert_eq!(
            why("rate=5"),
            "rate: `5` is not a rate (hint: bits per second with a unit, for instance 500kbit or 9.5mbit)"
        );
        assert_eq!(why("sessions=2,sessions=3"), "limit `sessions` is given twice (hint: give each limit once)");
        assert_eq!(why("sessions=0"), "sessions: `0` is not a number of runs (hint: 1 to 1000)");
        assert_eq!(why("turn=0s"), "turn: must be above 0 (hint: for instance turn=60s)");
    }

    fn refused(limits: &str, flow: Flow, round_trip_ns: u64) -> Option<String> {
        let limits = Limits::parse(limits).unwrap();
        limits.allow_case(&Case::of(flow), round_trip_ns, 0.0).err().map(|exceeded| exceeded.cause())
    }

    #[test]
    fn a_rate_is_compared_with_what_the_load_can_send() {
        let offered = |per_s| {
            let (arrivals, pacing) = (crate::arrivals::Arrivals::Fixed, crate::flow::Pacing::SleepSpin);
            let load = Load::Offered { offered_per_s: per_s, size_bytes: 1250, arrivals, pacing };
            Flow::one_way("udp", load, Direction::Up)
        };
        assert_eq!(refused("rate=10mbit", offered(1000.0), 1), None, "1000 x 1250 B x 8 is the limit");
        let nonsense = [0.0, -1000.0, f64::NAN].map(offered);
        for unbounded in nonsense.into_iter().chain([Flow::stream("tcp", 1 << 16, Direction::Down)]) {
            let why = refused("rate=10mbit", unbounded, 1).unwrap();
            assert_eq!(why, "limit rate=10mbit: the load sends as fast as it can");
        }
        let why = refused("rate=10mbit", offered(1001.0), 1).unwrap();
        assert_eq!(why, "limit rate=10mbit: the load sends up to 10.01mbit");
        let ping_pong = Flow::ping_pong("udp");
        let bits = ping_pong.load.size_bytes() as f64 * 8.0;
        assert_eq!(refused("rate=10mbit", ping_pong.clone(), 1_000_000), None, "{} bit/s", bits * 1000.0);
        let why = refused("rate=10mbit", ping_pong, 100).unwrap();
        assert_eq!(why, "limit rate=10mbit: with a round trip of 100 ns the load sends 320 Mbit/s");
        let exchanges = |gap_ns| {
            let writes = "4,60".parse().unwrap();
            Flow::exchanges(
                "tcp",
                Exchange { writes, gap_ns, pipeline: 1000, reply_writes: None, remedy: Remedy::Default },
            )
        };
        assert!(refused("rate=1mbit", exchanges(0), 1_000_000).is_some(), "requests in flight count");
        assert_eq!(refused("rate=1mbit", exchanges(1_000_000), 1_000_000), None, "64 bytes a millisecond");
    }

    #[test]
    fn the_hint_names_a_flag_that_the_experiment_has() {
        let hint = |case: Case| Limits::parse("rate=1kbit").unwrap().allow_case(&case, 1, 0.0).unwrap_err().hint;
        let stream = || Flow::stream("tcp", 1 << 16, Direction::Up);
        assert_eq!(hint(Case::of(stream())), "use offered-load, which sends at a --rate");
        let probe = Case::ping_pong("udp").with(|case| {
            case.primary_mut().role = FlowRole::Probe;
            case.flows.push(stream());
        });
        assert_eq!(hint(probe), "use --load-rate");
        // Each of several concurrent flows is checked.
        assert_eq!(hint(Case::of(stream().in_role(FlowRole::Load))), "use --load-rate");
    }

    /// An order may contain any number, and no sum may overflow to a small one.
    #[test]
    fn the_largest_sizes_exceed_every_limit() {
        let limits = Limits::parse("rate=100gbit,daily-bytes=1GiB").unwrap();
        let load = Load::Paced { rate_per_s: 1e300, size_bytes: u64::MAX, reply_size_bytes: u64::MAX };
        let case = Case::of(Flow { load, connections: u32::MAX, streams: u32::MAX, ..Flow::ping_pong("udp") });
        assert!(limits.allow_case(&case, 0, f64::MAX).is_err());
        let order = RoundOrder {
            warm_up: Extent::DurationNs(u64::MAX),
            extent: Extent::DurationNs(u64::MAX),
            ..RoundOrder::of(case, 1)
        };
        assert!(limits.allow_round(&order, u64::MAX).is_err() && limits.allow_round(&order, 0).is_err());
    }

    fn lasting(seconds: u64, flow: Flow) -> RoundOrder {
        RoundOrder { extent: Extent::DurationNs(seconds * 1_000_000_000), ..RoundOrder::of(Case::of(flow), 1) }
    }

    #[test]
    fn the_sum_of_all_rounds_is_compared_with_the_bytes_left() {
        let limits = Limits::parse("daily-bytes=1MiB").unwrap();
        let flow = Flow::ping_pong("udp");
        let load = flow.load.paced(1_048_576.0 / 4.0 / (2 * flow.load.size_bytes()) as f64);
        let quarter = lasting(1, Flow { load, ..flow });
        let rounds = |count| vec![quarter.clone(); count];
        assert_eq!(limits.allow_plan(&rounds(4), 0), Ok(()));
        let why = |count, used| limits.allow_plan(&rounds(count), used).unwrap_err().cause();
        let left = "limit daily-bytes=1MiB: 1 MiB are left for today, and the run sends about 1.25 MiB";
        assert_eq!(why(5, 0), left);
        assert_eq!(why(1, 1 << 20), "limit daily-bytes=1MiB: today's bytes are used up");
    }

    #[test]
    fn a_round_is_compared_with_the_duration_and_the_bytes_left() {
        let limits = Limits::parse("turn=10s,daily-bytes=1MiB").unwrap();
        let order = |seconds: u64, per_s: f64| {
            let flow = Flow::ping_pong("udp");
            lasting(seconds, Flow { load: flow.load.paced(per_s), ..flow })
        };
        assert_eq!(limits.allow_round(&order(10, 1.0), 0), Ok(()));
        let why = |order: &RoundOrder, used| limits.allow_round(order, used).unwrap_err().cause();
        assert_eq!(why(&order(11, 1.0), 0), "limit turn=10s: the round lasts 11.0 s");
        let bytes = Flow::ping_pong("udp").load.size_bytes() * 2;
        let per_s = 1_048_576.0 / bytes as f64 / 10.0;
        assert_eq!(limits.allow_round(&order(10, per_s), 0), Ok(()));
        assert!(why(&order(10, per_s), 1000).starts_with("limit daily-bytes=1MiB: "));
        assert!(limits.allow_round(&order(1, 1.0), 1 << 20).is_err(), "nothing is left");
    }
}
