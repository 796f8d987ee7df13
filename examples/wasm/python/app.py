from urllib.parse import parse_qs, urlsplit

from componentize_py_types import Ok
from wit_world import exports
from wit_world.imports.types import (
    Fields,
    IncomingRequest,
    OutgoingBody,
    OutgoingResponse,
    ResponseOutparam,
)


class IncomingHandler(exports.IncomingHandler):
    def handle(self, request: IncomingRequest, response_out: ResponseOutparam) -> None:
        target = urlsplit(request.path_with_query() or "/")
        status, text = answer(target.path, parse_qs(target.query))
        fields = Fields.from_list([("content-type", b"text/plain; charset=utf-8")])
        response = OutgoingResponse(fields)
        response.set_status_code(status)
        body = response.body()
        ResponseOutparam.set(response_out, Ok(response))
        with body.write() as stream:
            stream.blocking_write_and_flush(text.encode())
        OutgoingBody.finish(body, None)


def answer(path: str, query: dict[str, list[str]]) -> tuple[int, str]:
    if path == "/hello":
        return 200, f"hello, {query.get('name', ['world'])[0]}\n"
    return 404, "not found\n"
