//! Checks which cases are possible on these hosts. An impossible case is skipped with the reason.

use hairpin_model::card::IPV6_MTU_BYTES;
use hairpin_model::case::Scheduling;
use hairpin_model::flow::{ConnectionUse, Direction, MAX_WIRES, Observer, Opening, Pacing, Source};
use hairpin_model::options::OptionName;
use hairpin_model::quantities::exact_bytes;
use hairpin_model::{
    AnsweredBy, Card, Case, CpuIdle, EndKind, EndSettings, Exchange, FarHost, HostCapabilities, Load, Periodic,
    Placement, Protocol, Reach, Remedy, Waiting, WhichCpus, WhyNot,
};

use crate::links;
use crate::possible_waiting::{MAX_BATCH_BYTES, check_awaiting, check_waiting};
use crate::quantity::SECOND_NS;

/// Whether `case` can be measured here. `card` describes the transport of its primary flow.
///
/// # Errors
/// The first reason why the case is impossible, with a hint.
pub fn check(case: &Case, card: &Card, capabilities: &HostCapabilities) -> Result<(), WhyNot> {
    if case.primary().connection_use == ConnectionUse::Shared {
        check_shared(case)?;
    }
    let primary = case.primary();
    check_alone(&case.alone(primary), card, capabilities)?;
    if (case.flows.len() > 1 || primary.threads > 1) && case.ends.kind == EndKind::Threads {
        let hint = "use --ends processes, or one direction and one thread";
        return Err(why("each flow and each of its threads runs in its own processes", hint));
    }
    if primary.threads > 1 && case.ends.placement != Placement::Unpinned {
        return Err(why("its threads would share the CPU of their end", "use --placement unpinned, or --threads 1"));
    }
    if primary.threads > 1 && case.is_emulated() && !card.reliable {
        return Err(why("the link counts the lost messages of one thread only", "use --connections, or --threads 1"));
    }
    if case.is_under_load() && case.injected_fault.is_some() && !case.loads().is_empty() {
        return Err(why("a fault cannot be injected under load", "use --load none"));
    }
    for other in case.flows.iter().filter(|flow| flow.id != primary.id) {
        let Some(candidate) = capabilities.candidate(&other.transport) else { continue };
        candidate.can_run.clone()?;
        let named = |why: WhyNot| WhyNot {
            reason: format!("the {} over {}: {}", other.id, other.transport, why.reason),
            ..why
        };
        check_alone(&case.alone(other), &candidate.card, capabilities).map_err(named)?;
    }
    Ok(())
}

/// Checks the requirements of a probe that shares the load's connection.
fn check_shared(case: &Case) -> Result<(), WhyNot> {
    let probe = case.primary();
    let one = "a probe can share only one connection, of one load at full speed";
    let one_hint = "omit --connections and --load-rate, and use --load up or down";
    let load = match case.loads()[..] {
        [] => {
            return Err(why(
                "no load has a connection that the probe could share",
                "use --load up, or --probe-connection own",
            ));
        }
        [load] => load,
        _ => return Err(why(one, one_hint)),
    };
    if load.transport != probe.transport {
        let hint = format!("use --transport {}, or --probe-connection own", load.transport);
        return Err(why(format!("the load's connection uses {}", load.transport), hint));
    }
    if !matches!(load.load, Load::Stream { .. }) || load.wires() > 1 {
        return Err(why(one, one_hint));
    }
    if probe.load.rate_per_s().is_none() {
        return Err(why("a probe on a shared connection sends at a rate", "omit --closed-loop"));
    }
    if case.ends.waiting != Waiting::Block {
        return Err(why("the ends of a shared connection block until they can read or write", "use --waiting block"));
    }
    if probe.load.size_bytes() < NUMBERED_BYTES || probe.load.size_bytes() > MAX_SHARED_BYTES {
        let sizes = format!("{NUMBERED_BYTES} B to {}", exact_bytes(MAX_SHARED_BYTES));
        return Err(why("its messages do not fit the frames of a shared connection", format!("--size {sizes}")));
    }
    Ok(())
}

/// The largest message on a shared connection, see [`frames`](../../hairpin-loops/src/shared/frames.rs).
const MAX_SHARED_BYTES: u64 = 1 << 20;

fn check_connection(case: &Case, card: &Card) -> Result<(), WhyNot> {
    let flow = case.primary();
    let openings = card.library.map_or(&[Opening::Cold][..], |library| library.openings);
    if let Some(opening) = flow.opening.filter(|opening| !openings.contains(opening)) {
        let known: Vec<&str> = openings.iter().map(|opening| opening.word()).collect();
        let has = format!("it has {}", known.join(", "));
        return Err(why(format!("its connections cannot open as `{opening}`"), has));
    }
    match flow.connection_use {
        ConnectionUse::PerMessage if !(card.many_connections && card.reliable) => {
            Err(why("it has no connections to open", "use tcp; in under-load, or --probe-connection own"))
        }
        ConnectionUse::Shared if card.boundaries || !card.reliable => {
            Err(why("it is not a byte stream", "use tcp, or --probe-connection own"))
        }
        _ => Ok(()),
    }
}

fn check_alone(case: &Case, card: &Card, capabilities: &HostCapabilities) -> Result<(), WhyNot> {
    check_link(case, card, capabilities)?;
    check_other_host(case, card, capabilities)?;
    check_starvation(case)?;
    check_waiting(case, card)?;
    check_awaiting(case, card, capabilities)?;
    match &case.primary().load {
        Load::Exchange { exchange, .. } => check_small_writes(case, exchange, card)?,
        Load::Messages { .. } | Load::Stream { .. } | Load::Offered { .. } => {
            check_one_way(case, card)?;
            check_observer(case, card, capabilities)?;
        }
        Load::PingPong { .. } | Load::Paced { .. } => check_connection(case, card)?,
        Load::Periodic { periodic, .. } => check_periodic(case, periodic, card)?,
    }
    match card.answered_by {
        AnsweredBy::Kernel => check_kernel_answer(case)?,
        AnsweredBy::ForeignServer => check_foreign_answer(case)?,
        AnsweredBy::Server => check_two_ends(case, card, capabilities)?,
    }
    check_sizes(case, card)?;
    check_options(case, card, capabilities)?;
    if case.ends.cpu_idle == CpuIdle::Shallow {
        capabilities.may_keep_cpus_awake.clone()?;
    }
    check_scheduling(case, capabilities)
}

/// Checks the requirements of a control loop.
fn check_periodic(case: &Case, periodic: &Periodic, card: &Card) -> Result<(), WhyNot> {
    check_connection(case, card)?;
    if case.primary().connections > 1 && !card.many_connections {
        return Err(why("it carries one connection only", "use --devices 1"));
    }
    if periodic.timing.keeps_cpu() && case.ends.placement == Placement::SameCpu && !periodic.only_waits {
        let hint = "use --placement cross-cpu, or --timing sleep+spin";
        return Err(why("both ends share one CPU, so a spinning loop would keep the server from running", hint));
    }
    if periodic.only_waits && case.path.across.is_some() {
        return Err(why("without devices nothing is sent to the other host", "use --devices 1"));
    }
    Ok(())
}

/// Checks that the ends cannot keep other programs from their CPUs.
fn check_starvation(case: &Case) -> Result<(), WhyNot> {
    let EndSettings { scheduling, waiting, .. } = case.ends;
    let periodic = case.primary().load.periodic();
    // A longer busy wait of SCHED_FIFO exceeds RLIMIT_RTTIME.
    let is_busy = |own: &Periodic| own.timing.keeps_cpu() && (own.only_waits || own.period_ns >= SECOND_NS);
    if scheduling == Scheduling::Fifo && (waiting.spins() || periodic.is_some_and(is_busy)) {
        let hint = match periodic {
            Some(_) => "use --waiting block and --timing absolute, or --scheduling other",
            None => "use --waiting block, or --scheduling other",
        };
        return Err(why("an end of SCHED_FIFO that busy-polls can keep its CPU from all other programs", hint));
    }
    Ok(())
}

/// Checks whether the ends may use the scheduling policy and lock their memory.
fn check_scheduling(case: &Case, capabilities: &HostCapabilities) -> Result<(), WhyNot> {
    let EndSettings { scheduling, lock_memory, placement, waiting, .. } = case.ends;
    match scheduling {
        Scheduling::Fifo | Scheduling::Deadline if waiting.more_threads(1) > 0 => {
            let hint = "use a way to wait with one thread, or --scheduling other";
            return Err(why(
                "the policy is that of one thread of each end, and its other threads would not have it",
                hint,
            ));
        }
        Scheduling::Deadline if placement != Placement::Unpinned => {
            return Err(why("the kernel refuses SCHED_DEADLINE to a pinned thread", "use --placement unpinned"));
        }
        Scheduling::Other if !lock_memory => return Ok(()),
        Scheduling::Other | Scheduling::Fifo | Scheduling::Deadline => {}
    }
    (capabilities.may_schedule)(scheduling, lock_memory)
}

/// Checks whether emulated links work here, then whether this transport can cross a link.
fn check_link(case: &Case, card: &Card, capabilities: &HostCapabilities) -> Result<(), WhyNot> {
    if !case.is_emulated() {
        return Ok(());
    }
    (capabilities.links.relay)()?;
    if card.reach != Reach::Network {
        return Err(why(
            "it works on one machine only, so it cannot cross a link",
            "use tcp, udp or another network transport, or --link loopback",
        ));
    }
    match links::between(case, capabilities).map(|link| link.mtu_bytes) {
        Some(mtu_bytes) if mtu_bytes < card.min_mtu_bytes => {
            let least = card.min_mtu_bytes;
            let (of, other) = match is_ipv6(card) {
                true => (String::new(), "a transport over IPv4"),
                false => (format!(" ({} B in UDP)", least - UDP_HEADERS_BYTES), "a transport over TCP"),
            };
            Err(why(
                format!("it needs packets of {least} B{of}, and the link carries {mtu_bytes} B at most"),
                format!("use mtu={least}B or more, or {other}"),
            ))
        }
        _ => Ok(()),
    }
}

const UDP_HEADERS_BYTES: u32 = 28;

pub(crate) fn is_ipv6(card: &Card) -> bool {
    card.min_mtu_bytes >= IPV6_MTU_BYTES
}

/// Checks whether the transport reaches the server's host.
fn check_other_host(case: &Case, card: &Card, capabilities: &HostCapabilities) -> Result<(), WhyNot> {
    let Some(far) = capabilities.far.as_ref().filter(|_| case.path.across.is_some()) else { return Ok(()) };
    if card.reach != Reach::Network || card.answered_by == AnsweredBy::Kernel {
        return Err(why(
            format!("it works on one machine only, so it does not reach {}", far.name),
            "use tcp, udp or another network transport, or omit --to",
        ));
    }
    if far.is_foreign {
        return check_foreign_transport(card, far);
    }
    if !far.transports.iter().any(|name| name == card.name) {
        return Err(why(format!("it cannot run on {}", far.name), "`hairpin list` there says why"));
    }
    far.limits.allow_case(case, far.round_trip_ns, 0.0).map_err(WhyNot::from)?;
    if is_ipv6(card) != far.is_ipv6 {
        let [own, other] = if far.is_ipv6 { ["IPv6", "IPv4"] } else { ["IPv4", "IPv6"] };
        return Err(why(
            format!("it uses {other}, and {} is reached over {own}", far.name),
            format!("use a ticket with an {other} address (hairpin serve --advertise)"),
        ));
    }
    Ok(())
}

fn why(reason: impl Into<String>, hint: impl Into<String>) -> WhyNot {
    WhyNot::new(reason, hint)
}

/// Header size of a numbered message, see [`number`](../../hairpin-loops/src/driver/phase.rs).
const NUMBERED_BYTES: u64 = 8;

/// Header size of a message with a number, a send time and a nonce that the receiver quotes back, see
/// [`nonce_of`](../../hairpin-loops/src/driver/messages.rs).
const QUOTED_BYTES: u64 = 32;

/// Checks the requirements of a load without answers.
fn check_one_way(case: &Case, card: &Card) -> Result<(), WhyNot> {
    let flow = case.primary();
    if card.answered_by == AnsweredBy::Kernel {
        return Err(why("the kernel answers each message, so no program receives a stream", "omit this transport"));
    }
    if case.ends.waiting == Waiting::Block {
        if !card.waitings.contains(&Waiting::Poll) {
            return Err(why("it cannot wait for buffer space, so a one-way load must spin", "use --waiting spin"));
        }
        if flow.wires() > 1 {
            return Err(why(
                "an end that blocks waits for one connection only",
                "use --waiting poll, or one connection",
            ));
        }
    }
    if card.boundaries && flow.load.size_bytes() < NUMBERED_BYTES {
        let reason = format!("it needs messages of at least {NUMBERED_BYTES} B to number them");
        return Err(why(reason, "use larger messages"));
    }
    if case.path.across.is_some() && !card.reliable && flow.load.size_bytes() < QUOTED_BYTES {
        return Err(why(
            format!(
                "datagrams to another host carry a number that the receiver quotes back, and need at least \
                 {QUOTED_BYTES} B for it"
            ),
            "use larger messages",
        ));
    }
    let bytes_at_once = flow.load.size_bytes().saturating_mul(flow.load.batch());
    if bytes_at_once > MAX_BATCH_BYTES {
        let (batch, size) = (flow.load.batch(), exact_bytes(flow.load.size_bytes()));
        let reason =
            format!("one call cannot send {batch} messages of {size}: {} at most", exact_bytes(MAX_BATCH_BYTES));
        return Err(why(reason, "use a smaller --batch or --size"));
    }
    if flow.connections > 1 && !card.many_connections {
        return Err(why("it carries one connection only", "use one connection"));
    }
    if flow.wires() > MAX_WIRES {
        let reason =
            format!("{} connections of {} streams are more than {MAX_WIRES}", flow.connections, flow.streams);
        return Err(why(reason, "use fewer --connections or --streams"));
    }
    if flow.streams > 1 && !card.many_streams {
        return Err(why("each of its connections carries one stream", "use --connections instead of --streams"));
    }
    if case.injected_fault.is_some() {
        return Err(why("a fault is injected before an answer, and a one-way load has no answers", "use round-trip"));
    }
    match &flow.load {
        Load::Stream { source: Source::File, .. } => check_file_source(case, card),
        Load::Offered { pacing, .. } => check_pacing(case, *pacing, card),
        _ => Ok(()),
    }
}

fn check_observer(case: &Case, card: &Card, capabilities: &HostCapabilities) -> Result<(), WhyNot> {
    match case.primary().load.observer() {
        observer if observer.sees_packets() && !matches!(card.protocol, Protocol::Tcp | Protocol::Udp) => Err(why(
            format!("it sends no packets for the observer {observer}"),
            "use tcp or udp, or another --observer",
        )),
        Observer::Capture => (capabilities.may_capture)(),
        _ => Ok(()),
    }
}

fn check_file_source(case: &Case, card: &Card) -> Result<(), WhyNot> {
    if case.primary().options.get(OptionName::Zerocopy) == Some("on") {
        return Err(why("sendfile cannot use MSG_ZEROCOPY", "use --source buffer, or omit the option zerocopy"));
    }
    if card.sends_files {
        return Ok(());
    }
    Err(why("it cannot send from a file", "use tcp, unix-stream or pipe, or --source buffer"))
}

fn check_pacing(case: &Case, pacing: Pacing, card: &Card) -> Result<(), WhyNot> {
    let share_a_cpu = case.ends.placement == Placement::SameCpu;
    match pacing {
        Pacing::Kernel if !card.options.contains(&OptionName::PacingRate) => Err(why(
            "the kernel paces TCP only: other transports need the queue discipline `fq`, which neither the loopback \
             nor an emulated link has",
            "use --pacing sleep+spin",
        )),
        Pacing::Spin if share_a_cpu => Err(why(
            "both ends share one CPU, so a spinning sender would keep the receiver from running",
            "use --placement cross-cpu, or --pacing sleep+spin",
        )),
        _ => Ok(()),
    }
}

/// Checks a case whose messages the kernel answers on the sending CPU, without a second end to place or configure.
fn check_kernel_answer(case: &Case) -> Result<(), WhyNot> {
    if case.ends.placement.has_own_cpus() {
        return Err(why(
            "the kernel answers on the CPU that sends, so there is no second CPU",
            "use --placement same-cpu",
        ));
    }
    if case.primary().load.reply_size_bytes() != case.primary().load.size_bytes() {
        return Err(why("the kernel's answer is as long as the message", "omit --reply-size"));
    }
    if case.injected_fault.is_some() {
        return Err(why(
            "the kernel answers, so no fault can be injected",
            "omit --injected-fault, or omit this transport",
        ));
    }
    if case.ends.kind != EndKind::Processes {
        return Err(why("the kernel answers, so there is no second thread", "use --ends processes"));
    }
    Ok(())
}

fn check_foreign_transport(card: &Card, far: &FarHost) -> Result<(), WhyNot> {
    if far.transports.iter().any(|name| name == card.name) {
        return Ok(());
    }
    Err(why(format!("it cannot measure {}", far.name), format!("use {}", far.transports.join(" or "))))
}

/// Checks a case whose messages a server answers that is not Hairpin's: one request at a time, and any answer.
fn check_foreign_answer(case: &Case) -> Result<(), WhyNot> {
    let flow = case.primary();
    if case.flows.len() > 1 || !matches!(flow.load, Load::PingPong { .. }) || flow.wires() > 1 {
        let hint = "use round-trip without --rate, or run `hairpin serve` there";
        return Err(why("a server that is not Hairpin's is measured with one request at a time", hint));
    }
    if flow.load.reply_size_bytes() != flow.load.size_bytes() {
        return Err(why("the server decides how long its answer is", "omit --reply-size"));
    }
    if case.injected_fault.is_some() {
        return Err(why("a fault is injected in a server of Hairpin", "omit --injected-fault"));
    }
    Ok(())
}

/// Checks whether two flows with this placement can run without a common CPU.
pub(crate) fn check_two_pairs(placement: Placement, capabilities: &HostCapabilities) -> Result<(), WhyNot> {
    let hint = "use --load-cpu same";
    if let Some(Ok([_])) = capabilities.level(placement).map(|pairs| pairs.as_deref()) {
        return Err(why(format!("--load-cpu other needs a second pair of CPUs with --placement {placement}"), hint));
    }
    // With `pinned`, two on each host.
    let needed = if placement.has_own_cpus() && placement != Placement::Pinned { 4 } else { 2 };
    let may_use = capabilities.cpus.len();
    if may_use < needed {
        let reason = format!("--load-cpu other needs {needed} CPUs, and this process may use {may_use}");
        return Err(why(reason, hint));
    }
    Ok(())
}

fn check_two_ends(case: &Case, card: &Card, capabilities: &HostCapabilities) -> Result<(), WhyNot> {
    let one_cpu = capabilities.cpus.len() < 2;
    if let Some(Err(why_not)) = capabilities.level(case.ends.placement) {
        return Err(why_not.clone());
    }
    if case.ends.cpus == WhichCpus::Other {
        check_two_pairs(case.ends.placement, capabilities)?;
        if case.ends.placement == Placement::Unpinned {
            let hint = "use --load-cpu same, or another --placement";
            return Err(why("its ends are not pinned, so no CPUs are known to be free", hint));
        }
    }
    let is_one_given = capabilities.given_cpus.is_some_and(|[client, server]| client == server);
    if case.ends.placement == Placement::CrossCpu && is_one_given {
        return Err(why("it needs two CPUs, and --cpu names one twice", "use --cpu with two CPUs"));
    }
    if case.ends.placement == Placement::CrossCpu && one_cpu {
        return Err(why("it needs two CPUs, and this process may use one", "use --placement same-cpu"));
    }
    let share_a_cpu = case.ends.placement == Placement::SameCpu || one_cpu;
    if case.ends.waiting.spins() && share_a_cpu {
        let hint = if one_cpu { "use --waiting block" } else { "use --placement cross-cpu, or --waiting block" };
        return Err(why("both ends share one CPU, so a spinning end would keep the other from running", hint));
    }
    if card.reach == Reach::Process && case.ends.kind == EndKind::Processes {
        return Err(why("it joins two threads of one process only", "use --ends threads"));
    }
    Ok(())
}

/// Whether the transport segments and acknowledges like TCP; such transports have the option `nodelay`.
pub fn is_tcp(card: &Card) -> bool {
    card.options.contains(&OptionName::Nodelay)
}

fn check_small_writes(case: &Case, exchange: &Exchange, card: &Card) -> Result<(), WhyNot> {
    if card.boundaries {
        return Err(why(
            "it keeps message boundaries: each write is a message of its own",
            "use a byte stream such as tcp, unix-stream or pipe",
        ));
    }
    let remedy = exchange.remedy;
    if remedy.needs_tcp() && !is_tcp(card) {
        let reason = format!("remedy `{remedy}` changes how TCP sends segments and ACKs");
        return Err(why(reason, "use default, one-write, writev or batch=N with this transport"));
    }
    if let Some(option) = option_of(remedy)
        && !card.options.contains(&option)
    {
        return Err(why(format!("it has no option `{option}`, which remedy `{remedy}` sets"), "use another remedy"));
    }
    check_pipeline(case, exchange.pipeline, card)
}

fn option_of(remedy: Remedy) -> Option<OptionName> {
    match remedy {
        Remedy::Nodelay => Some(OptionName::Nodelay),
        Remedy::Cork | Remedy::CorkForgotten => Some(OptionName::Cork),
        Remedy::Quickack => Some(OptionName::Quickack),
        Remedy::Default | Remedy::More | Remedy::OneWrite | Remedy::Writev | Remedy::Batch(_) => None,
    }
}

/// Bytes of unread answers that the buffers of any byte stream hold: half of a pipe's 64 KiB (pipe(7)).
const ANSWERS_BYTES: u64 = 32 << 10;
/// Capacity of a Unix socket in bytes, where each write also takes a `struct sk_buff`, rounded up
/// (net/unix/af_unix.c): a buffer of 208 KiB is full after 278 writes of 1 to 64 B, 93 of 1000 B, or 44 of 4000 B.
const UNIX_ANSWERS_BYTES: u64 = 128 << 10;

/// Checks that the answers of a pipeline fit the buffers. The client writes all requests before it reads an answer.
/// If the answers do not fit, the server stops reading requests, and both ends wait forever.
fn check_pipeline(case: &Case, pipeline: u64, card: &Card) -> Result<(), WhyNot> {
    if pipeline < 2 {
        return Ok(());
    }
    let reply = case.primary().load.reply_size_bytes();
    let of_sockets = card.options.contains(&OptionName::Sndbuf);
    let (capacity, each) = match of_sockets && !is_tcp(card) {
        true => (UNIX_ANSWERS_BYTES, reply.saturating_mul(2).saturating_add(1 << 10)),
        false => (ANSWERS_BYTES, reply),
    };
    let buffers = [OptionName::Sndbuf, OptionName::Rcvbuf];
    let asked = buffers.iter().filter_map(|name| case.primary().options.get(*name)?.parse::<u64>().ok()).min();
    let max_answers = capacity.min(asked.unwrap_or(u64::MAX)) / each;
    if pipeline <= max_answers {
        return Ok(());
    }
    Err(why(
        format!(
            "{pipeline} unread answers of {} may not fit its buffers, so both ends could wait forever",
            exact_bytes(reply)
        ),
        format!("use --pipeline {}, or a smaller --reply", max_answers.max(1)),
    ))
}

fn check_sizes(case: &Case, card: &Card) -> Result<(), WhyNot> {
    let range = card.min_message_bytes..=card.max_message_bytes;
    let message = if case.primary().load.exchange().is_some() { "request" } else { "message" };
    for (what, size) in
        [(message, case.primary().load.size_bytes()), ("answer", case.primary().load.reply_size_bytes())]
    {
        let has_none = what == "answer" && case.primary().direction != Direction::RoundTrip;
        if !range.contains(&size) && !has_none {
            let hint = format!("{} to {}", exact_bytes(card.min_message_bytes), exact_bytes(card.max_message_bytes));
            return Err(why(format!("a {what} of {} does not fit", exact_bytes(size)), hint));
        }
    }
    Ok(())
}

fn check_options(case: &Case, card: &Card, capabilities: &HostCapabilities) -> Result<(), WhyNot> {
    for (name, value) in case.primary().options.iter() {
        if !card.options.contains(&name) {
            let known: Vec<&str> = card.options.iter().map(|option| option.word()).collect();
            let hint =
                if known.is_empty() { "omit --option".to_owned() } else { format!("it has {}", known.join(", ")) };
            return Err(why(format!("it has no option `{name}`"), hint));
        }
        let own_controls = card.library.map_or(&[][..], |library| library.congestion_controls);
        if name == OptionName::Congestion && !own_controls.is_empty() {
            if own_controls.contains(&value) {
                continue;
            }
            return Err(why(
                format!("the library has no congestion control `{value}`"),
                format!("one of {}", own_controls.join(", ")),
            ));
        }
        let far = capabilities.far.iter().map(|far| (format!("on {}", far.name), &far.congestion_controls));
        let mut hosts = std::iter::once(("here".to_owned(), &capabilities.congestion_controls)).chain(far);
        if name == OptionName::Congestion
            && let Some((place, controls)) = hosts.find(|(_, known)| !known.iter().any(|control| control == value))
        {
            let hint = format!("one of {}", controls.join(", "));
            return Err(why(format!("congestion control `{value}` is not available {place}"), hint));
        }
        if name == OptionName::BusyPoll && value != "0" {
            return Err(why(
                "neither the loopback nor an emulated link has a device queue that SO_BUSY_POLL could poll",
                "omit busy-poll; --waiting spin polls the socket instead",
            ));
        }
    }
    Ok(())
}
