//! The command line's words for links.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Arg, Command, value_parser};

use crate::cli::flags::{switch, valued};

const PROFILES: &str = "A profile is the name of a built-in one (hairpin link list), words such as `delay=23.5ms±1ms \
     up=5.5mbit queue=64KiB loss=0.1%`, or a name and words that change it. docs/links.md has every word.";

const RUN: &str = "In the environment of both commands: HAIRPIN_NEAR and HAIRPIN_FAR (IPv4 addresses), \
     HAIRPIN_NEAR_IPV6 and HAIRPIN_FAR_IPV6 (where the MTU is 1280 bytes or more), HAIRPIN_LINK (the profile).\n\n\
     The far command is started first. Hairpin waits until something listens in the far namespace, for at most 2 s. It is \
     ended when COMMAND has ended, and so is whatever still runs in the link's namespaces. What has moved itself into \
     another network namespace (unshare -n) lives on.\n\n\
     Without root both commands run in a user namespace, in which they seem to be root.\n\n\
     Exit codes: that of COMMAND; 128 and the signal's number when a signal ended it; 2 bad usage or input; 125 the link \
     or the far command failed, or --json could not be printed; 126 COMMAND cannot be run; 127 there is no such command.\n\n\
     Examples:\n  \
     hairpin link run --link home-uplink -- sh -c 'ping -c 3 $HAIRPIN_FAR'\n  \
     hairpin link run --link lte --far 'iperf3 -s' -- sh -c 'iperf3 -c $HAIRPIN_FAR'\n  \
     hairpin link run --link 'plc loss=1%' --far 'python3 -m http.server' \\\n    \
     -- sh -c 'curl http://$HAIRPIN_FAR:8000/'";

/// The command, with its own commands.
#[must_use]
pub fn command() -> Command {
    Command::new("link")
        .about("Emulated links: the built-in profiles, what is in one, and any program across one")
        .after_help(PROFILES)
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(list())
        .subcommand(show())
        .subcommand(run())
}

fn list() -> Command {
    Command::new("list")
        .about("The built-in profiles, and whether packets can be carried here")
        .after_help(PROFILES)
        .arg(switch("json", "Print them as one JSON object"))
}

fn show() -> Command {
    Command::new("show")
        .about("What is in a profile: its figures in words, stage by stage, and where they come from")
        .after_help(PROFILES)
        .arg(
            Arg::new("PROFILE")
                .required(true)
                .num_args(1..)
                .help("A name, words, or a name and words that change it"),
        )
        .arg(switch("json", "Print it as one JSON object"))
}

fn run() -> Command {
    Command::new("run")
        .about("Run any program across a link: real kernel TCP and UDP at both ends, an emulated path between them")
        .after_help(RUN)
        .arg(
            Arg::new("link").long("link").value_name("PROFILE").required(true).help(
                "The link: a name of `hairpin link list`, words such as 'delay=20ms loss=1%', or a name and words",
            ),
        )
        .arg(Arg::new("far").long("far").value_name("COMMAND").help(
            "What runs at the far end, by /bin/sh; what it prints goes to standard error [default: Hairpin's echo, \
             TCP and UDP port 7]",
        ))
        .arg(
            valued("seed", "NUMBER", "Seed of the link's random choices; without it one is drawn and printed")
                .value_parser(value_parser!(u64)),
        )
        .arg(valued(
            "congestion",
            "NAME",
            "Congestion control of TCP at both ends, for instance bbr [default: cubic, or reno where there is no cubic]",
        ))
        .arg(
            valued("log", "FILE", "Write a line about each packet: direction, size, arrived, due, released, fate")
                .value_parser(value_parser!(PathBuf)),
        )
        .arg(switch(
            "json",
            "When COMMAND has ended, print one JSON object with its exit code and what became of the packets; what \
             COMMAND prints goes to standard error then",
        ))
        .arg(switch("quiet", "Print nothing of the link but errors and warnings").short('q'))
        .arg(
            Arg::new("COMMAND")
                .required(true)
                .num_args(1..)
                .last(true)
                .value_parser(value_parser!(OsString))
                .help("What runs at the near end, with its arguments; it has the terminal"),
        )
}
