//! The words of a tuning: how to keep a change, and what has no option.

use hairpin_model::Cause;
use hairpin_model::options::OptionName;
use hairpin_model::tuning::Change;

/// Returns the line of code, or the setting, that keeps a change.
pub fn keep(change: &Change) -> String {
    match change {
        Change::Options(options) => {
            let lines: Vec<String> = options.iter().map(|(name, value)| call(name, value)).collect();
            lines.join("; ")
        }
        Change::Sysctl(name, value) => format!("sysctl -w {name}={value}"),
        Change::Process(text) => match text.split_once('=') {
            Some(("affinity", cpus)) => format!("taskset -c {} COMMAND", cpus.replace('+', ",")),
            Some(("scheduling", _)) => "chrt --batch 0 COMMAND".to_owned(),
            _ => "prctl(PR_SET_TIMERSLACK, ns) before the program's threads start".to_owned(),
        },
    }
}

fn call(name: OptionName, value: &str) -> String {
    let (level, option) = match name {
        OptionName::Nodelay => ("IPPROTO_TCP", "TCP_NODELAY"),
        OptionName::Cork => ("IPPROTO_TCP", "TCP_CORK"),
        OptionName::Quickack => ("IPPROTO_TCP", "TCP_QUICKACK"),
        OptionName::Sndbuf => ("SOL_SOCKET", "SO_SNDBUF"),
        OptionName::Rcvbuf => ("SOL_SOCKET", "SO_RCVBUF"),
        OptionName::BusyPoll => ("SOL_SOCKET", "SO_BUSY_POLL"),
        OptionName::Tos | OptionName::Dscp => ("IPPROTO_IP", "IP_TOS"),
        OptionName::Congestion => ("IPPROTO_TCP", "TCP_CONGESTION"),
        OptionName::NotsentLowat => ("IPPROTO_TCP", "TCP_NOTSENT_LOWAT"),
        OptionName::Priority => ("SOL_SOCKET", "SO_PRIORITY"),
        OptionName::Gso => ("SOL_UDP", "UDP_GRO"),
        OptionName::Zerocopy => ("SOL_SOCKET", "SO_ZEROCOPY"),
        OptionName::PacingRate => ("SOL_SOCKET", "SO_MAX_PACING_RATE"),
    };
    let value = match value {
        // The lower two bits of the byte are for ECN (RFC 3168).
        dscp if name == OptionName::Dscp => {
            dscp.parse::<u32>().map_or_else(|_| dscp.to_owned(), |dscp| (dscp << 2).to_string())
        }
        "on" => "1".to_owned(),
        "off" => "0".to_owned(),
        text if text.bytes().all(|byte| byte.is_ascii_digit()) => text.to_owned(),
        text => format!("\"{text}\""),
    };
    format!("setsockopt(socket, {level}, {option}, {value})")
}

pub fn without_option(cause: Cause) -> String {
    format!("{cause}: no socket option changes it; `hairpin explain` says what does")
}
