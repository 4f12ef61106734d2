"""A payment API that honours `Idempotency-Key`: `python3 provider.py [PORT]`, which is 9123; 0 is any.

Every arrival is a line of arrivals.log, every charge one of charges.log, each written before it is answered. As
real ones do, it is busy now and then (503), and now and then charges and does not say so.
"""

import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

lock = threading.Lock()
charges = {}
arrivals = 0


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        global arrivals
        key = self.headers["Idempotency-Key"]
        order = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with lock:
            arrivals += 1
            note("arrivals.log", key, order)
            if arrivals % 17 == 0:
                return self.answer(503, {"error": "busy"})
            if key not in charges:
                charges[key] = {"charge": len(charges) + 1, "order_id": order["order_id"]}
                note("charges.log", key, order)
        if arrivals % 13 == 0:
            self.close_connection = True
            self.connection.close()
            return
        self.answer(201, charges[key])

    def answer(self, status, body):
        text = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_):
        pass


def note(log, key, order):
    with open(log, "a") as file:
        file.write(f"{key} {order['order_id']} {order['amount']}\n")


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, *_):
        pass  # a client that was killed


if __name__ == "__main__":
    server = Server(("127.0.0.1", int(sys.argv[1]) if len(sys.argv) > 1 else 9123), Handler)
    print(server.server_address[1], flush=True)
    server.serve_forever()
