"""Runs the examples of a document in their order; tells what each printed. In the emulator's namespace, as root."""

import json
import os
import re
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from signal import SIGTERM
from typing import Any

from tests.system.guest_scripts import three_hosts

BLOCK = re.compile(r"^```(\w+)( service)?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
INTERPRETERS = {"python": ["python3", "-"], "sh": ["sh", "-es"], "perl": ["perl", "-"]}


def run(language: str, text: str) -> dict[str, Any]:
    """Run an example as it stands."""
    command = three_hosts.on("emulator", INTERPRETERS[language])
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False, timeout=60)
    return {"language": language, "text": text, "status": done.returncode, "out": done.stdout, "err": done.stderr}


three_hosts.make()
os.environ["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
os.environ["PYTHONPATH"] = str(Path.cwd())
document = Path(sys.argv[1]).read_text()
folder = Path("/run/examples")
folder.mkdir()
os.chdir(folder)
ran: list[dict[str, Any]] = []
with ExitStack() as services:
    for language, service, text in BLOCK.findall(document):
        if service:
            services.close()
            command = three_hosts.on("emulator", ["sh", "-c", f"exec {text}"])
            services.enter_context(three_hosts.process(command, "listening", "stdout", SIGTERM))
        elif language == "text":
            ran[-1]["expected"] = text
        else:
            ran.append(run(language, text))
print(json.dumps({"ran": ran, "left": three_hosts.shaped()}))
