//! Options are set and read back at both ends, or refused if unknown. Counters have the right names and values.

use hairpin_model::fact::{self};
use hairpin_model::options::OptionName;
use hairpin_model::{Fact, FactValue, Options, fact_names};
use hairpin_transports::options::is_met;
use hairpin_transports::{Setup, TransportError};

use super::ends::{Checked, LONG, SHORT, Subject, random_bytes, text};
use super::kernel;
use crate::ensure;

/// Returns values to set, if possible other than the defaults.
fn trials(subject: &Subject, name: OptionName) -> Vec<String> {
    let own = subject.card.library.map_or(&[][..], |library| library.congestion_controls);
    if name == OptionName::Congestion && !own.is_empty() {
        return own.iter().map(|control| (*control).to_owned()).collect();
    }
    let values: &[&str] = match name {
        OptionName::Nodelay | OptionName::Cork | OptionName::Quickack | OptionName::Gso | OptionName::Zerocopy => {
            &["on", "off"]
        }
        // Rates below and above 32 bits, and so high that pacing delays nothing.
        OptionName::PacingRate => &["3000000000", "30000000000"],
        OptionName::Sndbuf | OptionName::Rcvbuf => &["16384", "65536"],
        OptionName::BusyPoll => &["50"],
        OptionName::Tos => &["16", "184"],
        OptionName::Dscp => &["46"],
        OptionName::NotsentLowat => &["16384"],
        OptionName::Priority => &["6", "3"],
        OptionName::Congestion => {
            let which = if kernel::may_administer_networks() { "available" } else { "allowed" };
            let names = std::fs::read_to_string(format!("/proc/sys/net/ipv4/tcp_{which}_congestion_control"));
            return names.unwrap_or_default().split_whitespace().map(str::to_owned).collect();
        }
    };
    values.iter().map(|value| (*value).to_owned()).collect()
}

pub(crate) fn word(facts: &[Fact], name: OptionName) -> Option<String> {
    facts.iter().find(|fact| fact.name == format!("option.{name}")).map(|fact| match &fact.value {
        FactValue::Word(word) => word.clone(),
        FactValue::Number(number) => number.to_string(),
    })
}

pub(crate) fn granted(subject: &Subject) -> Checked {
    let options: Vec<OptionName> =
        subject.card.options.iter().copied().filter(|name| kernel::has_option(*name)).collect();
    for name in &options {
        for asked in trials(subject, *name) {
            let setup = Setup { options: Options::default().with(*name, &asked), ..subject.setup(100, LONG) };
            let (client, server) = match subject.client(&setup) {
                // Only a privileged process may increase this value (socket(7)).
                Err(error) if *name == OptionName::BusyPoll && error.contains("not permitted") => continue,
                ends => ends?,
            };
            for facts in
                [Some(client.effective()), server.as_ref().map(|server| server.effective())].into_iter().flatten()
            {
                let effective = word(&facts, *name).ok_or_else(|| format!("{name} is not read back"))?;
                ensure!(is_met(*name, &asked, &effective), "{name}={asked}, but {effective} is effective");
                for other in &options {
                    ensure!(word(&facts, *other).is_some(), "{other} is not read back");
                }
            }
        }
    }
    // Without a request, the kernel's default is in effect, and a setup can request this default as text.
    let (client, _far) = subject.client(&subject.setup(100, LONG))?;
    let facts = client.effective();
    for name in &options {
        let effective = word(&facts, *name).ok_or_else(|| format!("{name} is not read back"))?;
        let default = Options::parse(&format!("{name}={effective}"));
        // The kernel's defaults for these options are above the maximum that can be set.
        let special = matches!(name, OptionName::NotsentLowat | OptionName::PacingRate);
        ensure!(special || default.is_ok(), "{name}={effective} cannot be requested");
        let sets_nodelay = subject.card.library.is_some_and(|library| library.defaults.contains("`nodelay` on"));
        let expected = if sets_nodelay { "on" } else { "off" };
        ensure!(*name != OptionName::Nodelay || effective == expected, "nodelay is {effective} without a request");
    }
    Ok(())
}

pub(crate) fn refused(subject: &Subject) -> Checked {
    for name in OptionName::ALL.iter().filter(|name| !subject.card.options.contains(name)) {
        let options = Options::default().with(*name, &trials(subject, *name)[0]);
        let setup = Setup { options, ..subject.setup(100, SHORT) };
        let mut answers = vec![subject.connect("anywhere", &setup).map(drop)];
        if subject.has_server() {
            answers.push(subject.transport.listen(&setup).map(drop));
        }
        for answer in answers {
            let is_refused = matches!(
                &answer,
                Err(TransportError::NoSuchOption { transport, name: refused })
                    if *transport == subject.card.name && refused == name
            );
            ensure!(is_refused, "{name} is not on the card, but answers {answer:?}");
        }
    }
    if subject.card.options.contains(&OptionName::Congestion) {
        let options = Options::default().with(OptionName::Congestion, "no-such-one");
        let setup = Setup { options, ..subject.setup(100, SHORT) };
        // Multipath TCP refuses an unknown congestion control only after connecting.
        let listener = subject.transport.listen(&setup);
        let answer = listener.and_then(|listener| subject.connect(&listener.address(), &setup).map(drop));
        ensure!(matches!(answer, Err(TransportError::Option { .. })), "no-such-one answers {answer:?}");
    }
    Ok(())
}

pub(crate) fn counters(subject: &Subject) -> Checked {
    let (mut client, mut server) = subject.client(&subject.setup(100, LONG))?;
    for seed in 0..10 {
        subject.exchange(&mut *client, server.as_deref_mut(), &random_bytes(seed, 100))?;
    }
    let facts = client.effective();
    let number = |name: &str| fact::number(&facts, name);
    let names: std::collections::BTreeSet<_> = facts.iter().map(|fact| &fact.name).collect();
    ensure!(names.len() == facts.len(), "a fact is named twice");
    for name in names.iter().filter(|name| !name.starts_with("option.")) {
        ensure!(fact_names::exists(name), "{name} is not in the model's list of facts");
    }
    let is_socket = !subject.card.options.is_empty();
    ensure!(
        !kernel::MEMINFO.exists() || number(fact_names::SOCKET_DROPS) == is_socket.then_some(0.0),
        "socket.drops is {:?}",
        number(fact_names::SOCKET_DROPS)
    );
    ensure!(names.iter().any(|name| *name == fact_names::LOCAL_ADDRESS) == is_socket, "socket.local_address");
    if !subject.card.options.contains(&OptionName::Nodelay) {
        return Ok(());
    }
    let fell_back = facts.iter().find(|fact| fact.name == fact_names::FELL_BACK_TO_TCP).map(|fact| &fact.value);
    let expected = (subject.card.name == "mptcp").then(|| FactValue::Word("no".to_owned()));
    let is_known = expected.is_none() || kernel::MPTCP_INFO.exists();
    ensure!(!is_known || fell_back == expected.as_ref(), "mptcp.fell_back_to_tcp is {fell_back:?}");
    if !kernel::TCP_INFO.exists() {
        return text_address(&facts);
    }
    // Without pacing, the kernel has no pacing rate.
    let expected = fact_names::ALL.concat().into_iter().filter(|name| name.starts_with("tcp_info."));
    for name in expected.filter(|name| *name != fact_names::PACING_RATE) {
        number(name).ok_or_else(|| format!("no {name}"))?;
    }
    let (out, back) = (number(fact_names::DATA_SEGMENTS_OUT), number(fact_names::DATA_SEGMENTS_IN));
    ensure!(
        out == Some(11.0) && back == Some(10.0),
        "a hello and 10 exchanges are {out:?} segments out and {back:?} in"
    );
    ensure!(number(fact_names::CWND_PACKETS).is_some_and(|packets| packets >= 1.0), "no congestion window");
    text_address(&facts)
}

fn text_address(facts: &[Fact]) -> Checked {
    let address = facts.iter().find(|fact| fact.name == fact_names::LOCAL_ADDRESS).map(|fact| &fact.value);
    let Some(FactValue::Word(address)) = address else { return Err("no local address".to_owned()) };
    address.parse::<std::net::SocketAddr>().map(drop).map_err(text)
}
