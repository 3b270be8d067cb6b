//! Models distance: delays every packet by a constant or random time.
//!
//! `delay=D±J` draws a delay for each packet independently, around D:
//!
//! - `uniform` (the default): equally likely from D - J to D + J.
//! - `normal`: mean D and standard deviation J; a draw below 0 counts as 0.
//! - `pareto`: mean D, standard deviation J and a long tail: at least D - 0.577 J, of shape 3 (see
//!   [`crate::generator::Draws::pareto`]).
//!
//! With `order=kept` (the default) no packet overtakes another: a packet with an earlier draw leaves with the
//! previous packet, as behind a queue elsewhere on the path. Packets closer than J thus take more than D on average.
//! With `order=free` each packet has its own delay, as in netem's `delay D J` (net/sched/sch_netem.c; tc-netem(8)).

use hairpin_model::Refused;

pub use crate::figures::{Delay, Order, Shape};

use crate::figures::PathProfile;
use crate::generator::{Draws, Generator};
use crate::held::{Due, Holding};
use crate::packet::InFlight;
use crate::quantity::{shown_time, time_ns};
use crate::stage::{Card, Contradiction, Stage};
use crate::word::{Requirement, Word};

pub const CARD: Card = Card {
    name: "delay",
    models: "the distance, and how much it varies",
    words: &[DELAY, JITTER, ORDER],
    reasons: &[],
    check,
    figures,
    build: |path, site| {
        let distance = Distance { delay: path.delay, generator: site.generator("delay"), latest_due_ns: 0 };
        (path.delay.base_ns > 0).then(|| Box::new(Holding::new(distance)) as Box<dyn Stage>)
    },
};

const DELAY: Word = Word {
    name: "delay",
    example: "delay=23.5ms±1ms",
    says: "the delay of each direction and, after ± (or +-), its variation",
    read,
    shown: |path| (path.delay.base_ns > 0).then(|| shown(&path.delay)),
    about: None,
};

const JITTER: Word = Word {
    name: "jitter",
    example: "jitter=normal",
    says: "kind of variation: uniform (± is the maximum), normal or pareto (± is the standard deviation)",
    read: |path, value| Ok(value.parse().map(|shape| path.delay.shape = shape)?),
    shown: |path| (path.delay.shape != Shape::Uniform).then(|| path.delay.shape.to_string()),
    about: Some(Requirement { clear: |path| path.delay.shape = Shape::Uniform, ..VARIES }),
};

const ORDER: Word = Word {
    name: "order",
    example: "order=free",
    says: "kept: packets never overtake each other; free: each packet has its own delay",
    read: |path, value| Ok(value.parse().map(|order| path.delay.order = order)?),
    shown: |path| (path.delay.order != Order::Kept).then(|| path.delay.order.to_string()),
    about: Some(Requirement { clear: |path| path.delay.order = Order::Kept, ..VARIES }),
};

const VARIES: Requirement = Requirement {
    needs: "a delay that varies",
    example: "delay=20ms±2ms",
    there: |path| path.delay.spread_ns > 0,
    clear: |_| (),
};

fn read(path: &mut PathProfile, value: &str) -> Result<(), Refused> {
    let (base, spread) = value.split_once('±').or_else(|| value.split_once("+-")).unwrap_or((value, "0ms"));
    path.delay.base_ns = time_ns(base)?;
    path.delay.spread_ns = time_ns(spread)?;
    Ok(())
}

fn shown(delay: &Delay) -> String {
    match delay.spread_ns {
        0 => shown_time(delay.base_ns),
        spread_ns => format!("{}±{}", shown_time(delay.base_ns), shown_time(spread_ns)),
    }
}

fn figures(path: &PathProfile, _mtu_bytes: u32) -> Option<String> {
    let delay = &path.delay;
    (delay.base_ns > 0).then(|| match (delay.spread_ns, delay.order) {
        (0, _) => shown(delay),
        (_, Order::Kept) => format!("{} {}, in order", shown(delay), delay.shape),
        (_, Order::Free) => format!("{} {}, packets may overtake", shown(delay), delay.shape),
    })
}

fn check(path: &PathProfile, _mtu_bytes: u32) -> Option<Contradiction> {
    let Delay { base_ns, spread_ns, .. } = path.delay;
    (spread_ns > base_ns).then(|| Contradiction {
        word: "delay",
        problem: format!("a delay of {} cannot vary by {}", shown_time(base_ns), shown_time(spread_ns)),
        hint: format!("at most {0}±{0}, as no packet can arrive before it is sent", shown_time(base_ns)),
    })
}

struct Distance {
    delay: Delay,
    generator: Generator,
    latest_due_ns: u64,
}

impl Delay {
    fn draw_ns(&self, draws: &mut Draws) -> u64 {
        match self.shape {
            Shape::Uniform => {
                let width = self.spread_ns.saturating_mul(2).saturating_add(1);
                (self.base_ns - self.spread_ns).saturating_add(draws.below(width))
            }
            Shape::Normal => self.base_ns.saturating_add_signed(scaled(self.spread_ns, draws.normal())),
            Shape::Pareto => self.base_ns.saturating_add_signed(scaled(self.spread_ns, draws.pareto())),
        }
    }

    fn least_ns(&self) -> u64 {
        match (self.spread_ns, self.shape) {
            (0, _) => self.base_ns,
            (_, Shape::Normal) => 0,
            (spread_ns, _) => self.base_ns - spread_ns,
        }
    }
}

/// Converts a deviation to whole ns.
// The cast saturates.
fn scaled(spread_ns: u64, deviation: f64) -> i64 {
    (spread_ns as f64 * deviation).round() as i64
}

impl Due for Distance {
    fn due_ns(&mut self, packet: &InFlight, now_ns: u64) -> Option<u64> {
        let delay_ns = match self.delay.spread_ns {
            0 => self.delay.base_ns,
            _ => self.delay.draw_ns(&mut self.generator.draws_for(packet)),
        };
        let mut due_ns = now_ns.saturating_add(delay_ns);
        if self.delay.order == Order::Kept {
            due_ns = due_ns.max(self.latest_due_ns);
            self.latest_due_ns = due_ns;
        }
        Some(due_ns)
    }

    fn least_ns(&self) -> u64 {
        self.delay.least_ns()
    }
}

#[cfg(test)]
mod tests {
    use crate::tests::fixture::{departures, distance, fates, packets, stream};

    /// The delays in ms of packets that are far apart.
    fn delays_ms(line: &str, count: u64) -> Vec<f64> {
        let gap_ns = 10_000_000_000;
        let left = departures(&fates(line, &stream(count, gap_ns)));
        left.iter().map(|(number, due_ns)| (due_ns - number * gap_ns) as f64 / 1e6).collect()
    }

    #[test]
    fn a_constant_delay_is_exact() {
        let arrivals = packets([(0, 40), (0, 1500), (1, 40), (999_999_999, 1)]);
        let expected = [(0, 23_500_000), (1, 23_500_000), (2, 23_500_001), (3, 1_023_499_999)];
        assert_eq!(departures(&fates("delay=23.5ms", &arrivals)), expected);
    }

    #[test]
    fn uniform_jitter_is_uniform_between_its_bounds() {
        let delays = delays_ms("delay=20ms±5ms", 20_000);
        assert!(delays.iter().all(|delay| (15.0..=25.0).contains(delay)));
        assert!(distance(delays, |x| (x - 15.0) / 10.0) < 1.95);
    }

    #[test]
    fn normal_jitter_has_the_normal_distribution() {
        /// The normal distribution, integrated from the mean by Simpson's rule.
        fn normal(x: f64) -> f64 {
            let density = |t: f64| (-t * t / 2.0).exp() / std::f64::consts::TAU.sqrt();
            let step = x / 400.0;
            let weighted = |k: u32| {
                let weight = if k == 0 || k == 400 {
                    1.0
                } else if k % 2 == 1 {
                    4.0
                } else {
                    2.0
                };
                weight * density(f64::from(k) * step)
            };
            0.5 + (0..=400).map(weighted).sum::<f64>() * step / 3.0
        }
        let delays = delays_ms("delay=20ms±2ms jitter=normal", 20_000);
        assert!(distance(delays, |x| normal((x - 20.0) / 2.0)) < 1.95);
    }

    #[test]
    fn pareto_jitter_has_its_distribution_and_minimum() {
        let delays = delays_ms("delay=20ms±2ms jitter=pareto", 20_000);
        assert!(delays.iter().all(|delay| *delay >= 20.0 - 0.578 * 2.0));
        assert!(distance(delays, |x| 1.0 - ((x - 20.0) / 2.0 * 0.75_f64.sqrt() + 1.5).powi(-3)) < 1.95);
    }

    #[test]
    fn a_normal_draw_below_zero_counts_as_zero() {
        let delays = delays_ms("delay=2ms±2ms jitter=normal", 2000);
        assert!(delays.contains(&0.0));
    }

    /// A packet leaves at the latest of the times drawn for it and for all previous packets.
    #[test]
    fn with_order_kept_a_packet_leaves_no_earlier_than_the_previous_packets() {
        for jitter in ["uniform", "normal", "pareto"] {
            let arrivals = stream(5000, 200_000);
            let mut own = departures(&fates(&format!("delay=5ms±2ms jitter={jitter} order=free"), &arrivals));
            assert!(!own.is_sorted(), "packets overtake each other");
            own.sort_unstable();
            let mut latest = 0;
            let expected: Vec<(u64, u64)> = own
                .into_iter()
                .map(|(number, due_ns)| {
                    latest = due_ns.max(latest);
                    (number, latest)
                })
                .collect();
            assert_eq!(departures(&fates(&format!("delay=5ms±2ms jitter={jitter}"), &arrivals)), expected);
        }
    }
}
