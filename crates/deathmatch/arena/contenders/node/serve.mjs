// Serves a directory with Node's http and sirv: serve.mjs MODULES DIRECTORY PORT WORKERS
import cluster from "node:cluster";
import http from "node:http";
import { createRequire } from "node:module";

const [modules, directory, port, workers] = process.argv.slice(2);
if (cluster.isPrimary && Number(workers) > 1) {
  for (let worker = 0; worker < Number(workers); worker++) cluster.fork();
  process.on("SIGTERM", () => process.exit(0));
} else {
  const sirv = createRequire(`${modules}/`)("sirv");
  const server = http.createServer(sirv(directory));
  server.keepAliveTimeout = 65_000;
  server.listen({ host: "127.0.0.1", port: Number(port), backlog: 4096 });
}
