// Messages of WebSockets (RFC 6455): `serve KIND PEM` echoes them, `call ADDRESS` is a client.
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import http2 from "node:http2";

// Echoes the frames of a client. The text "end" is answered by a close with the code 4001.
function echo(socket) {
  let held = Buffer.alloc(0);
  let isOver = false;
  const send = (first, data) => {
    const head = Buffer.alloc(data.length < 126 ? 2 : data.length < 65536 ? 4 : 10);
    head[0] = first;
    if (head.length === 2) head[1] = data.length;
    if (head.length === 4) { head[1] = 126; head.writeUInt16BE(data.length, 2); }
    if (head.length === 10) { head[1] = 127; head.writeBigUInt64BE(BigInt(data.length), 2); }
    socket.write(Buffer.concat([head, data]));
  };
  const close = (data) => {
    if (!isOver) send(0x88, data);
    isOver = true;
  };
  socket.on("error", () => {});
  socket.on("end", () => socket.end());
  socket.on("data", (data) => {
    held = Buffer.concat([held, data]);
    for (;;) {
      if (held.length < 2) return;
      let [len, at] = [held[1] & 127, 2];
      if (len === 126) { if (held.length < 4) return; [len, at] = [held.readUInt16BE(2), 4]; }
      if (len === 127) { if (held.length < 10) return; [len, at] = [Number(held.readBigUInt64BE(2)), 10]; }
      if (held.length < at + 4 + len) return;
      const [first, mask] = [held[0], held.subarray(at, at + 4)];
      const text = Buffer.from(held.subarray(at + 4, at + 4 + len));
      for (let n = 0; n < len; n += 1) text[n] ^= mask[n % 4];
      held = held.subarray(at + 4 + len);
      if ((first & 15) === 8) {
        close(text);
        socket.end();
        return;
      }
      if (text.toString() === "end") close(Buffer.concat([Buffer.from([0x0f, 0xa1]), Buffer.from("end")]));
      else send(first, text);
    }
  });
}

function serve(kind, pem) {
  const secure = { cert: readFileSync(pem), key: readFileSync(pem) };
  const settings = { enableConnectProtocol: kind !== "secure-upgrade" };
  const server = kind === "stream"
    ? http2.createServer({ settings })
    : http2.createSecureServer({ ...secure, settings, allowHTTP1: kind === "secure-upgrade" });
  server.on("stream", (stream, head) => {
    if (head[":method"] !== "CONNECT" || head[":protocol"] !== "websocket" || "sec-websocket-key" in head) {
      stream.respond({ ":status": 400 }, { endStream: true });
      return;
    }
    if (head[":path"] === "/refused") {
      stream.respond({ ":status": 403 });
      stream.end("no");
      return;
    }
    stream.respond({ ":status": 200, "sec-websocket-protocol": "chat" });
    echo(stream);
  });
  server.on("upgrade", (request, socket) => {
    if (request.url === "/refused") {
      socket.end("HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\nConnection: close\r\n\r\nno");
      return;
    }
    const hash = createHash("sha1").update(request.headers["sec-websocket-key"]);
    const accept = hash.update("258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest("base64");
    socket.write("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n" +
      `Sec-WebSocket-Accept: ${accept}\r\nSec-WebSocket-Protocol: chat\r\n\r\n`);
    echo(socket);
  });
  server.listen(0, "localhost", () => console.log(server.address().port));
}

function open(address, path) {
  const socket = new WebSocket(`ws://${address}${path}`, ["chat"]);
  socket.binaryType = "arraybuffer";
  const waiting = new Map();
  for (const kind of ["open", "message", "close", "error"]) {
    socket.addEventListener(kind, (event) => waiting.get(kind)?.(event));
  }
  const next = (kind) => new Promise((resolve) => waiting.set(kind, resolve));
  return { socket, next };
}

async function call(address) {
  const { socket, next } = open(address, "/chat");
  await next("open");
  console.log("open", socket.protocol);
  const ask = (message) => {
    const answered = next("message");
    socket.send(message);
    return answered;
  };
  console.log((await ask("hello")).data);
  const large = new Uint8Array(300000).map((_, n) => n % 251);
  const same = Buffer.from((await ask(large)).data);
  console.log(`${same.length} bytes,`, same.equals(Buffer.from(large)) ? "the same" : "others");
  console.log((await ask("")).data === "" ? "empty" : "not empty");
  const closed = next("close");
  socket.close(1000, "done");
  const { code, reason, wasClean } = await closed;
  console.log("closed", code, reason, wasClean);

  const second = open(address, "/chat");
  await second.next("open");
  const ended = second.next("close");
  second.socket.send("end");
  const end = await ended;
  console.log("server closed", end.code, end.reason, end.wasClean);

  const third = open(address, "/refused");
  await third.next("error");
  console.log("refused");
}

const [, , mode, ...rest] = process.argv;
if (typeof WebSocket === "undefined") process.exit(1);
if (mode === "serve") serve(...rest);
else await call(...rest);
