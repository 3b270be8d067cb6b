//! Profiles of sockets, each option read back by a call of the test's own.

use std::fs::File;
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::unix::net::{UnixDatagram, UnixStream};

use hairpin_socket::{Outcome, Profile, Report, Setting, Status, Value};

use crate::system::option;

fn tcp() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
    let client = TcpStream::connect(listener.local_addr().expect("bound")).expect("connected");
    (client, listener.accept().expect("accepted").0)
}

fn outcome(report: &Report, setting: Setting) -> &Outcome {
    report.get(setting).unwrap_or_else(|| panic!("no {setting}: {report}"))
}

fn reason(report: &Report, setting: Setting) -> &str {
    outcome(report, setting).reason.as_deref().unwrap_or_default()
}

fn sysctl(path: &str) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/sys/net/{path}")).expect("the kernel has it");
    text.split_whitespace().last().expect("a number").parse().expect("a number")
}

fn bytes(value: Option<&Value>) -> u64 {
    let Some(Value::Number(bytes)) = value else { panic!("{value:?}") };
    *bytes
}

#[test]
fn a_tcp_socket_has_the_options_of_low_latency() {
    let (client, _server) = tcp();
    let report = Profile::low_latency().with_buffers(8192).apply_to(&client);
    for (setting, number, status) in [
        (Setting::NoDelay, option(&client, libc::IPPROTO_TCP, libc::TCP_NODELAY), 1),
        (Setting::NotSentLowat, option(&client, libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT), 16384),
        (Setting::SendBuffer, option(&client, libc::SOL_SOCKET, libc::SO_SNDBUF), 16384),
        (Setting::ReceiveBuffer, option(&client, libc::SOL_SOCKET, libc::SO_RCVBUF), 16384),
        (Setting::Priority, option(&client, libc::SOL_SOCKET, libc::SO_PRIORITY), 6),
    ] {
        assert_eq!((number, outcome(&report, setting).status), (status, Status::Applied), "{report}");
    }
    assert_eq!(outcome(&report, Setting::QuickAck).effective, Some(Value::Switch(true)), "{report}");
    assert!(reason(&report, Setting::QuickAck).starts_with("does not last"), "{report}");
    assert_eq!(outcome(&report, Setting::SendBuffer).requested, Some(Value::Number(8192)));
    assert_eq!(reason(&report, Setting::SendBuffer), "doubled for bookkeeping (socket(7))");
    let busy_poll = outcome(&report, Setting::BusyPoll);
    assert_eq!((busy_poll.status, &busy_poll.requested), (Status::NotRequested, &None), "{report}");
    assert!(reason(&report, Setting::BusyPoll).contains("SO_INCOMING_NAPI_ID is 0"), "{report}");
    assert_eq!(report.outcomes.len(), 7, "settings of the thread are not those of a socket: {report}");
}

#[test]
fn buffers_beyond_the_limits_are_granted_up_to_them() {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("bound");
    let report = Profile::low_latency().with_buffers(u32::MAX).apply_to(&socket);
    for (setting, name, limit) in
        [(Setting::SendBuffer, libc::SO_SNDBUF, "wmem_max"), (Setting::ReceiveBuffer, libc::SO_RCVBUF, "rmem_max")]
    {
        let granted = 2 * sysctl(&format!("core/{limit}"));
        assert_eq!(u64::try_from(option(&socket, libc::SOL_SOCKET, name)).expect("bytes"), granted);
        let found = outcome(&report, setting);
        assert_eq!((found.status, bytes(found.effective.as_ref())), (Status::Differs, granted), "{report}");
        assert_eq!(reason(&report, setting), format!("limited by net.core.{limit} = {}, then doubled", granted / 2));
    }
    let report = Profile::low_latency().with_buffers(1).apply_to(&socket);
    let found = outcome(&report, Setting::SendBuffer);
    assert_eq!((found.status, reason(&report, found.setting)), (Status::Differs, "the kernel's minimum"), "{report}");
}

#[test]
fn bulk_sets_buffers_only_where_that_raises_them() {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("bound");
    let limit = sysctl("core/rmem_max");
    let profile = Profile::bulk().with_buffers(u32::try_from(limit).expect("below 4 GiB"));
    let report = profile.apply_to(&socket);
    assert_eq!(u64::try_from(option(&socket, libc::SOL_SOCKET, libc::SO_RCVBUF)).expect("bytes"), 2 * limit);
    let again = profile.apply_to(&socket);
    let found = outcome(&again, Setting::ReceiveBuffer);
    assert_eq!((found.status, reason(&again, found.setting)), (Status::NotRequested, "as large already"), "{report}");

    let (client, _server) = tcp();
    let before = option(&client, libc::SOL_SOCKET, libc::SO_RCVBUF);
    let tuned = sysctl("ipv4/tcp_rmem");
    let small = Profile::bulk().with_buffers(u32::try_from(tuned / 2).expect("below 4 GiB"));
    let report = small.apply_to(&client);
    let found = outcome(&report, Setting::ReceiveBuffer);
    assert_eq!((found.status, &found.requested), (Status::NotRequested, &None), "{report}");
    let begin = format!("the kernel raises it up to {tuned} B (net.ipv4.tcp_rmem)");
    assert!(reason(&report, found.setting).starts_with(&begin), "{report}");
    assert_eq!(option(&client, libc::SOL_SOCKET, libc::SO_RCVBUF), before, "left to the kernel");
}

#[test]
fn bulk_leaves_small_writes_to_nagle() {
    let (client, _server) = tcp();
    client.set_nodelay(true).expect("set");
    let report = Profile::bulk().apply_to(&client);
    assert_eq!(outcome(&report, Setting::NoDelay).status, Status::Applied, "{report}");
    assert_eq!(option(&client, libc::IPPROTO_TCP, libc::TCP_NODELAY), 0);
}

#[test]
fn options_that_a_socket_does_not_have_are_outcomes() {
    let udp = UdpSocket::bind("[::1]:0").or_else(|_| UdpSocket::bind("127.0.0.1:0")).expect("bound");
    let (stream, _peer) = UnixStream::pair().expect("a pair");
    let datagrams = UnixDatagram::unbound().expect("made");
    let profile = Profile::low_latency().with_buffers(8192);
    let of_unix = [profile.apply_to(&stream), profile.apply_to(&datagrams)];
    for report in of_unix.iter().chain([&profile.apply_to(&udp)]) {
        for setting in [Setting::NoDelay, Setting::QuickAck, Setting::NotSentLowat] {
            assert_eq!(outcome(report, setting).status, Status::NotRequested);
            assert_eq!(reason(report, setting), "only TCP has it", "{report}");
        }
        assert_eq!(outcome(report, Setting::SendBuffer).status, Status::Applied, "{report}");
    }
    for report in &of_unix {
        assert_eq!(reason(report, Setting::ReceiveBuffer), "data waits in the sender's buffer (unix(7))");
        assert_eq!(reason(report, Setting::Priority), "a Unix socket sends no packets");
    }
    assert_eq!(option(&udp, libc::SOL_SOCKET, libc::SO_PRIORITY), 6);
    assert_eq!(option(&stream, libc::SOL_SOCKET, libc::SO_SNDBUF), 16384);
}

#[test]
fn what_is_no_socket_is_refused_setting_by_setting() {
    let file = File::open("/dev/null").expect("it exists");
    let report = Profile::low_latency().apply_to(&file);
    let found = outcome(&report, Setting::Priority);
    assert_eq!((found.status, &found.effective), (Status::Refused, &None), "{report}");
    assert!(reason(&report, Setting::Priority).contains("non-socket"), "{report}");
    assert!(report.outcomes.iter().all(|outcome| outcome.status != Status::Applied), "{report}");
}

#[test]
fn a_socket_of_socket2_is_a_socket_before_it_connects() {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).expect("made");
    let report = Profile::low_latency().apply_to(&socket);
    assert_eq!(outcome(&report, Setting::NoDelay).status, Status::Applied, "{report}");
    assert!(socket.tcp_nodelay().expect("read"));
}

#[test]
fn sockets_of_tokio_are_sockets() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().expect("made");
    let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
    let address = listener.local_addr().expect("bound");
    runtime.block_on(async {
        let stream = tokio::net::TcpStream::connect(address).await.expect("connected");
        let datagrams = tokio::net::UdpSocket::bind("127.0.0.1:0").await.expect("bound");
        let report = Profile::low_latency().apply_to(&stream);
        assert_eq!(outcome(&report, Setting::NoDelay).status, Status::Applied, "{report}");
        assert!(stream.nodelay().expect("read"));
        let report = Profile::low_latency().apply_to(&datagrams);
        assert_eq!(outcome(&report, Setting::Priority).status, Status::Applied, "{report}");
        assert_eq!(option(&datagrams, libc::SOL_SOCKET, libc::SO_PRIORITY), 6);
        assert_eq!(reason(&report, Setting::NoDelay), "only TCP has it");
    });
}

#[test]
fn a_report_has_a_line_for_each_setting() {
    let (stream, _peer) = UnixStream::pair().expect("a pair");
    let report = Profile::low_latency().with_buffers(4096).apply_to(&stream).to_string();
    let lines: Vec<&str> = report.lines().collect();
    assert_eq!(lines[0], "TCP_NODELAY                   -             -  only TCP has it");
    assert_eq!(lines[3], "SO_SNDBUF                4096 B        8192 B  doubled for bookkeeping (socket(7))");
    assert_eq!(lines.len(), 7);
}
