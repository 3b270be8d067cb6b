//! Definition of the command line for links.

use clap::{Arg, Command, value_parser};

use crate::cli::flags::{path, program, switch, valued};

const PROFILES: &str = "A profile is a built-in name (hairpin link list), words such as `delay=23.5ms±1ms \
up=5.5mbit queue=64KiB codel=5ms/100ms loss=0.1%`, or a name and words that change it: see docs/links.md.\n\n\
reorder=1%/5ms delays 1 % of the packets by 5 ms; netem's reorder sends 1 % early instead.";

const RUN: &str = "Both commands get HAIRPIN_NEAR and HAIRPIN_FAR (IPv4 addresses), HAIRPIN_NEAR_IPV6 and \
HAIRPIN_FAR_IPV6 (if the MTU is at least 1280 bytes), and HAIRPIN_LINK (the profile) in their environment.\n\n\
     Hairpin starts the far command first and waits at most 2 s until something listens in the far namespace. When COMMAND \
     has ended, Hairpin ends the far command and everything else that runs in the link's namespaces. A process that has \
     moved into another network namespace (unshare -n) is not ended.\n\n\
     TCP at both ends does not depend on the host: it uses the congestion control of --congestion, and buffers of at most \
     32 MiB (tcp_rmem, tcp_wmem).\n\n\
     Without root, both commands run in a user namespace, where they appear to be root.\n\n\
     Exit codes: the exit code of COMMAND, even if times measured over the link are invalid (a warning and `valid` in \
     --json report this); 128 + N if signal N ended COMMAND; 2 bad usage or input; 125 the link or the far command \
     failed, or the JSON could not be printed; 126 COMMAND cannot be executed; 127 COMMAND was not found.\n\n\
     Examples:\n  \
     hairpin link run --link home-uplink -- sh -c 'ping -c 3 $HAIRPIN_FAR'\n  \
     hairpin link run --link lte --far 'iperf3 -s' \\\n    \
     -- sh -c 'iperf3 -c $HAIRPIN_FAR'\n  \
     hairpin link run --link 'plc loss=1%' --far 'python3 -m http.server' \\\n    \
     -- sh -c 'curl http://$HAIRPIN_FAR:8000/'";

pub fn command() -> Command {
    Command::new("link")
        .about("List and show emulated links, and run any program over a link")
        .after_help(PROFILES)
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommands([list(), show(), run()])
}

fn list() -> Command {
    Command::new("list")
        .about("List the built-in profiles, and whether links can run here")
        .after_help(PROFILES)
        .arg(switch("json", "Print the profiles as one JSON object"))
}

fn show() -> Command {
    Command::new("show")
        .about("Show a profile: its figures in words, stage by stage, and their source")
        .after_help(PROFILES)
        .arg(
            Arg::new("PROFILE")
                .required(true)
                .num_args(1..)
                .help("The name of a profile, words, or a name and words that change it"),
        )
        .arg(switch("json", "Print the profile as one JSON object"))
}

fn run() -> Command {
    Command::new("run")
        .about("Run any program over a link: the kernel's TCP and UDP at both ends, an emulated path between them")
        .after_help(RUN)
        .args(of_link().map(|argument| if argument.get_id() == "link" { argument.required(true) } else { argument }))
        .arg(switch(
            "json",
            "Print one JSON object when COMMAND has ended: its exit code, whether times measured over the link are valid, and the \
            packet counts. The output of COMMAND goes to standard error",
        ))
        .arg(switch("quiet", "Print only errors and warnings about the link").short('q'))
        .arg(program("The program to run at the near end, with its arguments; it uses the terminal").required(true))
}

pub fn of_link() -> [Arg; 5] {
    [
        valued(
            "link",
            "PROFILE",
            "The link: the name of a profile, words such as 'delay=20ms loss=1%', or a name and words that change it",
        ),
        valued(
            "far",
            "COMMAND",
            "What /bin/sh runs at the far end; its output goes to standard error [default: an echo server on TCP \
             and UDP port 7]",
        ),
        valued("seed", "NUMBER", "Seed of the link's random choices [default: random, and printed]")
            .value_parser(value_parser!(u64)),
        valued(
            "congestion",
            "NAME",
            "Congestion control of TCP at both ends, for instance bbr [default: cubic, or reno if there is no cubic]",
        ),
        path("log", "FILE", "Write a line per packet: direction, size, arrival, due time, release, outcome"),
    ]
}
