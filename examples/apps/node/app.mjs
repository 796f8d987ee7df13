import { createServer } from "node:http";

const mount = process.env.HURTLE_PATH;

const server = createServer(async (request, response) => {
  let body = "";
  for await (const piece of request.setEncoding("utf8")) body += piece;
  response.setHeader("Content-Type", "application/json");
  response.end(JSON.stringify({
    method: request.method,
    path: request.url.slice(mount.length),
    client: request.headers["x-forwarded-for"],
    body,
  }));
});

server.listen(process.env.HURTLE_SOCKET, () => console.log(`ready for ${mount}`));

// Told to end: what is in flight is finished, within five seconds.
process.on("SIGTERM", () => server.close(() => process.exit(0)));
