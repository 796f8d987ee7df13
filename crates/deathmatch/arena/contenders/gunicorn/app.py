"""Files of a directory, by WhiteNoise and nothing else."""

import os

from whitenoise import WhiteNoise


def nothing(environ, start_response):
    start_response("404 Not Found", [("Content-Type", "text/plain"), ("Content-Length", "0")])
    return []


app = WhiteNoise(nothing, root=os.environ["DEATHMATCH_DOCROOT"], charset="utf-8")
