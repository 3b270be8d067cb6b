"""Clients and echo servers of other authors, for interop.rs.

    interop.py client KIND ADDRESS [CERTIFICATE]   sends messages of many sizes, and compares the answers
    interop.py server KIND FOLDER                  prints its port, and checks and echoes the messages of Hairpin
"""

import asyncio
import contextlib
import datetime
import http.server
import ipaddress
import pathlib
import socket
import ssl
import sys
import threading

SIZES = [1, 2, 5, 100, 1000, 1400, 5000, 16384, 16385, 70000, 1 << 19] + list(range(3, 12))
LENGTH = 64


def messages():
    for number, size in enumerate(SIZES):
        yield bytes((number + at) % 251 for at in range(size))


def check(sent, received):
    if sent != received:
        sys.exit(f"sent {len(sent)} bytes and received {len(received)} others")


# Clients.


def httpx_client(address, is_http2):
    import httpx

    with httpx.Client(http1=not is_http2, http2=is_http2) as client:
        for message in messages():
            answer = client.post(f"http://{address}/echo", content=message)
            assert answer.status_code == 200, answer
            assert answer.http_version == ("HTTP/2" if is_http2 else "HTTP/1.1"), answer
            check(message, answer.content)


def websocket_client(address):
    from websockets.sync.client import connect

    with connect(f"ws://{address}/", max_size=None) as client:
        for message in messages():
            client.send(message)
            check(message, client.recv())
        client.send("text")
        check("text", client.recv())


def grpc_client(address):
    import grpc

    with grpc.insecure_channel(address) as channel:
        unary = channel.unary_unary("/any.Service/Method")
        for message in messages():
            check(message, unary(message))
        both = channel.stream_stream("/any.Service/Stream")
        for sent, received in zip(messages(), both(messages()), strict=True):
            check(sent, received)


def quic_client(address, certificate):
    from aioquic.asyncio import connect
    from aioquic.asyncio.protocol import QuicConnectionProtocol
    from aioquic.quic.configuration import QuicConfiguration
    from aioquic.quic.events import DatagramFrameReceived

    class Protocol(QuicConnectionProtocol):
        datagram = None

        def quic_event_received(self, event):
            if isinstance(event, DatagramFrameReceived):
                self.datagram.set_result(event.data)
            super().quic_event_received(event)

    async def run(protocol):
        host, port = address.split(":")
        configuration = QuicConfiguration(alpn_protocols=[protocol], max_datagram_frame_size=1200)
        configuration.load_verify_locations(certificate)
        async with connect(host, int(port), configuration=configuration, create_protocol=Protocol) as client:
            for message in messages():
                reader, writer = await client.create_stream()
                writer.write(message)
                writer.write_eof()
                check(message, await reader.read())
            client.datagram = asyncio.get_running_loop().create_future()
            client._quic.send_datagram_frame(b"datagram")
            client.transmit()
            check(b"datagram", await client.datagram)

    for protocol in ["hairpin-echo", "hq-interop"]:
        asyncio.run(run(protocol))


# Certificates.


def certificate(folder, name, days):
    """Writes a certificate and its key, which any client with it as a root accepts for the name."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    now = datetime.datetime.now(datetime.timezone.utc)
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "test")])
    names = [x509.DNSName(name)] if name[0].isalpha() else [x509.IPAddress(ipaddress.ip_address(name))]
    made = x509.CertificateBuilder().subject_name(subject).issuer_name(subject).public_key(key.public_key())
    made = made.serial_number(7).not_valid_before(now - datetime.timedelta(days=9))
    made = made.not_valid_after(now + datetime.timedelta(days=days))
    made = made.add_extension(x509.SubjectAlternativeName(names), critical=False).sign(key, hashes.SHA256())
    pem = serialization.Encoding.PEM
    (folder / "certificate.pem").write_bytes(made.public_bytes(pem))
    form = serialization.PrivateFormat.PKCS8
    (folder / "key.pem").write_bytes(key.private_bytes(pem, form, serialization.NoEncryption()))


def encrypted(folder, protocols):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "certificate.pem", folder / "key.pem")
    context.set_alpn_protocols(protocols)
    return context


# Servers. Each checks the length and the number of each message of a connection.


def is_next(message, number):
    return len(message) == LENGTH and int.from_bytes(message[:8], "little") == number


class Http(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    number = 0

    def do_POST(self):
        message = self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200 if is_next(message, self.number) else 500)
        self.number += 1
        self.send_header("Content-Length", str(len(message)))
        self.end_headers()
        self.wfile.write(message)

    def log_message(self, *_):
        pass


def http_server(folder, protocols):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Http)
    if protocols:
        server.socket = encrypted(folder, protocols).wrap_socket(server.socket, server_side=True)
    print(server.server_port, flush=True)
    server.serve_forever()


def http2_connection(stream):
    import h2.config
    import h2.connection
    import h2.events

    connection = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False))
    connection.initiate_connection()
    bodies, number = {}, 0
    with contextlib.suppress(OSError):
        stream.sendall(connection.data_to_send())
        while data := stream.recv(65536):
            for event in connection.receive_data(data):
                if isinstance(event, h2.events.DataReceived):
                    bodies[event.stream_id] = bodies.get(event.stream_id, b"") + event.data
                    connection.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
                elif isinstance(event, h2.events.StreamEnded):
                    body = bodies.pop(event.stream_id, b"")
                    status = "200" if is_next(body, number) else "500"
                    number += 1
                    connection.send_headers(event.stream_id, [(":status", status)])
                    connection.send_data(event.stream_id, body, end_stream=True)
            stream.sendall(connection.data_to_send())


def http2_server(folder, protocols):
    listener = socket.create_server(("127.0.0.1", 0))
    context = encrypted(folder, protocols) if protocols else None
    print(listener.getsockname()[1], flush=True)
    while True:
        stream, _ = listener.accept()
        if context:
            try:
                stream = context.wrap_socket(stream, server_side=True)
            except OSError:
                continue
        threading.Thread(target=http2_connection, args=(stream,), daemon=True).start()


def websocket_server(folder, is_encrypted):
    from websockets.sync.server import serve

    def echo(client):
        if client.request.path == "/refuse":
            client.close(4001, "no")
            return
        for number, message in enumerate(client):
            if not is_next(message, number):
                client.close(1008, "unexpected message")
            client.send(message)

    context = encrypted(folder, ["http/1.1"]) if is_encrypted else None
    with serve(echo, "127.0.0.1", 0, ssl=context) as server:
        print(server.socket.getsockname()[1], flush=True)
        server.serve_forever()


def grpc_server(_folder):
    from concurrent.futures import ThreadPoolExecutor

    import grpc

    def echo(request, context):
        # The key of field 1, and the length.
        if request and request[:2] != bytes([10, LENGTH]):
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, "unexpected message")
        return request

    def refuse(_request, context):
        context.abort(grpc.StatusCode.NOT_FOUND, "not here")

    handlers = {"Unary": echo, "Refuse": refuse}
    handlers = {name: grpc.unary_unary_rpc_method_handler(handler) for name, handler in handlers.items()}
    server = grpc.server(ThreadPoolExecutor(2))
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler("test.Echo", handlers)])
    print(server.add_insecure_port("127.0.0.1:0"), flush=True)
    server.start()
    server.wait_for_termination()


def quic_server(folder):
    from aioquic.asyncio import QuicConnectionProtocol, serve
    from aioquic.quic.configuration import QuicConfiguration
    from aioquic.quic.events import StreamDataReceived

    class Protocol(QuicConnectionProtocol):
        number = 0
        streams = None

        def quic_event_received(self, event):
            if isinstance(event, StreamDataReceived):
                self.streams = self.streams or {}
                body = self.streams.pop(event.stream_id, b"") + event.data
                if not event.end_stream:
                    self.streams[event.stream_id] = body
                    return
                if not is_next(body, self.number):
                    self._quic.close(error_code=42, reason_phrase="unexpected message")
                self.number += 1
                self._quic.send_stream_data(event.stream_id, body, end_stream=True)

    async def run():
        configuration = QuicConfiguration(is_client=False, alpn_protocols=["test-echo"])
        configuration.load_cert_chain(folder / "certificate.pem", folder / "key.pem")
        # Its port can be chosen only before.
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        await serve("127.0.0.1", port, configuration=configuration, create_protocol=Protocol)
        print(port, flush=True)
        await asyncio.Future()

    asyncio.run(run())


def main():
    role, kind, *rest = sys.argv[1:]
    if role == "client":
        clients = {
            "http1": lambda: httpx_client(rest[0], False),
            "http2": lambda: httpx_client(rest[0], True),
            "websocket": lambda: websocket_client(rest[0]),
            "grpc": lambda: grpc_client(rest[0]),
            "quic": lambda: quic_client(rest[0], rest[1]),
        }
        clients[kind]()
        print(f"{len(SIZES)} messages")
        return
    folder = pathlib.Path(rest[0])
    host = "elsewhere.example" if kind == "https-other-name" else "127.0.0.1"
    certificate(folder, host, -1 if kind == "https-expired" else 9)
    servers = {
        "http": lambda: http_server(folder, []),
        "https": lambda: http_server(folder, ["http/1.1"]),
        "https-expired": lambda: http_server(folder, ["http/1.1"]),
        "https-other-name": lambda: http_server(folder, ["http/1.1"]),
        "http2": lambda: http2_server(folder, []),
        "https2": lambda: http2_server(folder, ["h2"]),
        "ws": lambda: websocket_server(folder, False),
        "wss": lambda: websocket_server(folder, True),
        "grpc": lambda: grpc_server(folder),
        "quic": lambda: quic_server(folder),
    }
    servers[kind]()


main()
