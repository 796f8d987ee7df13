addEventListener("fetch", (event) => event.respondWith(answer(event.request)));

async function answer(request) {
  const url = new URL(request.url);
  if (url.pathname === "/hello") {
    return new Response(`hello, ${url.searchParams.get("name") ?? "world"}\n`);
  }
  return new Response("not found\n", { status: 404 });
}
