//! Misbehaving clients: each follows a script, then sends nothing more and leaves the control channel open. The
//! server must end on its own and report the cause.

use hairpin_engine::control::{Control, Message, agree};
use hairpin_engine::ends::{EndOrder, opening};
use hairpin_model::flow::Direction;
use hairpin_model::{Extent, Failure, FailureKind, Flow, RoundOrder, trace};
use hairpin_transports::{Cookie, Wire};
use std::time::Duration;

use super::carriers::{CARRIERS, Carrier, End, Limited};
use super::{Server, ends, engine, order, thread_name};

const COOKIE: [u8; 16] = [7; 16];
/// Time-out that only a hang reaches.
const LIMIT: Duration = Duration::from_secs(60);

enum Step {
    Agrees,
    /// Sends the order, and receives the address.
    Orders,
    /// Connects, and receives that the server is ready.
    Connects,
    Says(Message),
}

struct Script {
    order: RoundOrder,
    steps: Vec<Step>,
    cause: &'static str,
}

/// A round with a short time-out and deadline.
fn short(direction: Direction, count: u64) -> RoundOrder {
    let [extent, warm_up] = [count, 3].map(Extent::Count);
    RoundOrder { timeout_ns: 100_000_000, deadline_ns: 200_000_000, extent, warm_up, ..order(direction) }
}

const PAST_DEADLINE: &str = "the client did not end the round before its deadline";
const NO_PROGRESS: &str = "timed out: the load made no progress for 100 ms";

fn scripts() -> Vec<Script> {
    use Direction::{Down, RoundTrip, Up};
    use Step::{Agrees, Connects, Orders, Says};
    let plain = || order(RoundTrip);
    let endless = RoundOrder { deadline_ns: u64::MAX, ..short(Down, u64::MAX) };
    let own = Failure::new(FailureKind::Other, "the client: no such CPU", "choose another");
    let several = {
        let mut order = plain();
        let back = Flow { id: "back".into(), ..order.case.primary().clone() };
        order.case.flows.push(back);
        order
    };
    let mut wide = order(Up);
    wide.case.primary_mut().connections = 5000;
    let script = |order, steps, cause| Script { order, steps, cause };
    vec![
        script(plain(), vec![Says(Message::Measure)], "the client: unexpected control message `measure`"),
        script(plain(), vec![Agrees, Says(Message::Stop)], "the client: unexpected control message `stop`"),
        script(several, vec![Agrees, Orders], "the server: the case has 2 flows, and this version carries one"),
        script(wide, vec![Agrees, Orders], "cannot open 5000 streams: 1 to 4096 can be open"),
        script(plain(), vec![Agrees, Orders, Says(Message::Stop)], "the client ended the round before it connected"),
        script(plain(), vec![Agrees, Orders, Says(Message::Failed(own))], "the client: no such CPU"),
        script(plain(), vec![Agrees, Orders, Says(Message::Ready)], "the client: unexpected control message `ready`"),
        script(
            plain(),
            vec![Agrees, Orders, Connects, Says(Message::Ready)],
            "the client: unexpected control message `ready`",
        ),
        // The client sends nothing more on its data connection either.
        script(short(RoundTrip, 5), vec![Agrees, Orders, Connects], PAST_DEADLINE),
        script(short(RoundTrip, 5), vec![Agrees, Orders, Connects, Says(Message::Measure)], PAST_DEADLINE),
        // The client never reports that its load begins.
        script(short(Up, 5), vec![Agrees, Orders, Connects], "the client: no message for 300 ms"),
        script(
            short(Down, 5),
            vec![Agrees, Orders, Connects, Says(Message::Stop)],
            "the client ended the round before its load began",
        ),
        script(short(Up, 5), vec![Agrees, Orders, Connects, Says(Message::Begin)], NO_PROGRESS),
        script(endless, vec![Agrees, Orders, Connects, Says(Message::Begin)], NO_PROGRESS),
    ]
}

/// Follows the script. Returns the wire, which stays open, and the server's failure if one arrives before the end.
fn play(script: &Script, control: &mut Limited) -> (Option<Box<dyn Wire>>, Option<Message>) {
    let (mut wire, mut address) = (None, String::new());
    for step in &script.steps {
        match step {
            Step::Agrees => agree(control, LIMIT).expect("both speak this version"),
            Step::Orders => {
                let order = EndOrder {
                    round: script.order.clone(),
                    cookie: COOKIE,
                    reports_progress: false,
                    datagram_key: None,
                };
                control.send(&Message::Order(Box::new(order))).expect("it listens");
                match control.receive(LIMIT).expect("it answers") {
                    Message::Listening(at) => address = at,
                    other => return (wire, Some(other)),
                }
            }
            Step::Connects => {
                let transport = opening::transport("tcp").expect("it is built");
                let setup = opening::setup(&script.order, trace::End::Client, Cookie(COOKIE), None);
                let connected = transport.connect(&address, &setup).and_then(|mut connection| connection.open());
                wire = Some(connected.expect("it listens"));
                assert_eq!(control.receive(LIMIT).expect("it has accepted"), Message::Ready);
            }
            Step::Says(message) => {
                control.send(message).expect("it listens");
            }
        }
    }
    (wire, None)
}

/// The server's last message.
fn last_word(script: &Script, control: &mut Limited) -> Message {
    let (_wire, early) = play(script, control);
    let mut word = early;
    while !matches!(word, Some(Message::Failed(_) | Message::Report(_))) {
        word = Some(control.receive(LIMIT).expect("it says how it ended"));
    }
    word.expect("it is one of these")
}

#[test]
fn a_server_ends_on_its_own_whatever_its_client_sends() {
    for carrier in CARRIERS {
        for script in scripts() {
            let (mut server, mut control) = served(carrier);
            match last_word(&script, &mut control) {
                Message::Failed(failure) => {
                    // On a busy machine the server may check the client before the load; both have the same time-out.
                    let is_load = script.cause == NO_PROGRESS;
                    let cause = if is_load { failure.cause.replace("the client", "the load") } else { failure.cause };
                    assert_eq!(cause, script.cause, "{}", carrier.name);
                }
                other => panic!("{}: `{}`, not {}", carrier.name, other.name(), script.cause),
            }
            assert!(ends(|| server.has_ended()), "{}: still running after: {}", carrier.name, script.cause);
        }
    }
}

/// A server, and its client's control channel.
fn served(carrier: &Carrier) -> (Server, Limited) {
    let (server, other) = Server::start(carrier, &engine(), &thread_name(), false);
    (server, Limited::new(other, End::Client, false))
}
