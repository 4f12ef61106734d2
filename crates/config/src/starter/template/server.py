# Stands for a provider that honours the header Idempotency-Key: python3 server.py PORT
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer

answers = {}


class Provider(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        key = self.headers["Idempotency-Key"]
        if key not in answers:
            answers[key] = b'{"charge":%d}' % (len(answers) + 1)
            print("charged", body.decode(), flush=True)
        self.send_response(200)
        self.send_header("Content-Length", str(len(answers[key])))
        self.end_headers()
        self.wfile.write(answers[key])

    def log_message(self, *_):
        pass


server = HTTPServer(("127.0.0.1", int(sys.argv[1])), Provider)
print("listening on port", server.server_port, flush=True)
server.serve_forever()
