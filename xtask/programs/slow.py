#!/usr/bin/env python3
"""Small slow programs, each with one known cause, and their fixed forms, for `cargo xtask explain`. Programs without a problem
are at the end; they have no forms.

    slow.py CAUSE slow|fixed server|client|both [HOST]
"""
import os
import select
import socket
import sys
import threading
import time

PORT = 7000
CAUSE, FORM, ROLE = sys.argv[1:4]
HOST = sys.argv[4] if len(sys.argv) > 4 else "127.0.0.1"
SLOW = FORM == "slow"


def listener(backlog=64):
    server = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    server.bind((("0.0.0.0" if ROLE == "server" else HOST), PORT))
    server.listen(backlog)
    return server


def dial():
    for _ in range(200):
        try:
            return socket.create_connection((HOST, PORT), timeout=4)
        except ConnectionRefusedError:
            time.sleep(0.01)
    raise SystemExit("no server")


def nodelay(sock):
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def exactly(sock, count):
    data = bytearray(count)
    view, got = memoryview(data), 0
    while got < count:
        part = sock.recv_into(view[got:])
        if not part:
            raise EOFError
        got += part
    return data


def each_connection(server, serve):
    """Serves every connection in a thread of its own."""

    def one(conn):
        try:
            serve(conn)
        except (EOFError, ConnectionError):
            pass
        finally:
            conn.close()

    while True:
        conn, _ = server.accept()
        threading.Thread(target=one, args=(conn,), daemon=True).start()


def echo(request, reply, prepare=lambda conn: None, send=lambda conn, data: conn.sendall(data), work=lambda: None):
    data = b"r" * reply

    def serve(conn):
        prepare(conn)
        while True:
            exactly(conn, request)
            work()
            send(conn, data)

    return serve


def requests(number, request, reply, pause=0.0, prepare=lambda conn: None, send=lambda conn, data: conn.sendall(data)):
    conn = dial()
    prepare(conn)
    for _ in range(number):
        send(conn, b"q" * request)
        exactly(conn, reply)
        time.sleep(pause)
    conn.close()


def two_writes(conn, data):
    conn.sendall(data[:20])
    conn.sendall(data[20:])


def split_if_slow(conn, data):
    (two_writes if SLOW else socket.socket.sendall)(conn, data)


def answer_in_two_writes():
    return lambda: each_connection(listener(), echo(10, 1020, send=two_writes, prepare=lambda c: None if SLOW else nodelay(c))), \
        lambda: requests(40, 10, 1020, prepare=nodelay)


def request_in_two_writes():
    def quick(conn):
        while True:
            data = b""
            while len(data) < 300:
                conn.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
                part = conn.recv(300)
                if not part:
                    return
                data += part
            conn.sendall(b"r" * 10)

    return lambda: each_connection(listener(), quick), lambda: requests(40, 300, 10, send=split_if_slow)


def small_receive_buffer():
    def client():
        conn = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        if SLOW:
            conn.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8192)
        conn.connect((HOST, PORT))
        for _ in range(3):
            conn.sendall(b"q" * 10)
            exactly(conn, 300_000)

    return lambda: each_connection(listener(), echo(10, 300_000)), client


def reads_slowly():
    def client():
        conn = dial()
        for _ in range(3):
            conn.sendall(b"q" * 10)
            left = 4_000_000
            while left:
                left -= len(conn.recv(min(left, 65536)))
                if SLOW:
                    time.sleep(0.01)

    return lambda: each_connection(listener(), echo(10, 4_000_000)), client


def one_blocks_all():
    def server():
        accepting = listener()
        conns = [accepting.accept()[0] for _ in range(4)]
        for conn in conns:
            conn.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 65536)
        end = time.time() + 3
        while time.time() < end:
            for conn in conns:
                conn.sendall(b"u" * 20_000)
            time.sleep(0.005)
        for conn in conns:
            conn.close()

    def client():
        def read(is_slow):
            conn = dial()
            if is_slow and SLOW:
                # Otherwise the buffer may grow so far that the server never waits.
                conn.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 200_000)
            while True:
                if is_slow and SLOW:
                    time.sleep(0.3)
                    for _ in range(10):
                        conn.recv(65536)
                elif not conn.recv(65536):
                    return

        readers = [threading.Thread(target=read, args=(number == 0,), daemon=True) for number in range(4)]
        [reader.start() for reader in readers]
        readers[1].join()

    return server, client


def large_transfers(size, number, pause):
    return lambda: each_connection(listener(), echo(10, size)), lambda: requests(number, 10, size, pause=pause)


def protocol_window():
    size, chunk = 1_000_000, 65536 if SLOW else 1_000_000

    def serve(conn):
        sent = 0
        while sent < size:
            exactly(conn, 8)
            conn.sendall(b"c" * min(chunk, size - sent))
            sent += chunk

    def client():
        conn, got = dial(), 0
        while got < size:
            conn.sendall(b"p" * 8)
            got += len(exactly(conn, min(chunk, size - got)))

    return lambda: each_connection(listener(), serve), client


def in_turn_or_at_once():
    def client():
        if SLOW:
            return requests(60, 50, 200, prepare=nodelay)
        conn = dial()
        conn.sendall(b"q" * 50 * 60)
        exactly(conn, 200 * 60)

    return lambda: each_connection(listener(), echo(50, 200, prepare=nodelay)), client


def a_connection_each():
    def client():
        if not SLOW:
            conn = dial()
            conn.sendall(b"q" * 50 * 30)
            exactly(conn, 200 * 30)
            return
        for _ in range(30):
            requests(1, 50, 200)

    return lambda: each_connection(listener(), echo(50, 200, prepare=nodelay)), client


def full_accept_queue():
    def server():
        accepting = listener(1 if SLOW else 64)
        while True:
            conn, _ = accepting.accept()
            if SLOW:
                time.sleep(0.1)
            try:
                exactly(conn, 10)
                conn.sendall(b"r" * 10)
            except (EOFError, ConnectionError):
                pass
            conn.close()

    def client():
        time.sleep(0.3)

        def one():
            try:
                requests(1, 10, 10)
            except (EOFError, OSError):
                pass

        all_of_them = [threading.Thread(target=one, daemon=True) for _ in range(12)]
        [one.start() for one in all_of_them]
        [one.join(4) for one in all_of_them]

    return server, client


def works():
    def work():
        if SLOW:
            end = time.perf_counter() + 0.01
            while time.perf_counter() < end:
                pass

    return lambda: each_connection(listener(), echo(50, 200, prepare=nodelay, work=work)), \
        lambda: requests(60, 50, 200, prepare=nodelay)


def event_loop_with_a_job():
    def server():
        accepting, conns, handled = listener(), [], 0
        while True:
            ready, _, _ = select.select([accepting] + conns, [], [])
            for sock in ready:
                if sock is accepting:
                    conns.append(sock.accept()[0])
                    nodelay(conns[-1])
                    continue
                data = sock.recv(50)
                if not data:
                    conns.remove(sock)
                    continue
                handled += 1
                if SLOW and handled % 200 == 0:
                    time.sleep(0.15)
                sock.sendall(b"r" * 200)

    def client():
        workers = [threading.Thread(target=requests, args=(300, 50, 200, 0.001)) for _ in range(4)]
        [worker.start() for worker in workers]
        [worker.join() for worker in workers]

    return server, client


def waits_for_a_cpu():
    def burn():
        while True:
            pass

    def client():
        os.sched_setaffinity(0, {0})
        burners = []
        for _ in range(3 if SLOW else 0):
            burner = os.fork()
            if burner == 0:
                burn()
            burners.append(burner)
        try:
            requests(150, 50, 200, prepare=nodelay)
        finally:
            [os.kill(burner, 9) for burner in burners]

    def work():
        end = time.thread_time() + 0.002
        while time.thread_time() < end:
            pass

    def server():
        os.sched_setaffinity(0, {0})
        each_connection(listener(), echo(50, 200, prepare=nodelay, work=work))

    return server, client


def works_for_its_cpu_time():
    """The server needs a quarter of a CPU's time; the quota of its control group is less than that in the slow form."""

    def work():
        end = time.thread_time() + 0.02
        while time.thread_time() < end:
            pass

    return lambda: each_connection(listener(), echo(50, 200, prepare=nodelay, work=work)), \
        lambda: requests(40, 50, 200, prepare=nodelay)


def updates(bytes_each):
    """A state every 4 ms, for 2 s: more than the link takes, or less."""

    def serve(conn):
        exactly(conn, 10)
        end = time.time() + 2
        while time.time() < end:
            conn.sendall(b"s" * bytes_each)
            time.sleep(0.004)

    def client():
        conn = dial()
        conn.sendall(b"q" * 10)
        while conn.recv(65536):
            pass

    return lambda: each_connection(listener(), serve), client


def datagrams_overrun():
    def server():
        sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096 if SLOW else 4_000_000)
        sock.bind((HOST, PORT))
        sock.settimeout(2)
        try:
            while True:
                sock.recv(2000)
                if SLOW:
                    time.sleep(0.002)
        except TimeoutError:
            pass

    def client():
        time.sleep(0.3)
        sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        for _ in range(300):
            sock.sendto(b"d" * 1000, (HOST, PORT))
            time.sleep(0.001 if not SLOW else 0.0002)
        time.sleep(0.3)

    return server, client


def many_at_once(number):
    def client():
        workers = [threading.Thread(target=requests, args=(100, 50, 200, 0.002)) for _ in range(number)]
        [worker.start() for worker in workers]
        [worker.join() for worker in workers]

    return lambda: each_connection(listener(), echo(50, 200, prepare=nodelay)), client


def several_in_flight():
    def client():
        conn = dial()
        nodelay(conn)
        conn.sendall(b"q" * 50 * 8)
        for _ in range(400):
            exactly(conn, 200)
            conn.sendall(b"q" * 50)
        exactly(conn, 200 * 8)

    return lambda: each_connection(listener(), echo(50, 200, prepare=nodelay)), client


def upload(size):
    return lambda: each_connection(listener(), echo(size, 10)), lambda: requests(2, size, 10)


def gathered():
    def send(conn, data):
        conn.sendmsg([data[:20], data[20:]])

    return lambda: each_connection(listener(), echo(10, 1020, send=send)), lambda: requests(200, 10, 1020, 0.001)


def corked():
    def send(conn, data):
        conn.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 1)
        two_writes(conn, data)
        conn.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 0)

    return lambda: each_connection(listener(), echo(10, 1020, send=send)), lambda: requests(200, 10, 1020, 0.001)


def web_pages(size, keeps_alive):
    from http.client import HTTPConnection
    from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1
        disable_nagle_algorithm = True

        def do_GET(self):
            self.send_response(200)
            self.send_header("Content-Length", str(size))
            self.end_headers()
            self.wfile.write(b"p" * size)

        def log_message(self, *_):
            pass

    def server():
        ThreadingHTTPServer(("0.0.0.0" if ROLE == "server" else HOST, PORT), Handler).serve_forever()

    def client():
        dial().close()
        conn = HTTPConnection(HOST, PORT)
        for _ in range(100 if keeps_alive else 20):
            conn.request("GET", "/")
            conn.getresponse().read()
            if not keeps_alive:
                conn.close()
                time.sleep(0.01)

    return server, client


def asynchronous():
    import asyncio

    async def handle(reader, writer):
        try:
            while True:
                await reader.readexactly(50)
                writer.write(b"r" * 200)
                await writer.drain()
        except (EOFError, ConnectionError):
            writer.close()

    async def serve():
        server = await asyncio.start_server(handle, "0.0.0.0" if ROLE == "server" else HOST, PORT)
        await server.serve_forever()

    def client():
        requests(300, 50, 200, 0.001)

    return lambda: asyncio.run(serve()), client


def datagrams():
    def server():
        sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        sock.bind(("0.0.0.0" if ROLE == "server" else HOST, PORT))
        while True:
            data, sender = sock.recvfrom(2000)
            sock.sendto(data, sender)

    def client():
        time.sleep(0.3)
        sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        sock.settimeout(0.2)
        for _ in range(200):
            sock.sendto(b"d" * 1000, (HOST, PORT))
            sock.recv(2000)

    return server, client


PROGRAMS = {
    "ping-pong": lambda: (lambda: each_connection(listener(), echo(50, 200, prepare=nodelay)),
                          lambda: requests(2_000, 50, 200, prepare=nodelay)),
    "few-requests": lambda: large_transfers(500, 3, 0),
    "download": lambda: large_transfers(5_000_000, 20, 0),
    "long-download": lambda: large_transfers(2_000_000, 1, 0),
    "upload": lambda: upload(5_000_000),
    "long-upload": lambda: upload(1_000_000),
    "many-clients": lambda: many_at_once(8),
    "several-in-flight": several_in_flight,
    "gathered-writes": gathered,
    "corked-writes": corked,
    "web-pages": lambda: web_pages(5_000, True),
    "large-web-pages": lambda: web_pages(200_000, True),
    "closed-web-pages": lambda: web_pages(5_000, False),
    "asynchronous": asynchronous,
    "datagrams": datagrams,
    "updates": lambda: updates(1_500),
    "nagle-meets-delayed-ack": answer_in_two_writes,
    "nagle-waits": request_in_two_writes,
    "receive-window": small_receive_buffer,
    "slow-reader": reads_slowly,
    "blocked-in-send": one_blocks_all,
    "congestion-window": lambda: large_transfers(200_000, 1, 0) if SLOW else large_transfers(2_000, 1, 0),
    "slow-start-after-idle": lambda: large_transfers(400_000, 5, 0.7 if SLOW else 0.0),
    "retransmission": lambda: large_transfers(500_000, 3, 0),
    "retransmission-time-out": lambda: large_transfers(1_000, 40, 0),
    "application-window": protocol_window,
    "one-request-per-round-trip": in_turn_or_at_once,
    "connection-per-request": a_connection_each,
    "accept-queue-overflow": full_accept_queue,
    "path-mtu": lambda: large_transfers(20_000, 2, 0),
    "server-work": works,
    "server-stalled": event_loop_with_a_job,
    "cpu-contention": waits_for_a_cpu,
    "cpu-quota": works_for_its_cpu_time,
    "own-send-queue": lambda: updates(6_000 if SLOW else 1_500),
    "delayed-ack": lambda: (lambda: each_connection(listener(), echo(2_800, 10)), lambda: requests(10, 2_800, 10, 0.3, nodelay)),
    "udp-receive-overrun": datagrams_overrun,
    "client-idle": lambda: large_transfers(200, 30, 0.05 if SLOW else 0.0),
    "link-saturated": lambda: large_transfers(1_000_000, 1, 0),
}


def main():
    server, client = PROGRAMS[CAUSE]()
    if ROLE == "server":
        server()
    elif ROLE == "client":
        try:
            client()
        except TimeoutError:
            print("no answer within 4 s", file=sys.stderr)
    else:
        child = os.fork()
        if child == 0:
            server()
            os._exit(0)
        try:
            client()
        finally:
            os.kill(child, 9)
            os.waitpid(child, 0)


main()
