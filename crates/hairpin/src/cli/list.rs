//! `hairpin list`: lists transports, experiments, remedies, findings, options and links, and what can run here.

use clap::ArgMatches;
use hairpin_analysis::findings;
use hairpin_engine::placement::Cpus;
use hairpin_experiments::knob::Knob;
use hairpin_model::options::OptionName;
use hairpin_model::{
    AnsweredBy, Candidate, Card, Catalog, HostCapabilities, ListedExperiment, ListedKnob, ListedOption,
    ListedPlacement, ListedRemedy, ListedTransport, Placement, Reach, Remedy, ValueKind,
};

use super::exit::{Exit, Stopped};
use super::lines::Lines;
use super::{link, output};
use crate::program::Program;

/// Lists everything as a table, as JSON, or as docs/catalog.md (which does not depend on this machine).
pub fn run(program: &Program, matches: &ArgMatches) -> Result<Exit, Stopped> {
    let cpus = Cpus::choose()
        .map_err(|error| Stopped::usage(format!("cannot read what can run here: {error} (hint: /proc is needed)")))?;
    let capabilities = hairpin_engine::engine::capabilities(&cpus);
    let catalog = as_json(program, &capabilities, &cpus);
    output::result(matches.get_flag("json"), &catalog, |_| table(program, &capabilities, &cpus));
    Ok(Exit::Fine)
}

fn table(program: &Program, capabilities: &HostCapabilities, cpus: &Cpus) -> String {
    let mut list = Lines::new();
    list.heading("Transports");
    for Candidate { card, can_run } in &capabilities.candidates {
        let (sign, detail) = match can_run {
            Ok(receipt) => ("runs", receipt.detail.clone()),
            Err(why_not) => ("cannot run", why_not.to_string()),
        };
        list.item(card.name, card.summary);
        list.item("", &format!("{}; {sign} here: {detail}", promises(card)));
    }
    list.heading("Experiments");
    for experiment in program.experiments() {
        list.item(experiment.name, experiment.question);
    }
    list.heading("Remedies (small-writes --remedy NAME,...)");
    for (word, summary) in remedies() {
        list.item(word, summary);
    }
    list.heading("Findings");
    for detector in findings::ALL {
        list.item(detector.card.code, detector.card.what);
    }
    list.heading("Options (--option name=value,...)");
    for option in OptionName::ALL {
        let takers: Vec<&str> =
            takers(*option, capabilities.candidates.iter().map(|candidate| &candidate.card)).collect();
        list.item(option.word(), &format!("{} ({})", option.summary(), values(*option)));
        list.item("", &format!("accepted by {}", takers.join(", ")));
    }
    list.heading("Links (--link NAME, or a line of words: docs/links.md)");
    link::list::add(&mut list);
    list.heading("CPUs");
    list.whole(&format!(
        "{} may be used; --placement NAME,... uses these of client and server:",
        capabilities.cpus.len()
    ));
    for ListedPlacement { name, cpus, why_not } in placements(cpus) {
        let used = match cpus {
            Some([client, server]) if client == server => format!("CPU {client}"),
            Some([client, server]) => format!("CPUs {client} and {server}"),
            None => why_not.map(|why| format!("not here: {why}")).unwrap_or_default(),
        };
        list.item(name.word(), &used);
    }
    list.whole(&match &capabilities.may_keep_cpus_awake {
        Ok(()) => "--cpu-idle shallow can run here: /dev/cpu_dma_latency can be held open".to_owned(),
        Err(why_not) => format!("--cpu-idle shallow cannot run here: {why_not}"),
    });
    list.text
}

/// Each placement on one host that pins the ends, with its CPUs here.
fn placements(cpus: &Cpus) -> Vec<ListedPlacement> {
    let pinned = Placement::ON_ONE_HOST.iter().filter(|placement| **placement != Placement::Unpinned);
    let listed = pinned.map(|name| {
        let pair = match name {
            Placement::CrossCpu if cpus.server.is_none() => Err("this process may use one CPU".to_owned()),
            _ => cpus.pair(*name).map_err(|why_not| why_not.reason),
        };
        ListedPlacement { name: *name, cpus: pair.clone().ok().flatten(), why_not: pair.err() }
    });
    listed.collect()
}

fn remedies() -> impl Iterator<Item = (&'static str, &'static str)> {
    let all = Remedy::PLAIN.iter().copied().chain([Remedy::Batch(1)]);
    Remedy::WORDS.iter().copied().zip(all.map(Remedy::summary))
}

fn promises(card: &Card) -> String {
    let mut words = vec![
        if card.reliable { "reliable" } else { "may lose" },
        if card.ordered { "ordered" } else { "may reorder" },
        if card.boundaries { "messages" } else { "byte stream" },
    ];
    words.push(match card.reach {
        Reach::Process => "within a process",
        Reach::Machine => "within a machine",
        Reach::Network => "between machines",
    });
    words.extend((card.answered_by == AnsweredBy::Kernel).then_some("answered by the kernel"));
    words.join(", ")
}

fn values(option: OptionName) -> String {
    match option.values() {
        ValueKind::Switch => "on or off".to_owned(),
        ValueKind::Word => "a name".to_owned(),
        ValueKind::Number { min, max, unit } => format!("{min} to {max} {unit}").trim_end().to_owned(),
    }
}

fn takers<'c>(option: OptionName, cards: impl Iterator<Item = &'c Card>) -> impl Iterator<Item = &'static str> {
    cards.filter(move |card| card.options.contains(&option)).map(|card| card.name)
}

fn as_json(program: &Program, capabilities: &HostCapabilities, cpus: &Cpus) -> Catalog {
    let transport = |Candidate { card, can_run }: &Candidate| ListedTransport {
        card: card.clone(),
        promises: promises(card),
        can_run: can_run.is_ok(),
        detail: match can_run {
            Ok(receipt) => receipt.detail.clone(),
            Err(why_not) => why_not.reason.clone(),
        },
        hint: can_run.as_ref().err().map(|why_not| why_not.hint.clone()),
    };
    let knob = |knob: &Knob| ListedKnob {
        name: knob.name,
        value_name: knob.value_name,
        help: knob.help,
        default: knob.default,
        many: knob.many,
    };
    let experiments = program.experiments().map(|experiment| ListedExperiment {
        name: experiment.name,
        question: experiment.question,
        knobs: experiment.knobs.iter().filter(|knob| !knob.hidden).map(knob).collect(),
    });
    let options = OptionName::ALL.iter().map(|option| ListedOption {
        name: *option,
        summary: option.summary(),
        values: values(*option),
    });
    Catalog {
        transports: capabilities.candidates.iter().map(transport).collect(),
        experiments: experiments.collect(),
        remedies: remedies().map(|(name, summary)| ListedRemedy { name, summary }).collect(),
        findings: findings::ALL.iter().map(|detector| detector.card).collect(),
        options: options.collect(),
        links: link::list::profiles(),
        placements: placements(cpus),
    }
}
