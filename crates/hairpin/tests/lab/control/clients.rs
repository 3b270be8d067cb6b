//! Foreign clients: each follows a script, then falls silent and leaves control open. The server must end by itself,
//! and say why.

use hairpin_engine::control::{Control, Message, agree};
use hairpin_engine::ends::{EndOrder, opening};
use hairpin_model::flow::Direction;
use hairpin_model::{Extent, Failure, FailureKind, Flow, RoundOrder, trace};
use hairpin_transports::{Cookie, Wire};
use std::time::Duration;

use super::carriers::{CARRIERS, Carrier, End, Limited};
use super::{Server, ends, engine, order, thread_name};

const COOKIE: [u8; 16] = [7; 16];
/// Only a hang takes as long.
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
fn short(direction: Direction, extent: Extent) -> RoundOrder {
    let short = RoundOrder { timeout_ns: 100_000_000, deadline_ns: 200_000_000, extent, ..order(direction) };
    RoundOrder { warm_up: Extent::Count(3), ..short }
}

fn scripts() -> Vec<Script> {
    use Step::{Agrees, Connects, Orders, Says};
    let plain = || order(Direction::RoundTrip);
    let own = Failure::new(FailureKind::Other, "the client: no such CPU", "choose another");
    let several = {
        let mut order = plain();
        let back = Flow { id: "back".into(), ..order.case.primary().clone() };
        order.case.flows.push(back);
        order
    };
    let mut wide = order(Direction::Up);
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
        // It sends nothing more on its wire either.
        script(
            short(Direction::RoundTrip, Extent::Count(5)),
            vec![Agrees, Orders, Connects],
            "the client did not end the round before its deadline",
        ),
        script(
            short(Direction::RoundTrip, Extent::Count(5)),
            vec![Agrees, Orders, Connects, Says(Message::Measure)],
            "the client did not end the round before its deadline",
        ),
        // It never reports that its load begins.
        script(
            short(Direction::Up, Extent::Count(5)),
            vec![Agrees, Orders, Connects],
            "the client: no message for 300 ms",
        ),
        script(
            short(Direction::Down, Extent::Count(5)),
            vec![Agrees, Orders, Connects, Says(Message::Stop)],
            "the client ended the round before its load began",
        ),
        script(
            short(Direction::Up, Extent::Count(5)),
            vec![Agrees, Orders, Connects, Says(Message::Begin)],
            "timed out: the load made no progress for 100 ms",
        ),
        script(
            RoundOrder { deadline_ns: u64::MAX, ..short(Direction::Down, Extent::Count(u64::MAX)) },
            vec![Agrees, Orders, Connects, Says(Message::Begin)],
            "timed out: the load made no progress for 100 ms",
        ),
    ]
}

/// Follows the script. Returns the wire, which stays open, and the server's failure if one arrives before the end.
fn play(script: &Script, control: &mut Limited) -> (Option<Box<dyn Wire>>, Option<Message>) {
    let (mut wire, mut address) = (None, String::new());
    for step in &script.steps {
        match step {
            Step::Agrees => agree(control, LIMIT).expect("both speak this version"),
            Step::Orders => {
                let order = EndOrder { round: script.order.clone(), cookie: COOKIE, reports_progress: false };
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
fn a_server_ends_by_itself_whatever_its_client_says_or_does_not_say() {
    for carrier in CARRIERS {
        for script in scripts() {
            let (mut server, mut control) = served(carrier);
            match last_word(&script, &mut control) {
                Message::Failed(failure) => {
                    // A busy machine may check the client first, whose time-out is the same.
                    let is_load = script.cause == "timed out: the load made no progress for 100 ms";
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
