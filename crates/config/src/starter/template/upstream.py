# Stands for an API that knows nothing of keys: python3 upstream.py PORT
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

charges = []


class Api(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        charges.append(body)
        print("charged", body.decode(), flush=True)
        self.answer(201, b'{"charge":%d}\n' % len(charges))

    def do_GET(self):
        self.answer(200, b'{"charges":%d}\n' % len(charges))

    def answer(self, status, body):
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


server = ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Api)
print("listening on port", server.server_port, flush=True)
server.serve_forever()
