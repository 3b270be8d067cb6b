//! A program at the near end sends packets that no kernel would send: the link survives, and its ledger closes.

use hairpin_testing::{or_skip, program, skip};

use crate::support::across::{assert_closes, assert_log_is_the_record, count, log, run};
use crate::support::{Place, can_link};

/// Sends frames directly to the interface: wrong sizes, truncated headers, other protocols, and noise.
const HOSTILE: &str = r#"
import random, socket, struct, sys

try:
    raw = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
    raw.bind(("eth0", 0))
except PermissionError as error:
    print(error)
    sys.exit(77)

generator = random.Random(7)
to, me = b"\x02\0\0\0\0\x11", b"\x02\0\0\0\0\x10"
sent = 0

def send(frame):
    global sent
    try:
        raw.send(frame)
        sent += 1
    except OSError:
        pass

def ethernet(kind, rest, target=to):
    return target + me + struct.pack("!H", kind) + rest

def ip(total, protocol=17, header=0x45, fragment=0, source=b"\x0a\x4d\0\x01"):
    return struct.pack("!BBHHHBBH", header, 0, total, 1, fragment, 64, protocol, 0) + source + b"\x0a\x4d\0\x02"

# A frame truncated at every length, beginning with an empty frame.
whole = ethernet(0x0800, ip(48) + struct.pack("!HHHH", 9, 7, 28, 0) + b"x" * 20)
for size in range(14, len(whole)):
    send(whole[:size])
# Wrong lengths; invalid versions and header lengths; fragments; any protocol.
for total in (0, 1, 19, 20, 21, 47, 49, 1500, 65535):
    send(ethernet(0x0800, ip(total) + b"y" * 28))
for header in range(256):
    send(ethernet(0x0800, ip(48, header=header) + b"z" * 28))
    send(ethernet(0x86dd, bytes([header]) + b"\xff" * 60))
for protocol in range(256):
    send(ethernet(0x0800, ip(48, protocol=protocol) + bytes([protocol]) * 28))
for fragment in (0x2000, 0x1fff, 0x3fff, 0x4000):
    send(ethernet(0x0800, ip(48, fragment=fragment) + b"f" * 28))
# Sizes around the interface's limit; other receivers and broadcast; other protocols; the far end's address as source.
for size in (1399, 1400, 1401, 1404, 1414, 1418, 2000, 9000, 65000):
    send(ethernet(0x0800, ip(size) + b"l" * (size - 20)))
for target in (b"\xff" * 6, b"\x01\0\x5e\0\0\x01", b"\x33\x33\0\0\0\x01", b"\0" * 6, b"\x02\0\0\0\0\x20"):
    send(ethernet(0x0800, ip(48) + b"m" * 28, target))
for kind in (0, 46, 0x0806, 0x8100, 0x88a8, 0x8847, 0x88cc, 0xffff):
    send(ethernet(kind, b"\0" * 60))
send(ethernet(0x0800, ip(48, source=b"\x0a\x4d\0\x02") + b"s" * 28))
for _ in range(2000):
    send(generator.randbytes(generator.randrange(14, 200)))
    send(ethernet(generator.choice((0x0800, 0x86dd)), generator.randbytes(generator.randrange(0, 1400))))
print("sent", sent)
"#;

#[test]
fn a_hostile_program_does_not_bring_the_link_down() {
    or_skip!(can_link());
    or_skip!(program("python3"));
    let place = Place::new();
    std::fs::write(place.path("hostile.py"), HOSTILE).expect("the place can be written to");
    let profile = "mtu=1400B delay=1ms±500us order=free loss=1% corrupt=5% duplicate=2% reorder=1%/1ms";
    // Afterwards an ordinary connection still works, in one of several attempts.
    let script = "python3 hostile.py || exit $?; for i in 1 2 3 4 5; do \
                  exec 3<>/dev/tcp/$HAIRPIN_FAR/7 && printf hello >&3 && \
                  timeout 5 head -c 5 <&3 && exit 0; done; exit 91";
    let ran = run(&place, ["--link", profile, "--seed", "2", "--log", "packets", "--json"], script);
    if ran.code == Some(77) {
        skip!("packet sockets are refused here");
    }
    let ran = ran.with_code(0);
    let sent = ran.stderr.lines().find_map(|line| line.strip_prefix("sent ")?.parse::<u64>().ok());
    assert!(sent.is_some_and(|sent| sent > 4000), "{ran:#?}");
    assert!(ran.stderr.contains("hello"), "{ran:#?}");
    let told = ran.json();
    let record = &told["link"];
    assert_closes(record);
    assert_log_is_the_record(&log(&place.path("packets")), record);
    assert!(count(&record["up"]["packets"], "in") > 1000, "most frames reached the link: {record}");
}
