"""Servers that the tests ask: one that answers as a case says, and the real one."""

from __future__ import annotations

import http.server
import json
import os
import signal
import socket
import socketserver
import subprocess
import tempfile
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any, Dict, List, Tuple

import semel

CLIENTS = Path(__file__).resolve().parent.parent.parent


def read(name: str) -> Dict[str, Any]:
    """Reads a table of cases with all digits of its numbers."""
    return semel._read((CLIENTS / name).read_bytes())


class Scripted:
    """Answers each call as a script says, and keeps what it was asked."""

    def __init__(self, script: Dict[str, List[Any]], answers: Dict[str, Any]) -> None:
        self.script, self.answers = script, answers
        self.asked: Dict[str, int] = {}
        self.claim_ids: set[str] = set()
        self.faults: List[str] = []
        scripted = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                raw = self.rfile.read(int(self.headers["Content-Length"]))
                scripted.answer(self, semel._read(raw))

            def log_message(self, *_: Any) -> None:
                pass

        class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
            daemon_threads = True
            allow_reuse_address = True

            def handle_error(self, *_: Any) -> None:
                pass

        self.server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        self.lock = threading.Lock()
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()

    def answer(self, request: http.server.BaseHTTPRequestHandler, body: Dict[str, Any]) -> None:
        call = request.path.rsplit("/", 1)[1]
        if call not in ("claims",) and not request.path.startswith("/v1/claims/C1/"):
            self.faults.append(f"asked for {request.path}")
        with self.lock:
            count = self.asked[call] = self.asked.get(call, 0) + 1
            if "claim_id" in body:
                self.claim_ids.add(body["claim_id"])
        answers = self.script.get(call, ["away"])
        step = self.resolved(answers[min(count, len(answers)) - 1])
        for name, value in step.get("expects", {}).items():
            if body.get(name, ...) != value:
                self.faults.append(f"{call}: {name} is {body.get(name, 'absent')!r}, not {value!r}")
        for name, value in step.get("expects_headers", {}).items():
            if request.headers.get(name) != value:
                self.faults.append(f"{call}: header {name} is {request.headers.get(name)!r}")
        if step.get("expects_text", "") not in semel._write(body):
            self.faults.append(f"{call}: no {step['expects_text']!r} in {body}")
        fault = step.get("fault")
        if fault == "cut":
            request.close_connection = True
            request.connection.shutdown(socket.SHUT_RDWR)
            return
        if fault == "slow":
            time.sleep(step["slow_ms"] / 1000)
        raw = (step.get("raw") or semel._write(step["body"])).encode()
        request.send_response(step["status"])
        request.send_header("Content-Type", "application/json")
        request.send_header("Content-Length", str(len(raw)))
        for name, value in step.get("headers", {}).items():
            request.send_header(name, value)
        request.end_headers()
        if fault == "half":
            request.wfile.write(raw[: len(raw) // 2])
            request.wfile.flush()
            request.close_connection = True
            request.connection.shutdown(socket.SHUT_RDWR)
        else:
            request.wfile.write(raw)

    def resolved(self, step: Any) -> Dict[str, Any]:
        if isinstance(step, str):
            return self.answers[step]
        return {**self.answers.get(step.get("answer", ""), {}), **step}

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()


class Real:
    """`semel run` with the claim API over an embedded store in a folder of its own."""

    def __init__(self) -> None:
        binary = os.environ.get("SEMEL_BIN")
        if not binary:
            raise RuntimeError("SEMEL_BIN names no binary; `cargo xtask clients` builds one")
        self.binary = binary
        self.folder = tempfile.TemporaryDirectory(prefix="semel-python-")
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            port = taken.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        self.config = Path(self.folder.name) / "semel.toml"
        self.config.write_text(f'[store]\nurl = "embedded:./data"\n\n[claims]\nlisten = "127.0.0.1:{port}"\n')
        self.log = open(Path(self.folder.name) / "log", "wb")
        self.start()

    def start(self) -> None:
        arguments = [self.binary, "run", str(self.config)]
        self.process = subprocess.Popen(arguments, stdout=self.log, stderr=self.log, stdin=subprocess.DEVNULL)
        until = time.monotonic() + 15
        while time.monotonic() < until:
            try:
                urllib.request.urlopen(self.url + "/v1/openapi.json", timeout=1).read()
                return
            except (OSError, urllib.error.URLError):
                if self.process.poll() is not None:
                    break
                time.sleep(0.02)
        self.process.kill()
        raise RuntimeError("semel does not come up: " + Path(self.log.name).read_text(errors="replace"))

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def close(self) -> None:
        self.kill()
        self.log.close()
        self.folder.cleanup()


def problem(body: bytes) -> Tuple[Any, Any]:
    """The code and the original status of a problem."""
    value = json.loads(body)
    return value.get("code"), value.get("original_status")
