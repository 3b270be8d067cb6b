//! Ways to wait whose loops run in a runtime or on threads of the connections: both ends on three connections.

use std::collections::HashSet;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::thread::{self, ThreadId};
use std::time::Duration;

use hairpin_model::Waiting;
use hairpin_transports::{ALL, Cookie, InRuntime, Runtime, Setup, Transport, Wire, WireError, join};

const CONNECTIONS: u32 = 3;
const MESSAGES: u8 = 30;
const SIZE: usize = 100;
/// Only a hang takes longer.
const LONG: Duration = Duration::from_secs(20);
const SHORT: Duration = Duration::from_millis(30);
const WAITINGS: [Waiting; 3] = [Waiting::Async, Waiting::AsyncThreads, Waiting::ThreadPerConnection];

/// Runs a check for every transport and every such way to wait.
fn for_each(check: impl Fn(&dyn Transport, Waiting)) {
    let mut checked = 0;
    for transport in ALL {
        let card = transport.card();
        for waiting in WAITINGS.into_iter().filter(|waiting| card.waitings.contains(waiting)) {
            if card.many_connections {
                check(*transport, waiting);
                checked += 1;
            }
        }
    }
    assert!(checked > 0, "TCP has a thread per connection in every build");
}

/// The client and the server, each with all connections as one wire.
fn pair(transport: &dyn Transport, waiting: Waiting, timeout: Duration) -> [Box<dyn Wire>; 2] {
    let setup = Setup { connections: CONNECTIONS, cookie: Cookie([3; 16]), ..Setup::new(waiting, LONG, SIZE) };
    let setup = Setup { timeout, ..setup };
    let mut listener = transport.listen(&setup).unwrap();
    listener.expect(CONNECTIONS);
    let address = listener.address();
    thread::scope(|scope| {
        let accepting = scope.spawn(|| {
            let accept = |_| listener.accept(&mut || false).unwrap().accept_wire().unwrap();
            join((0..CONNECTIONS).map(accept).collect(), &setup, false).unwrap()
        });
        let connect = |_| transport.connect(&address, &setup).unwrap().open().unwrap();
        let client = join((0..CONNECTIONS).map(connect).collect(), &setup, true).unwrap();
        [client, accepting.join().unwrap()]
    })
}

fn block_on<T: Send>(runtime: &Arc<dyn Runtime>, task: impl Future<Output = T> + Send) -> T {
    let mut result = None;
    runtime.block_on(pin!(async { result = Some(task.await) })).unwrap();
    result.unwrap()
}

async fn receive(wire: &mut dyn InRuntime, into: &mut [u8]) -> Result<(), WireError> {
    let mut len = 0;
    while len < into.len() {
        len += poll_fn(|context| wire.poll_receive(context, &mut into[len..])).await?;
    }
    Ok(())
}

/// Answers messages until the client closes. Returns their number, and the threads that answered.
fn answer_all(wire: &mut dyn Wire) -> (u64, HashSet<ThreadId>) {
    let wire = wire.in_runtime().unwrap();
    block_on(&wire.runtime(), async {
        let (mut buffer, mut count, mut threads) = ([0; SIZE], 0, HashSet::new());
        loop {
            match receive(wire, &mut buffer).await {
                Ok(()) => {}
                Err(WireError::Closed) => return (count, threads),
                Err(error) => panic!("{error}"),
            }
            count += 1;
            threads.insert(thread::current().id());
            wire.send(&buffer).unwrap();
        }
    })
}

#[test]
fn messages_are_answered_over_all_connections_in_turn() {
    for_each(|transport, waiting| {
        let what = format!("{} by {waiting}", transport.card().name);
        let [mut client, mut server] = pair(transport, waiting, LONG);
        let (answered, threads) = thread::scope(|scope| {
            let serving = scope.spawn(|| answer_all(&mut *server));
            let wire = client.in_runtime().unwrap();
            let calls = block_on(&wire.runtime(), async {
                let before = wire.system_calls().unwrap();
                for number in 0..MESSAGES {
                    let mut answer = [0; SIZE];
                    wire.send(&[number; SIZE]).unwrap();
                    receive(wire, &mut answer).await.unwrap();
                    assert_eq!(answer, [number; SIZE], "{what}");
                }
                wire.system_calls().unwrap() - before
            });
            assert!(calls >= 2 * u64::from(MESSAGES), "{what}: a send and a receive each: {calls}");
            // After the loop, the wire works without the runtime.
            client.send(&[200; SIZE]).unwrap();
            let (mut answer, mut len) = ([0; SIZE], 0);
            while len < SIZE {
                len += client.receive(&mut answer[len..]).unwrap();
            }
            assert_eq!(answer, [200; SIZE], "{what}");
            client.farewell();
            drop(client);
            serving.join().unwrap()
        });
        assert_eq!(answered, u64::from(MESSAGES) + 1, "{what}");
        if waiting == Waiting::ThreadPerConnection {
            assert!(threads.len() >= CONNECTIONS as usize, "{what}: {threads:?}");
        }
    });
}

#[test]
fn a_receive_without_a_message_times_out_and_the_next_one_receives() {
    for_each(|transport, waiting| {
        let what = format!("{} by {waiting}", transport.card().name);
        let [mut client, mut server] = pair(transport, waiting, SHORT);
        let wire = client.in_runtime().unwrap();
        let mut answer = [0; SIZE];
        let timed_out = block_on(&wire.runtime(), receive(wire, &mut answer));
        assert!(matches!(timed_out, Err(WireError::TimedOut { .. })), "{what}: {timed_out:?}");
        server.send(&[7; SIZE]).unwrap();
        let received = block_on(&wire.runtime(), async {
            loop {
                match receive(wire, &mut answer).await {
                    Err(WireError::TimedOut { .. }) => {}
                    ended => break ended,
                }
            }
        });
        assert!(received.is_ok() && answer == [7; SIZE], "{what}: {received:?}");
    });
}
