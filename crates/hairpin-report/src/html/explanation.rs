//! The page of an explanation: the answer, the connections with their states, the longest exchange packet by packet.

use hairpin_model::quantities::{duration, share};
use hairpin_model::{ExplainedCause, ExplainedConnection, Explanation, TimeInState, TimeSequence};
use minijinja::{Value, context};

use super::template::render_template;
use crate::charts::time_sequence as chart;
use crate::exchange_states::placed;
use crate::explanation::{answer, cost, figures, head, told, unions};
use crate::page_text::nbsp;
use crate::time_sequence::words::{self, Clock};

const PAGE: &str = include_str!("explanation.html");

const MAX_CONNECTIONS: usize = 50;

pub fn render_explanation(explanation: &Explanation) -> String {
    let (first, others) = match answer(explanation) {
        Ok((first, others)) => (Ok(first), others),
        Err(nothing) => (Err(nothing), &[][..]),
    };
    let other = |cause: &ExplainedCause| context! { code => cause.code.word(), told => nbsp(&told(cause)) };
    let view = context! {
        subject => &explanation.subject,
        answer => nbsp(&first.map_or_else(str::to_owned, |cause| format!("{}.", cause.text.sentence))),
        fix => first.ok().map(|cause| nbsp(&format!("{}.", cause.text.fix))),
        cause => first.ok().map(|cause| nbsp(&cost(cause))),
        others => others.iter().map(other).collect::<Value>(),
        connections => explanation.connections.iter().take(MAX_CONNECTIONS).map(connection).collect::<Value>(),
        seen => &explanation.seen,
        not_seen => &explanation.not_seen,
    };
    render_template("explanation.html", PAGE, view)
}

fn connection(of: &ExplainedConnection) -> Value {
    let state = |time: &TimeInState| [placed(time.state, time.who), share(time.share), duration(time.ns)];
    let sequence = |sequence: &TimeSequence| {
        let clock = Clock::of(sequence).on_page();
        context! {
            how_to_read => words::how_to_read(sequence, &clock),
            chart_html => chart::chart(&head(of), sequence),
        }
    };
    context! {
        head => head(of),
        figures => nbsp(&figures(of)),
        states => of.states.iter().map(state).collect::<Vec<_>>(),
        unions => unions(of),
        sequence => of.worst.as_ref().map(sequence),
    }
}
