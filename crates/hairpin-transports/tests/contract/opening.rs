//! Bad addresses, setups that the card does not support, and occupied addresses.

use hairpin_model::Waiting;
use hairpin_transports::{Setup, TransportError};

use super::ends::{Checked, LONG, SHORT, Subject, accept, text};
use crate::ensure;

pub(crate) fn bad_addresses(subject: &Subject) -> Checked {
    let setup = subject.setup(100, SHORT);
    let own = std::process::id();
    let own = [format!("{own}:-1:-1"), format!("{own}:1000000:1000001"), format!("{own}:1000000")];
    let addresses = "|nonsense|@|@no such name|memory:|memory:0|1:2:3:4|999999999:1:2|999999999:1|0:0:0|127.0.0.1:0|\
                     [::1]:0|256.1.1.1|127.0.0.1:99999|::1|\0|@\u{1f}äöü";
    for address in addresses.split('|').chain(own.iter().map(String::as_str)) {
        match subject.connect(address, &setup) {
            Ok(_) => return Err(format!("`{address}` is accepted as an address")),
            Err(error) => ensure!(error.to_string().contains("(hint: "), "`{address}`: no hint in {error}"),
        }
    }
    Ok(())
}

pub(crate) fn refused_setups(subject: &Subject) -> Checked {
    let good = subject.setup(100, SHORT);
    let mut bad = vec![
        Setup { largest_message: 0, ..good.clone() },
        Setup { largest_message: subject.card.max_message_bytes as usize + 1, ..good.clone() },
    ];
    for waiting in Waiting::ALL.iter().filter(|waiting| !subject.card.waitings.contains(waiting)) {
        bad.push(Setup { waiting: *waiting, ..good.clone() });
    }
    for setup in bad {
        let listened = subject.transport.listen(&setup).map(drop);
        let connected = subject.connect("anywhere", &setup).map(drop);
        for answer in [listened, connected] {
            ensure!(
                matches!(&answer, Err(TransportError::Impossible(why)) if !why.hint.is_empty()),
                "{setup:?} answers {answer:?}"
            );
        }
    }
    Ok(())
}

/// A second client at the same address does not disturb the first.
pub(crate) fn one_client(subject: &Subject) -> Checked {
    let setup = subject.setup(100, LONG);
    let listener = subject.transport.listen(&setup).map_err(text)?;
    let address = listener.address();
    std::thread::scope(|scope| {
        let accepted = scope.spawn(move || accept(listener).map_err(text));
        let mut client = subject.connect(&address, &setup).map_err(text)?;
        let mut server = accepted.join().map_err(|_| "accept panicked")??;
        let second = subject.connect(&address, &subject.setup(100, SHORT));
        ensure!(second.is_err(), "a second client can connect");
        subject.exchange(&mut *client, Some(&mut *server), b"undisturbed")
    })
}

pub(crate) fn occupied_port(subject: &Subject) -> Checked {
    let setup = subject.setup(100, SHORT);
    let listener = subject.transport.listen(&setup).map_err(text)?;
    let Some(port) = listener
        .address()
        .rsplit_once("1:")
        .or(listener.address().rsplit_once("]:"))
        .and_then(|(host, port)| (host.contains('.') || host.contains('[')).then(|| port.parse().ok())?)
    else {
        return Ok(());
    };
    match subject.transport.listen(&Setup { port, ..setup }) {
        Ok(second) => Err(format!("two listeners share port {port}: {}", second.address())),
        Err(error) => {
            let told = error.to_string();
            ensure!(told.contains(&port.to_string()) && told.contains("occupied"), "an unclear error: {told}");
            Ok(())
        }
    }
}
