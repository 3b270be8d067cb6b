//! Goodput over the time of a round, as median and range of the rounds, and below it the CPU time of both ends.

use hairpin_model::{Figure, FlowSummary, Moment, OverTime, quantities};

use super::axis::Axis;
use super::over_time::{Span, legend};
use super::quantity::Quantity;

/// Returns the two charts of a flow; `None` if its rounds have fewer than two moments.
pub(crate) fn chart(flow: &FlowSummary, name: &str) -> Option<String> {
    let over_time = flow.over_time.as_ref()?;
    let span = Span::of_moments(&over_time.moments)?;
    Some(format!("{}{}", goodput(over_time, &span, name)?, cpu(over_time, &span, name).unwrap_or_default()))
}

fn goodput(over_time: &OverTime, span: &Span, name: &str) -> Option<String> {
    let values = |of: fn(Figure) -> Option<f64>| -> Vec<f64> {
        let value = |moment: &Moment| of(moment.goodput_bytes_per_s).filter(|value| value.is_finite()).unwrap_or(0.0);
        over_time.moments.iter().map(value).collect()
    };
    let median = values(|figure| Some(figure.value));
    let (low, high) =
        (values(|figure| figure.low.or(Some(figure.value))), values(|figure| figure.high.or(Some(figure.value))));
    let axis = Axis::from_zero(median.iter().chain(&high).map(|value| value * 1.05))?;
    let title = format!("{name}, in each {}", span.interval());
    let mut frame = span.frame(title, format!("Goodput over the time of a round, {name}"));
    frame.ticks(axis.ticks(3, |value| if value == 0.0 { "0".to_owned() } else { Quantity::Goodput.tick(value) }));
    let from = over_time.measured_from_ns;
    frame.stretched = format!(
        "{}<polygon class=\"surface s0\" points=\"{}\"/><polyline class=\"line s0 d0\" points=\"{}\"/>",
        warm_up(span, from),
        span.band(&low, &high, &axis),
        span.steps(&median, &axis)
    );
    Some(frame.finish())
}

fn cpu(over_time: &OverTime, span: &Span, name: &str) -> Option<String> {
    let shares = |of: fn(&Moment) -> Option<f64>| -> Vec<Option<f64>> {
        over_time.moments.iter().map(|moment| of(moment).filter(|share| share.is_finite())).collect()
    };
    let ends = [("client", 1, shares(|moment| moment.client_cpu)), ("server", 2, shares(|moment| moment.server_cpu))];
    if ends.iter().all(|(_, _, shares)| shares.iter().flatten().count() < 2) {
        return None;
    }
    let axis = Axis::between(0.0, 1.05)?;
    let title = "CPU time of each end".to_owned();
    let mut frame = span.frame(title, format!("CPU time used by each end over the time of a round, {name}"));
    frame.height = 56.0;
    frame.across = [0.0, 0.5, 1.0].map(|share| (axis.place(share), quantities::share(share))).to_vec();
    let lines = ends.iter().flat_map(|(_, look, shares)| {
        let dash = look - 1;
        span.pieces(shares, &axis)
            .into_iter()
            .map(move |corners| format!("<polyline class=\"line s{look} d{dash}\" points=\"{corners}\"/>"))
    });
    frame.stretched = warm_up(span, over_time.measured_from_ns) + &lines.collect::<String>();
    Some(frame.finish())
}

pub(crate) fn key() -> String {
    let entries = [
        ("key-line s0", "goodput, median of rounds"),
        ("key-surface s0", "range of rounds"),
        ("key-warm-up", "warm-up, not in the figures"),
        ("key-line s1", "CPU time of the client"),
        ("key-line broken s2", "CPU time of the server"),
    ];
    legend(entries)
}

fn warm_up(span: &Span, from_ns: u64) -> String {
    match span.place(from_ns) {
        0.0 => String::new(),
        place => format!("<rect class=\"warm-up\" x=\"0\" y=\"0\" width=\"{:.1}\" height=\"1000\"/>", place * 1000.0),
    }
}
