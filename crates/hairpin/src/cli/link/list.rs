//! `hairpin link list`: the built-in profiles, and whether links can run here.

use clap::ArgMatches;
use hairpin_engine::links::known;
use hairpin_link::builtin;
use hairpin_model::{Links, ListedLink, Receipt, Relay, WhyNot};

use super::super::exit::Exit;
use super::super::lines::Lines;
use super::super::output;
use super::request::as_json;

pub(super) fn run(matches: &ArgMatches) -> Exit {
    let can_run = (known::capabilities().relay)();
    if matches.get_flag("json") {
        output::json(&Links { profiles: profiles(), relay: relay(can_run) });
        return Exit::Fine;
    }
    let mut list = Lines::new();
    list.heading("Profiles (--link NAME; `hairpin link show NAME` shows details)");
    add(&mut list);
    list.heading("Relay of the packets");
    list.item(
        "relay",
        &match can_run {
            Ok(receipt) => format!("can run here: {}", receipt.detail),
            Err(why_not) => format!("cannot run here: {why_not}"),
        },
    );
    output::text(&list.text);
    Exit::Fine
}

pub(in crate::cli) fn add(list: &mut Lines) {
    for profile in builtin::ALL.iter() {
        list.item(profile.name, profile.summary);
        if profile.line != profile.name {
            list.item("", profile.line);
        }
    }
}

pub fn profiles() -> Vec<ListedLink> {
    builtin::ALL.iter().map(|builtin| as_json(Some(builtin), &builtin.profile())).collect()
}

fn relay(can_run: Result<Receipt, WhyNot>) -> Relay {
    match can_run {
        Ok(receipt) => Relay { can_run: true, detail: Some(receipt.detail), reason: None, hint: None },
        Err(why_not) => {
            Relay { can_run: false, detail: None, reason: Some(why_not.reason), hint: Some(why_not.hint) }
        }
    }
}
