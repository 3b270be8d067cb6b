//! The hand-written reference loop for one-way traffic: the same system calls as Hairpin, no crate of the workspace, a
//! sender and a receiver by fork, nothing else. `cargo xtask rates` builds and runs it.
//!
//! Prints one line of JSON: `{"received_per_s", "bytes_per_s", "sent_per_s", "received", "sent", "sender_calls",
//! "receiver_calls"}`. The receiver counts between its first and last measured arrival.
#![expect(unsafe_code, reason = "its system calls are written out, so that nothing of Hairpin's stands between")]
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a program that prints its result")]
#![expect(clippy::inline_always, reason = "the loop must hold no call but the system's")]
#![expect(clippy::cast_precision_loss, reason = "nanoseconds and counts are far below 2^53")]

mod carry;
mod ends;
mod options;
mod pair;

use std::process::ExitCode;

use carry::{Call, Many, Read, Receive, ReceiveWithControl, Send, Write};
use options::Options;
use pair::Count;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let outcome = Options::parse(&arguments)
        .map_err(|why| format!("{why}\n{}", options::USAGE))
        .and_then(|asked| measure(&asked).map_err(|why| format!("cannot measure {}: {why}", asked.transport)));
    match outcome {
        Ok(json) => {
            println!("{json}");
            ExitCode::SUCCESS
        }
        Err(why) => {
            eprintln!("bare-rates: {why}");
            ExitCode::from(2)
        }
    }
}

/// Opens both ends and runs them with the calls of the case.
fn measure(asked: &Options) -> std::io::Result<String> {
    let (sender, receiver) = ends::open(asked)?;
    let run = Run { asked, sender, receiver };
    match asked.transport.as_str() {
        "pipe" => run.with(Write::new(sender, asked), Read::new(receiver, asked.read_size)),
        "udp" if asked.gso => run.with(Send::new(sender, asked), ReceiveWithControl::new(receiver, asked)),
        "udp" if asked.batch > 1 => run.with(Many::new(sender, asked, true), Many::new(receiver, asked, false)),
        "udp" => run.with(Send::new(sender, asked), Receive::new(receiver, asked, asked.size)),
        _ => run.with(Send::new(sender, asked), Receive::new(receiver, asked, asked.read_size)),
    }
}

struct Run<'a> {
    asked: &'a Options,
    sender: i32,
    receiver: i32,
}

impl Run<'_> {
    fn with(&self, send: impl Call, receive: impl Call) -> std::io::Result<String> {
        let sender = (send, || ends::close(self.sender));
        let receiver = (receive, || ends::close(self.receiver));
        let (sent, received) = pair::run(self.asked, sender, receiver)?;
        Ok(figures(self.asked.size, sent, received))
    }
}

/// The figures as JSON.
fn figures(size: usize, sent: Count, received: Count) -> String {
    let messages = |count: Count| count.bytes as f64 / size as f64;
    let seconds = |count: Count| count.elapsed_ns.max(1) as f64 / 1e9;
    format!(
        r#"{{"received_per_s": {:.1}, "bytes_per_s": {:.1}, "sent_per_s": {:.1}, "received": {:.0}, "sent": {:.0}, "sender_calls": {}, "receiver_calls": {}}}"#,
        messages(received) / seconds(received),
        received.bytes as f64 / seconds(received),
        messages(sent) / seconds(sent),
        messages(received),
        messages(sent),
        sent.calls,
        received.calls,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_rate_uses_its_ends_own_time() {
        let sent = Count { bytes: 640, calls: 10, elapsed_ns: 500_000_000 };
        let received = Count { bytes: 320, calls: 2, elapsed_ns: 1_000_000_000 };
        assert_eq!(
            figures(64, sent, received),
            r#"{"received_per_s": 5.0, "bytes_per_s": 320.0, "sent_per_s": 20.0, "received": 5, "sent": 10, "sender_calls": 10, "receiver_calls": 2}"#
        );
    }
}
