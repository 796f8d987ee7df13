"""A WSGI application, and a server for it on the socket that hurtle hands over."""

import json
import os
import socket
import sys
from socketserver import ThreadingMixIn
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

MOUNT = os.environ["HURTLE_PATH"]


def application(environ, start_response):
    """Any WSGI application may stand here: Django's, Flask's, your own."""
    length = int(environ.get("CONTENT_LENGTH") or 0)
    body = json.dumps({
        "method": environ["REQUEST_METHOD"],
        "path": environ["PATH_INFO"].removeprefix(MOUNT),
        "client": environ.get("HTTP_X_FORWARDED_FOR"),
        "body": environ["wsgi.input"].read(length).decode(),
    }).encode()
    start_response("200 OK", [("Content-Type", "application/json"), ("Content-Length", str(len(body)))])
    return [body]


class Handler(WSGIRequestHandler):
    def log_message(self, format, *args):
        # Whatever is written here is in the server's error log, behind "app python:".
        print(format % args, file=sys.stderr, flush=True)


class Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True

    def __init__(self):
        super().__init__(("", 0), Handler, bind_and_activate=False)
        self.socket.close()
        self.socket = socket.socket(fileno=0)
        self.server_name, self.server_port = "localhost", 80
        self.setup_environ()
        self.set_app(application)

    def get_request(self):
        # The other end of a unix socket has no address, and WSGI wants one.
        connection, _ = self.socket.accept()
        return connection, ("127.0.0.1", 0)


Server().serve_forever()
