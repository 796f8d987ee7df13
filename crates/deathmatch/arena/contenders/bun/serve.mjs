// Serves a directory with Bun.serve and Bun.file: serve.mjs DIRECTORY PORT WORKERS
import { readdirSync } from "node:fs";

const [directory, port, workers] = process.argv.slice(2);
if (Number(workers) > 1) {
  const command = [process.execPath, import.meta.path, directory, port, "1"];
  const spawned = Array.from({ length: Number(workers) }, () => Bun.spawn(command));
  process.on("SIGTERM", () => {
    for (const worker of spawned) worker.kill();
    process.exit(0);
  });
} else {
  const routes = {};
  for (const entry of readdirSync(directory, { recursive: true, withFileTypes: true })) {
    if (!entry.isFile()) continue;
    const path = `${entry.parentPath}/${entry.name}`;
    routes[path.slice(directory.length)] = new Response(Bun.file(path));
  }
  const fetch = () => new Response("not found", { status: 404 });
  Bun.serve({ hostname: "127.0.0.1", port: Number(port), reusePort: true, idleTimeout: 65, routes, fetch });
}
