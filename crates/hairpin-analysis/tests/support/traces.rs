//! Made-up traces over the loopback of one machine, with given times: kernel timestamps and captured packets.

use hairpin_model::options::OptionName;
use hairpin_model::trace::{CallKind, End, StampKind};
use hairpin_model::{Call, Capture, Effective, EndTrace, Fact, Packet, RoundTrace, Stamp, fact_names};

use super::granted;

pub const US: u64 = 1_000;
pub const MS: u64 = 1_000_000;
/// Bytes of a fixture request and its answer.
pub const REQUEST: u64 = 200;
pub const REPLY: u64 = 4;
/// Travel time from one end to the other.
pub const TRAVEL: u64 = 2 * US;

/// A trace under construction.
pub struct Wiretap {
    pub trace: RoundTrace,
    pub now: u64,
    /// Bytes written and sent in each direction, by sender.
    written: [u64; 2],
    sent: [u64; 2],
    /// Bytes that arrived, and the arrival time of the last one.
    arrived: [(u64, u64); 2],
    acknowledged: [u64; 2],
    read: [u64; 2],
}

fn place(end: End) -> usize {
    usize::from(end == End::Server)
}

fn other(end: End) -> End {
    if end == End::Client { End::Server } else { End::Client }
}

impl Wiretap {
    /// A connection after its handshake.
    pub fn new() -> Self {
        let trace = RoundTrace {
            request_bytes: REQUEST,
            reply_bytes: REPLY,
            clock_error_ns: 200,
            capture: Capture::Saved { file: "captures/round.pcapng".to_owned(), packets: 0, dropped: 0 },
            ..RoundTrace::default()
        };
        let mut this = Self {
            trace,
            now: 10 * US,
            written: [0; 2],
            sent: [0; 2],
            arrived: [(0, 0); 2],
            acknowledged: [0; 2],
            read: [0; 2],
        };
        this.packet(End::Client, true, (0, 0), None);
        this.packet(End::Server, true, (0, 0), Some(0));
        this.packet(End::Client, false, (0, 0), Some(0));
        this.now = 100 * US;
        this
    }

    fn end(&mut self, end: End) -> &mut EndTrace {
        if end == End::Client { &mut self.trace.client } else { &mut self.trace.server }
    }

    fn packet(&mut self, from: End, syn: bool, (first_byte, end_byte): (u64, u64), ack_byte: Option<u64>) {
        self.trace.packets.push(Packet {
            at_ns: self.now,
            from,
            syn,
            psh: end_byte > first_byte,
            first_byte,
            end_byte,
            ack_byte,
            length_bytes: 66 + end_byte - first_byte,
            ..Packet::default()
        });
    }

    fn stamp(&mut self, end: End, kind: StampKind, at_ns: u64, end_byte: u64) {
        self.end(end).stamps.push(Stamp { kind, at_ns, end_byte });
    }

    /// Advances the time.
    pub fn wait(&mut self, ns: u64) {
        self.now += ns;
    }

    pub fn begins(&mut self) {
        self.trace.exchange_began_ns.push(self.now);
    }

    pub fn ends(&mut self) {
        self.trace.exchange_ended_ns.push(self.now);
    }

    /// A call without bytes, taking 1 us.
    pub fn call(&mut self, end: End, kind: CallKind) {
        let call = Call { kind, began_ns: self.now, ended_ns: self.now + US, first_byte: 0, end_byte: 0 };
        self.end(end).calls.push(call);
        self.now += US;
    }

    /// A write call of 1 us; nothing leaves yet.
    pub fn write(&mut self, end: End, bytes: u64) {
        let first_byte = self.written[place(end)];
        let end_byte = first_byte + bytes;
        let call = Call { kind: CallKind::Write, began_ns: self.now, ended_ns: self.now + US, first_byte, end_byte };
        self.end(end).calls.push(call);
        self.written[place(end)] = end_byte;
        self.now += US;
    }

    /// Sends all unsent bytes in one segment, with an acknowledgment of what has arrived.
    pub fn leaves(&mut self, from: End) {
        let (first, end) = (self.sent[place(from)], self.written[place(from)]);
        self.sent[place(from)] = end;
        let acked = self.arrived[place(other(from))].0;
        self.packet(from, false, (first, end), Some(acked));
        self.stamp(from, StampKind::Scheduled, self.now, end);
        self.stamp(from, StampKind::Driver, self.now, end);
        self.acknowledges(from);
        self.arrived[place(from)] = (end, self.now + TRAVEL);
    }

    pub fn acks(&mut self, from: End) {
        let acked = self.arrived[place(other(from))].0;
        let sent = self.sent[place(from)];
        self.packet(from, false, (sent, sent), Some(acked));
        self.acknowledges(from);
    }

    fn acknowledges(&mut self, from: End) {
        let whose = other(from);
        let (arrived, _) = self.arrived[place(whose)];
        if arrived > self.acknowledged[place(whose)] {
            self.acknowledged[place(whose)] = arrived;
            let at_ns = self.now + TRAVEL;
            self.stamp(whose, StampKind::Acknowledged, at_ns, arrived);
        }
    }

    /// A read call that returns all bytes that have arrived.
    pub fn reads(&mut self, end: End) {
        let from = place(other(end));
        let (first_byte, (end_byte, arrived_ns)) = (self.read[from], self.arrived[from]);
        self.now = self.now.max(arrived_ns) + US;
        let call = Call { kind: CallKind::Read, began_ns: self.now - US, ended_ns: self.now, first_byte, end_byte };
        self.end(end).calls.push(call);
        self.stamp(end, StampKind::Received, arrived_ns, end_byte);
        self.read[from] = end_byte;
    }

    /// The server reads, and acknowledges after `ns`; then all bytes written since by the client leave and are read.
    pub fn acknowledged_after(&mut self, ns: u64) {
        self.reads(End::Server);
        self.wait(ns);
        self.acks(End::Server);
        self.wait(TRAVEL);
        self.reaches_the_server();
    }

    /// The bytes that the client has written leave, and the server reads them.
    pub fn reaches_the_server(&mut self) {
        self.leaves(End::Client);
        self.reads(End::Server);
    }

    /// The server answers after `after` ns and the client reads the answer: the exchange ends.
    pub fn answered(&mut self, after: u64) {
        self.wait(after);
        self.write(End::Server, REPLY);
        self.leaves(End::Server);
        self.reads(End::Client);
        self.ends();
    }

    /// Sets the autocorking counter, which grows by `times` during the trace.
    pub fn autocorked(&mut self, times: u64) {
        let fact = |value: u64| vec![Fact::number(fact_names::AUTOCORKING, value as f64)];
        (self.trace.client.before, self.trace.client.after) = (fact(1_000), fact(1_000 + times));
    }
}

/// The trace without its packets, as recorded without the privilege to capture.
pub fn uncaptured(mut trace: RoundTrace) -> RoundTrace {
    trace.packets.clear();
    trace.capture = Capture::Skipped { reason: "no permission".to_owned() };
    trace
}

pub fn switches(nodelay: &str, cork: &str) -> Vec<Effective> {
    vec![granted(OptionName::Nodelay, nodelay), granted(OptionName::Cork, cork)]
}

fn exchanges(count: u64, mut one: impl FnMut(&mut Wiretap, u64)) -> RoundTrace {
    let mut tap = Wiretap::new();
    for number in 0..count {
        tap.begins();
        one(&mut tap, number);
        tap.wait(US);
    }
    tap.trace
}

/// Windows of four requests in flight, each in one write: the server answers the first, and its other answers are held
/// until the client's acknowledgment after 40 ms.
pub fn answers_held() -> RoundTrace {
    windows(|tap| {
        for _ in 0..4 {
            tap.begins();
            tap.write(End::Client, REQUEST);
            tap.leaves(End::Client);
        }
        tap.reads(End::Server);
        four_answers(tap);
    })
}

/// Like [`answers_held`] with a hundred writes per request: only the first write of a window leaves at once, the
/// others are held until the server's acknowledgment after 40 ms. Then the answers stall as well.
pub fn requests_and_answers_held() -> RoundTrace {
    windows(|tap| {
        for request in 0..4 {
            tap.begins();
            tap.write(End::Client, 2);
            if request == 0 {
                tap.leaves(End::Client);
            }
            (1..100).for_each(|_| tap.write(End::Client, 2));
        }
        tap.acknowledged_after(40 * MS);
        four_answers(tap);
    })
}

fn windows(mut one: impl FnMut(&mut Wiretap)) -> RoundTrace {
    let mut tap = Wiretap::new();
    for _ in 0..3 {
        one(&mut tap);
        tap.wait(US);
    }
    tap.trace
}

fn four_answers(tap: &mut Wiretap) {
    tap.answered(5 * US);
    (1..4).for_each(|_| tap.write(End::Server, REPLY));
    tap.wait(40 * MS);
    tap.acks(End::Client);
    tap.wait(TRAVEL);
    tap.leaves(End::Server);
    tap.reads(End::Client);
    (1..4).for_each(|_| tap.ends());
}

/// 100 writes of 2 bytes with default options: from the second exchange on, the first write leaves, and the others
/// are held until the server's acknowledgment after 40 ms.
pub fn none() -> RoundTrace {
    exchanges(6, |tap, number| {
        tap.write(End::Client, 2);
        tap.leaves(End::Client);
        (1..100).for_each(|_| tap.write(End::Client, 2));
        tap.acknowledged_after(if number == 0 { 300 * US } else { 40 * MS });
        tap.answered(5 * US);
    })
}

/// Like [`none`] with `TCP_NODELAY`: every write leaves at once, and the server acknowledges as it reads.
pub fn nodelay() -> RoundTrace {
    exchanges(6, |tap, _| {
        for _ in 0..100 {
            tap.write(End::Client, 2);
            tap.reaches_the_server();
            tap.acks(End::Server);
        }
        tap.answered(5 * US);
    })
}

/// Like [`none`] with a cork that is released after the last write.
pub fn cork() -> RoundTrace {
    exchanges(6, |tap, _| {
        tap.call(End::Client, CallKind::Cork);
        (0..100).for_each(|_| tap.write(End::Client, 2));
        tap.call(End::Client, CallKind::Uncork);
        tap.reaches_the_server();
        tap.answered(5 * US);
    })
}

/// Like [`none`] with a cork that is never released.
pub fn cork_forgotten() -> RoundTrace {
    exchanges(6, |tap, _| {
        (0..100).for_each(|_| tap.write(End::Client, 2));
        tap.wait(207 * MS);
        tap.reaches_the_server();
        tap.answered(5 * US);
    })
}

/// Like [`none`] with `MSG_MORE`, and a pause between writes.
pub fn more(gap: u64) -> RoundTrace {
    exchanges(6, |tap, _| {
        for write in 0..100 {
            tap.wait(if write == 0 { 0 } else { gap });
            tap.write(End::Client, 2);
        }
        tap.reaches_the_server();
        tap.answered(5 * US);
    })
}

/// One write per request; the server answers after `after` ns, and its kernel acknowledges after 40 ms if earlier.
pub fn one_write(after: u64) -> RoundTrace {
    exchanges(6, |tap, _| {
        tap.write(End::Client, REQUEST);
        tap.reaches_the_server();
        if after > 40 * MS {
            tap.wait(40 * MS);
            tap.acks(End::Server);
            tap.answered(after - 40 * MS);
        } else {
            tap.answered(after);
        }
    })
}

/// Two writes under Nagle's algorithm: an ACK of the first comes at once and releases the second; the answer takes
/// 40 ms.
pub fn acknowledged_in_time() -> RoundTrace {
    exchanges(6, |tap, _| {
        tap.write(End::Client, 4);
        tap.leaves(End::Client);
        tap.wait(10 * US);
        tap.acks(End::Server);
        tap.wait(200 * US);
        tap.write(End::Client, REQUEST - 4);
        tap.reaches_the_server();
        tap.answered(40 * MS);
    })
}

/// Twelve messages of an open loop, one per `interval`: from the second on, the server holds each answer until the
/// next message acknowledges the previous answer. If `quick`, no answer is held.
pub fn messages(interval: u64, quick: bool) -> RoundTrace {
    const MESSAGES: u64 = 12;
    let mut tap = Wiretap::new();
    (tap.trace.request_bytes, tap.trace.reply_bytes) = (REPLY, REPLY);
    let start = tap.now;
    for number in 0..MESSAGES {
        tap.now = start + number * interval;
        tap.begins();
        tap.write(End::Client, REPLY);
        tap.leaves(End::Client);
        if number >= 2 && !quick {
            tap.wait(TRAVEL);
            tap.leaves(End::Server);
            tap.reads(End::Client);
            tap.ends();
        }
        tap.reads(End::Server);
        tap.write(End::Server, REPLY);
        if number == 0 || quick {
            tap.leaves(End::Server);
            tap.reads(End::Client);
            tap.ends();
        }
    }
    tap.trace
}

/// Six exchanges over a link of `way_ns` each way, captured at both ends: a write of 2 bytes leaves at once, a write
/// of 198 bytes when the ACK of the first arrives. The ACK left `held_ns` after the first write arrived.
pub fn two_writes_across(way_ns: u64, held_ns: u64) -> RoundTrace {
    let mut trace = RoundTrace {
        request_bytes: REQUEST,
        reply_bytes: REPLY,
        clock_error_ns: 200,
        capture: Capture::Saved { file: "captures/round.pcapng".to_owned(), packets: 24, dropped: 0 },
        ..RoundTrace::default()
    };
    for number in 0..6 {
        let began_ns = number * (4 * way_ns + held_ns + MS);
        let (request, reply) = (number * REQUEST, number * REPLY);
        let acked_ns = began_ns + way_ns + held_ns;
        let second_ns = acked_ns + way_ns;
        let answered_ns = second_ns + way_ns;
        let packet = |from, at_ns, (first_byte, end_byte), ack_byte| Packet {
            at_ns,
            arrived_ns: Some(at_ns + way_ns),
            from,
            first_byte,
            end_byte,
            ack_byte: Some(ack_byte),
            length_bytes: 66 + end_byte - first_byte,
            ..Packet::default()
        };
        trace.packets.extend([
            packet(End::Client, began_ns + 10, (request, request + 2), reply),
            packet(End::Server, acked_ns + 10, (reply, reply), request + 2),
            packet(End::Client, second_ns + 10, (request + 2, request + REQUEST), reply),
            packet(End::Server, answered_ns + 10, (reply, reply + REPLY), request + REQUEST),
        ]);
        let call = |kind, began_ns, (first_byte, end_byte)| Call {
            kind,
            began_ns,
            ended_ns: began_ns + US,
            first_byte,
            end_byte,
        };
        trace.client.calls.extend([
            call(CallKind::Write, began_ns, (request, request + 2)),
            call(CallKind::Write, began_ns + 2 * US, (request + 2, request + REQUEST)),
            call(CallKind::Read, answered_ns + way_ns + US, (reply, reply + REPLY)),
        ]);
        trace.server.calls.extend([
            call(CallKind::Read, began_ns + way_ns + US, (request, request + 2)),
            call(CallKind::Read, second_ns + way_ns + US, (request + 2, request + REQUEST)),
            call(CallKind::Write, answered_ns, (reply, reply + REPLY)),
        ]);
        trace.exchange_began_ns.push(began_ns);
        trace.exchange_ended_ns.push(answered_ns + way_ns + 2 * US);
    }
    trace
}
