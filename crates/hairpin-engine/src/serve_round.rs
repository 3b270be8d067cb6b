//! The main function of a round's process.

use std::io::{self, BufWriter, Write};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use signal_hook::consts::SIGTERM;

use crate::child;
use crate::engine::{Dial, Engine, Far};
use crate::links::traces::Traces;
use crate::round_process::{Job, READY, write_finished};
use crate::several_flows;
use crate::system::{ending, process};

/// Runs the program as the process of a round: reads its job, runs the round and writes the result. `parent` is the id
/// of the process that started this one; `dial` reaches a server on another host.
pub fn serve_as_process(parent: u32, dial: Dial) -> Result<(), String> {
    if !process::die_with_parent(parent) {
        return Err("the process that started this round has exited".to_owned());
    }
    process::ignore_the_terminal();
    let stop = Arc::new(AtomicBool::new(false));
    let prepared = signal_hook::flag::register(SIGTERM, Arc::clone(&stop)).and_then(|_| ending::bound(&[SIGTERM]));
    prepared.map_err(|error| format!("cannot prepare for signals: {error}"))?;
    let Job { number, order, clock, cpus, started_ns, link_logs, traces, barrier, far } = child::receive_order()?;
    let mut output = BufWriter::new(io::stdout().lock());
    let unread = |error: io::Error| format!("cannot write the result of the round: {error}");
    output.write_all(&[READY]).and_then(|()| output.flush()).map_err(unread)?;
    let program =
        std::env::current_exe().map_err(|error| format!("cannot find the path of this executable: {error}"))?;
    let traces = traces.map_or_else(Traces::default, |(line, named)| Traces::with(line, named));
    let far = far.map(|(at, credentials, binding, foreign)| Far { at, credentials, dial, binding, foreign });
    let engine = Engine { far, clock, cpus, server_program: program, started_ns, stop, traces, link_logs, barrier };
    let has_flow_processes = order.case.flows.len() > 1 || order.case.primary().threads > 1 || order.phases.is_some();
    let finished = if has_flow_processes && engine.barrier.is_none() {
        several_flows::run(&engine, number, &order)
    } else {
        engine.run(number, &order)
    };
    write_finished(&mut output, &finished).and_then(|()| output.flush()).map_err(unread)
}
