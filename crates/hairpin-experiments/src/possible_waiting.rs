//! Checks which modes of waiting are possible.

use hairpin_model::flow::ConnectionUse;
use hairpin_model::quantities::exact_bytes;
use hairpin_model::{Card, Case, EndKind, HostCapabilities, Load, Placement, Waiting, WhyNot};

/// Maximum bytes of one call; the buffers of both ends have this size.
pub(crate) const MAX_BATCH_BYTES: u64 = 64 << 20;

/// Checks that the transport has the mode.
pub(crate) fn check_waiting(case: &Case, card: &Card) -> Result<(), WhyNot> {
    if card.waitings.contains(&case.ends.waiting) {
        return Ok(());
    }
    if matches!(case.ends.waiting, Waiting::Async | Waiting::AsyncThreads) && card.waitings.contains(&Waiting::Epoll)
    {
        return Err(WhyNot::new("this build has no tokio runtime", "build hairpin with --features async"));
    }
    let known: Vec<&str> = card.waitings.iter().map(|waiting| waiting.word()).collect();
    Err(WhyNot::new(format!("it has no waiting mode `{}`", case.ends.waiting), format!("use {}", known.join(" or "))))
}

/// Checks the requirements of the modes that only round trips have.
pub(crate) fn check_awaiting(case: &Case, card: &Card, capabilities: &HostCapabilities) -> Result<(), WhyNot> {
    let (flow, waiting) = (case.primary(), case.ends.waiting);
    let is_round_trip = matches!(flow.load, Load::PingPong { .. });
    if is_round_trip && flow.connections > 1 {
        check_joined(case, card)?;
    }
    if Waiting::BASIC.contains(&waiting) {
        return Ok(());
    }
    if !is_round_trip || flow.connection_use != ConnectionUse::Own {
        let reason = format!("`{waiting}` waits for answers of a closed loop on connections that stay open");
        return Err(WhyNot::new(reason, "use round-trip without --rate, or --waiting block, poll or spin"));
    }
    match waiting {
        _ if waiting.more_threads(1) > 0 && case.ends.kind == EndKind::Threads => {
            Err(WhyNot::new("the CPU time of each end's threads is that of its process", "use --ends processes"))
        }
        Waiting::BusyPoll if case.path.across.is_none() => Err(WhyNot::new(
            "loopback and veth have no device queue to busy-poll (NAPI id 0)",
            "use --waiting spin, or --to another host",
        )),
        _ if !card.reliable && case.crosses_a_network() => Err(WhyNot::new(
            format!("`{waiting}` does not check the datagrams of a network"),
            "use --waiting block, poll or spin, or a transport with connections",
        )),
        Waiting::Uring => (capabilities.may_use_io_uring)(),
        Waiting::UringSqpoll => {
            (capabilities.may_use_io_uring)()?;
            let ends = if case.ends.placement == Placement::SameCpu { 1 } else { 2 };
            let (needed, may_use) = (ends + 2, capabilities.cpus.len());
            let reason =
                format!("the ends and the kernel thread of each need {needed} CPUs, and there are {may_use}");
            if may_use < needed { Err(WhyNot::new(reason, "use --waiting uring")) } else { Ok(()) }
        }
        _ => Ok(()),
    }
}

/// Checks the requirements of round trips on several connections, for which each end waits together.
fn check_joined(case: &Case, card: &Card) -> Result<(), WhyNot> {
    let flow = case.primary();
    if !(card.many_connections && card.waitings.contains(&Waiting::Epoll)) {
        return Err(WhyNot::new(
            "its connections cannot wait together",
            "use tcp, udp or a Unix socket, or one connection",
        ));
    }
    if matches!(case.ends.waiting, Waiting::Block | Waiting::SpinThenBlock | Waiting::BusyPoll) {
        let reason = format!("an end that waits by `{}` waits for one connection only", case.ends.waiting);
        return Err(WhyNot::new(reason, "use --waiting epoll, or one connection"));
    }
    let largest = flow.load.size_bytes().max(flow.load.reply_size_bytes());
    if largest.saturating_mul(flow.wires()) > MAX_BATCH_BYTES {
        let most = exact_bytes(MAX_BATCH_BYTES);
        return Err(WhyNot::new(format!("the messages of all connections exceed {most}"), "use smaller messages"));
    }
    Ok(())
}
