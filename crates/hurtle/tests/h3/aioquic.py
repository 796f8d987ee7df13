"""A client of aioquic: see real.rs."""

import asyncio
import ssl
import sys

from aioquic.asyncio import QuicConnectionProtocol, connect
from aioquic.h3.connection import H3Connection
from aioquic.h3.events import DataReceived, HeadersReceived
from aioquic.quic.configuration import QuicConfiguration


class Client(QuicConnectionProtocol):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.http = H3Connection(self._quic)
        self.events, self.done = {}, {}

    def quic_event_received(self, event):
        for part in self.http.handle_event(event):
            if isinstance(part, (HeadersReceived, DataReceived)):
                self.events[part.stream_id].append(part)
                if part.stream_ended:
                    self.done[part.stream_id].set_result(None)

    async def send(self, method, path, body=b""):
        stream = self._quic.get_next_available_stream_id()
        self.events[stream], self.done[stream] = [], asyncio.get_running_loop().create_future()
        fields = [(":method", method), (":scheme", "https"), (":authority", "test.example"), (":path", path)]
        encoded = [(name.encode(), value.encode()) for name, value in fields]
        self.http.send_headers(stream, encoded, end_stream=not body)
        if body:
            self.http.send_data(stream, body, end_stream=True)
        self.transmit()
        await asyncio.wait_for(self.done[stream], 50)
        parts = self.events[stream]
        status = dict(parts[0].headers)[b":status"].decode()
        return status, sum(len(part.data) for part in parts if isinstance(part, DataReceived))


async def main():
    configuration = QuicConfiguration(
        is_client=True, alpn_protocols=["h3"], verify_mode=ssl.CERT_NONE, server_name="test.example"
    )
    port = int(sys.argv[1])
    async with connect("127.0.0.1", port, configuration=configuration, create_protocol=Client) as client:
        many = await asyncio.gather(*[client.send("GET", "/a.txt") for _ in range(20)])
        (status, size), = set(many)
        print(len(many), "times /a.txt", status, size)
        print("/large.bin", *await client.send("GET", "/large.bin"))
        print("/none", (await client.send("GET", "/none"))[0])
        print("PUT", (await client.send("PUT", "/new.bin", b"x" * 300_000))[0])


asyncio.run(main())
