"""Attacks on `hairpin serve` by a client of docs/protocol.md that shares no code with Hairpin.

    python3 xtask/src/attacks.py PROGRAM [ATTACK...]      # as root, which forged source addresses need; needs python3-openssl

Each attack prints what happened and whether it is as docs/two-hosts.md says. The exit code is 1 if one is not.
"""

import base64, hashlib, hmac, json, os, random, shutil, socket, struct, subprocess, sys, tempfile, threading, time

from OpenSSL import SSL

PROGRAM = os.path.abspath(sys.argv[1])
FOLDER = tempfile.mkdtemp(prefix="hairpin-attacks-")
ENVIRONMENT = dict(os.environ, XDG_STATE_HOME=FOLDER + "/state")
FAULTS = []


def verdict(name, is_fine, text):
    print(f"{'ok ' if is_fine else 'BAD'} {name}: {text}", flush=True)
    if not is_fine:
        FAULTS.append(name)


def hairpin(arguments, timeout=300):
    return subprocess.run([PROGRAM] + arguments.split(), cwd=FOLDER, env=ENVIRONMENT, capture_output=True, text=True, timeout=timeout)


class Server:
    def __init__(self, names):
        with open(FOLDER + "/names", "w") as file:
            file.write(names)
        self.words = open(FOLDER + "/words", "w")
        self.log = open(FOLDER + "/log", "w")
        command = [PROGRAM, "serve", "--bind", "127.0.0.1:0", "--tickets", "names"]
        self.process = subprocess.Popen(command, cwd=FOLDER, env=ENVIRONMENT, stdout=self.words, stderr=self.log)
        count = len(names.strip().splitlines())
        until(lambda: len(open(FOLDER + "/words").read().splitlines()) == count)
        self.tickets = dict(line.split() for line in open(FOLDER + "/words").read().splitlines())
        for name, word in self.tickets.items():
            with open(f"{FOLDER}/{name}", "w") as file:
                file.write(word)

    def rss_kib(self):
        status = open(f"/proc/{self.process.pid}/status").read()
        return int(status.split("VmRSS:")[1].split()[0])

    def end(self):
        self.process.terminate()
        self.process.wait()


def until(done, seconds=30):
    end = time.time() + seconds
    while not done():
        if time.time() > end:
            raise TimeoutError("a condition did not become true")
        time.sleep(0.02)


class Ticket:
    def __init__(self, word):
        address, letters = word.split("#")
        host, port = address.rsplit(":", 1)
        payload = base64.urlsafe_b64decode(letters[:76])
        self.at, self.fingerprint, self.secret = (host, int(port)), payload[1:33], payload[33:49]


class Control:
    """An authenticated connection."""

    def __init__(self, ticket, purpose, timeout=120):
        context = SSL.Context(SSL.TLS_CLIENT_METHOD)
        context.set_min_proto_version(SSL.TLS1_3_VERSION)
        context.set_alpn_protos([b"hairpin"])
        self.socket = socket.create_connection(ticket.at, timeout=timeout)
        self.socket.settimeout(None)
        self.tls = SSL.Connection(context, self.socket)
        self.tls.set_connect_state()
        self.tls.do_handshake()
        certificate = self.tls.get_peer_certificate()
        assert bytes.fromhex(certificate.digest("sha256").decode().replace(":", "")) == ticket.fingerprint
        exported = self.tls.export_keying_material(b"EXPORTER-Channel-Binding", 32)
        digest = lambda text: hmac.new(ticket.secret, text, hashlib.sha256).digest()
        proof = base64.b64encode(digest(b"hairpin/1 client" + exported)).decode().rstrip("=")
        name = digest(b"hairpin/1 name of the ticket")[:4].hex()
        self.send({"version": 1, "tool": "attack", "ticket": name, "proof": proof, "purpose": purpose})
        self.answer = self.receive()
        if "waiting" in self.answer:
            self.answer = self.receive()
        if "welcome" in self.answer:
            server = digest(b"hairpin/1 server" + exported)
            assert base64.b64decode(self.answer["welcome"]["proof"] + "=") == server, "the server proves the secret"

    def send(self, message):
        text = message if isinstance(message, bytes) else json.dumps(message).encode()
        self.tls.sendall(struct.pack("<I", len(text)) + text)

    def receive(self):
        length = struct.unpack("<I", self.exactly(4))[0]
        return json.loads(self.exactly(length))

    def exactly(self, count):
        data = b""
        while len(data) < count:
            data += self.tls.recv(count - len(data))
        return data

    def close(self):
        self.socket.close()


def session(ticket):
    control = Control(ticket, "session")
    if "welcome" in control.answer:
        control.about = control.receive()
    return control


def order(transport, timeout_ns=2_000_000_000, size=4):
    flow = {"id": "main", "role": "measured", "transport": transport, "options": {}, "direction": "round-trip", "streams": 1, "connections": 1, "receivers": 1,
            "load": {"kind": "ping-pong", "size_bytes": size, "reply_size_bytes": size}}
    case = {"flows": [flow], "ends": {"kind": "processes", "waiting": "block", "placement": "unpinned", "cpu_idle": "deep"},
            "path": {"link": "loopback", "kind": "hosts", "host": "127.0.0.1", "fallback": None}}
    return {"case": case, "block": 0, "extent": {"count": 1}, "warm_up": {"count": 0}, "timeout_ns": timeout_ns, "deadline_ns": 2**62,
            "keep_samples": 1, "allow_unmet_options": False, "port": 0, "link_seed": 0}


def hello(kind, cookie, nonce=bytes(16)):
    return bytes([kind, 1]) + cookie + nonce + b"hrpn\xb5\x1e"


def silent_round(ticket, number):
    """Holds a turn: connects a flow and never sends. Returns for how long the server allowed it."""
    control = Control(ticket, {"round": number})
    if "welcome" not in control.answer:
        return 0
    began = time.time()
    try:
        control.receive()
        control.send({"version": 2})
        cookie = os.urandom(16)
        control.send({"order": {"round": order("tcp", timeout_ns=2**62), "cookie": list(cookie)}})
        if "listening" in control.receive():
            flow = socket.create_connection(ticket.at)
            flow.sendall(hello(4, cookie))
            while True:
                control.receive()
    except Exception:
        pass
    control.close()
    return time.time() - began


def starve(server):
    greedy = Ticket(server.tickets["greedy"])
    stop, held = threading.Event(), []

    def hold():
        own = session(greedy)
        if "welcome" not in own.answer:
            return
        while not stop.is_set():
            try:
                held.append(silent_round(greedy, own.answer["welcome"]["session"]))
            except Exception:
                time.sleep(0.1)

    for _ in range(20):
        threading.Thread(target=hold, daemon=True).start()
    time.sleep(2)
    began = time.time()
    ran = hairpin("round-trip --transport tcp --duration 500ms --warmup 0 --rounds 4 --json --to @victim")
    took = time.time() - began
    stop.set()
    rounds = json.loads(ran.stdout)["cases"][0]["rounds"] if ran.returncode == 0 else 0
    each = (took - 2) / 4
    verdict("starvation", rounds == 4 and each < 20, f"4 rounds in {took:.1f} s beside 20 greedy sessions, {rounds} count; a greedy turn took up to {max(held, default=0):.1f} s")


def lock_out(server):
    greedy = Ticket(server.tickets["greedy"])
    open_sessions, refused = [], []
    for _ in range(255):
        one = session(greedy)
        (open_sessions if "welcome" in one.answer else refused).append(one)
    checked = hairpin("check @victim")
    said = refused[0].answer["refused"]["what"] if refused else ""
    verdict("idle sessions", checked.returncode == 0 and refused, f"{len(open_sessions)} of 255 sessions accepted, then `{said}`; the victim's check: exit code {checked.returncode}")
    for one in open_sessions + refused:
        one.close()


def checksum(data):
    if len(data) % 2:
        data += b"\0"
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    total = (total >> 16) + (total & 0xFFFF)
    return ~(total + (total >> 16)) & 0xFFFF


def udp_packet(source, to, payload):
    udp = struct.pack("!HHHH", source[1], to[1], 8 + len(payload), 0) + payload
    # The kernel fills in length, identification and checksum of the IP header.
    return struct.pack("!BBHHHBBH4s4s", 0x45, 0, 0, 0, 0, 64, 17, 0, socket.inet_aton(source[0]), socket.inet_aton(to[0])) + udp


def raw():
    return socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)


def reflect(server):
    greedy = Ticket(server.tickets["greedy"])
    own = session(greedy)
    cookie = os.urandom(16)
    own.send({"try_datagrams": list(cookie)})
    own.receive()
    third = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    third.bind(("127.0.0.9", 0))
    third.setblocking(False)
    victim_port = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    victim_port.bind(("127.0.0.1", 0))
    victim_port.setblocking(False)

    def answers(source, listening):
        packet, sender, began = udp_packet(source, greedy.at, hello(4, cookie)), raw(), time.time()
        sent = got = 0
        while time.time() < began + 3:
            sender.sendto(packet, greedy.at)
            sent += 1
            try:
                while listening.recv(100):
                    got += 1
            except BlockingIOError:
                pass
        return sent, got

    sent, got = answers(third.getsockname(), third)
    verdict("reflection to another host", got == 0, f"{sent} hellos from a forged address in 3 s, {got} answers arrived there")
    sent, got = answers(victim_port.getsockname(), victim_port)
    verdict("reflection to the own host", got <= 400, f"{sent} hellos from another port of the client's address in 3 s, {got} answers")
    own.close()


def client_address(server_port):
    """The local address of the socket that is connected to the server's UDP port."""
    for line in open("/proc/net/udp").read().splitlines()[1:]:
        local, remote = line.split()[1:3]
        if int(remote.split(":")[1], 16) == server_port and local.split(":")[0] != "00000000":
            host, port = local.split(":")
            if int(port, 16) != server_port:
                return (socket.inet_ntoa(struct.pack("<I", int(host, 16))), int(port, 16))
    return None


def forge(server, size, count):
    at = Ticket(server.tickets["victim"]).at
    result = {}

    def run():
        result["ran"] = hairpin(f"round-trip --transport udp --size {size} --rate 1000 --duration 50s --warmup 0 --rounds 1 --json --to @victim")

    thread = threading.Thread(target=run)
    thread.start()
    until(lambda: client_address(at[1]))
    time.sleep(1)
    client, sender = client_address(at[1]), raw()
    generator = random.Random(size)
    half = count // 2
    for number in range(half):
        if number % 4 == 0:
            payload = bytes(size)
        else:
            payload = (number // 4).to_bytes(8, "little")[:size] + generator.randbytes(max(size - 8, 0))
            payload = payload if size >= 8 and number % 2 else generator.randbytes(size)
        for source, to in ((client, at), (at, client)):
            try:
                sender.sendto(udp_packet(source, to, payload), to)
            except OSError:
                pass
    still = client_address(at[1]) == client
    # ICMP: port unreachable, for a packet of either end (RFC 792).
    icmp = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
    for source, to in ((client, at), (at, client)):
        inner = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 28 + size, 1, 0, 64, 17, 0, socket.inet_aton(source[0]), socket.inet_aton(to[0]))
        inner += struct.pack("!HHHH", source[1], to[1], 8 + size, 0)
        body = struct.pack("!BBHI", 3, 3, 0, 0) + inner
        body = body[:2] + struct.pack("!H", checksum(body)) + body[4:]
        for _ in range(100):
            icmp.sendto(body, (source[0], 0))
    thread.join()
    ran = result["ran"]
    if ran.returncode != 0:
        return verdict(f"{2 * half} forged datagrams of {size} B", False, ran.stdout[-2000:] + ran.stderr[-2000:])
    run = json.loads(ran.stdout)
    case = run["cases"][0]
    ledger = case["ledger"]
    strays = {name: sum(fact["value"] for end in case["ends"] for fact in end.get("facts", []) if fact["name"] == name) for name in ("socket.strays", "socket.icmp_errors")}
    counted = ledger["duplicated"] + ledger["lost"]["total"] if isinstance(ledger.get("lost"), dict) and "total" in ledger["lost"] else ledger["duplicated"]
    fine = ran.returncode == 0 and case["valid"] and still and (ledger["duplicated"] == 0 or size < 16)
    verdict(f"{2 * half} forged datagrams of {size} B", fine,
            f"round {'counts' if case['valid'] else 'left out'}; sent {ledger['sent']}, received {ledger['received']}, duplicated {ledger['duplicated']}, lost {ledger['lost']}; strays {strays['socket.strays']:.0f}, ICMP errors {strays['socket.icmp_errors']:.0f}")


def revoke(server):
    result = {}

    def run():
        result["ran"] = hairpin("round-trip --transport tcp --duration 50s --rounds 1 --to @victim")
        result["ended"] = time.time()

    before = open(FOLDER + "/log").read().count("begins a run")
    thread = threading.Thread(target=run)
    thread.start()
    until(lambda: open(FOLDER + "/log").read().count("begins a run") > before)
    time.sleep(3)
    identity = hmac.new(Ticket(server.tickets["victim"]).secret, b"hairpin/1 name of the ticket", hashlib.sha256).hexdigest()[:8]
    revoked = time.time()
    hairpin(f"serve --revoke {identity}")
    thread.join()
    log = open(FOLDER + "/log").read()
    took = result["ended"] - revoked
    verdict("revocation", "the ticket was revoked" in log and took < 3, f"the client's run ended {took:.2f} s later, with its report")


def garble(server, count):
    greedy = Ticket(server.tickets["greedy"])
    before = server.rss_kib()
    generator = random.Random(1)
    sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sender.connect(greedy.at)
    for number in range(count):
        data = generator.randbytes(generator.randrange(64))
        if number % 2:
            data = bytearray(hello(generator.randrange(3, 9), generator.randbytes(16), generator.randbytes(16)))
            data[generator.randrange(40)] ^= 1 << generator.randrange(8)
        try:
            sender.send(bytes(data))
        except OSError:
            pass
    for _ in range(2000):
        one = socket.create_connection(greedy.at)
        one.sendall(generator.randbytes(generator.randrange(1, 200)))
        one.close()
    template = json.dumps({"order": {"round": order("udp"), "cookie": [1] * 16}}).encode()
    own = session(greedy)
    orders = 0
    for number in range(300):
        control = Control(greedy, {"round": own.answer["welcome"]["session"]})
        text = bytearray(template)
        for _ in range(generator.randrange(1, 4)):
            text[generator.randrange(len(text))] = generator.randrange(256)
        try:
            control.receive()
            control.send({"version": 2})
            control.send(bytes(text))
            control.receive()
        except Exception:
            pass
        control.close()
        orders += 1
    own.close()
    after = server.rss_kib()
    checked = hairpin("check @other")
    verdict("random datagrams, connections and orders", checked.returncode == 0 and after < before + 20_000,
            f"{count} datagrams, 2000 connections, {orders} mutated orders; memory {before} KiB before, {after} KiB after; the next check: exit code {checked.returncode}")


def main():
    server = Server("greedy turn=10s\nvictim turn=60s\nother\n")
    try:
        attacks = {
            "starve": starve,
            "lock-out": lock_out,
            "reflect": reflect,
            "forge-64": lambda server: forge(server, 64, 1_000_000),
            "forge-16": lambda server: forge(server, 16, 1_000_000),
            "forge-4": lambda server: forge(server, 4, 1_000_000),
            "garble": lambda server: garble(server, 1_000_000),
            "revoke": revoke,
        }
        for name in sys.argv[2:] or attacks:
            attacks[name](server)
            # The sessions of an attack end when their connections are noticed as closed.
            time.sleep(12)
        log = open(FOLDER + "/log").read()
        verdict("the log", len(log) < 300_000, f"{len(log)} bytes, {len(log.splitlines())} lines")
    finally:
        server.end()
        shutil.rmtree(FOLDER)
    sys.exit(1 if FAULTS else 0)


main()
