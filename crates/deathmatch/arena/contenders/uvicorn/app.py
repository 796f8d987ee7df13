"""Files of a directory, by Starlette's StaticFiles and nothing else."""

import os

from starlette.staticfiles import StaticFiles

app = StaticFiles(directory=os.environ["DEATHMATCH_DOCROOT"])
