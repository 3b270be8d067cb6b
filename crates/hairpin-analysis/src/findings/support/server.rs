//! The server of a run between two hosts, in the command of a counter-experiment.

use hairpin_model::case::{Placement, WhichCpus};
use hairpin_model::{path, shell};

/// The flags for the server and for the client's end.
const FLAGS: [&str; 4] = ["--to", "--bind", "--cpu", "--server-port"];

/// ` --to @lab.ticket`: the flags of the run's command line that place its ends, to be added to a command. Without
/// `--to` the environment names the server, also for the new command.
pub(in crate::findings) fn server_in_command(command_line: &[String]) -> String {
    let value_of = |flag: &str| {
        command_line.iter().enumerate().find_map(|(at, word)| match word.strip_prefix(flag)? {
            "" => command_line.get(at + 1).map(String::as_str),
            rest => rest.strip_prefix('='),
        })
    };
    let told = |flag: &str, value: &str| {
        let value = if flag == "--to" { path::server_in_command(value) } else { value };
        format!(" {flag} {}", shell::quoted(value))
    };
    FLAGS.iter().filter_map(|flag| Some(told(flag, value_of(flag)?))).collect()
}

/// Whether a command has a flag, or a flag value, that requires both ends on one host.
pub(in crate::findings) fn needs_one_host(command: &str) -> bool {
    let words = shell::words(command);
    let has_one =
        |values: &str, of_one: &[String]| values.split(',').any(|value| of_one.iter().any(|one| one == value));
    words.iter().zip(words.iter().skip(1)).any(|(flag, values)| match flag.as_str() {
        "--link" | "--sysctl" | "--ends" | "--cpu-idle" => true,
        "--placement" => has_one(values, &[Placement::SameCpu, Placement::CrossCpu].map(|place| place.to_string())),
        "--load-cpu" => has_one(values, &[WhichCpus::Other.to_string()]),
        _ => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(line: &str) -> String {
        server_in_command(&shell::words(line))
    }

    #[test]
    fn a_command_names_the_server_like_the_run_and_hides_the_ticket() {
        assert_eq!(told("hairpin bulk --to @lab.ticket --rounds 2"), " --to @lab.ticket");
        assert_eq!(told("hairpin bulk '--to=@my lab' --cpu 3"), " --to '@my lab' --cpu 3");
        assert_eq!(
            told("hairpin --server-port=5000 --to ssh://me@lab:22"),
            " --to ssh://me@lab:22 --server-port 5000"
        );
        assert_eq!(told("hairpin --bind eth1 --to @lab.ticket"), " --to @lab.ticket --bind eth1");
        assert_eq!(told("hairpin --to 192.0.2.7:7420#..."), " --to @FILE");
        assert_eq!(told("hairpin bulk"), "", "the environment names it");
        assert_eq!(told("hairpin bulk --to"), "");
    }

    #[test]
    fn options_of_one_host_are_known() {
        for of_one in [
            "--cpu-idle deep,shallow",
            "--placement same-cpu,cross-cpu,unpinned",
            "--link delay=1ms",
            "--sysctl net.ipv4.tcp_sack=0",
            "--load-cpu same,other",
        ] {
            assert!(needs_one_host(&format!("hairpin round-trip {of_one} --rounds 2")), "{of_one}");
        }
        assert!(!needs_one_host("hairpin under-load --placement unpinned --load-cpu same --rounds 2"));
    }
}
