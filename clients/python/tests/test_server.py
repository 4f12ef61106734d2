"""The client against the real server, used as its users would."""

from __future__ import annotations

import asyncio
import io
import multiprocessing
import os
import random
import subprocess
import sys
import threading
import time
import unittest
import uuid
from collections import defaultdict
from pathlib import Path
from typing import Any, Dict, List, Optional, Tuple

import semel

from .servers import Real, problem, read

KEYS, PROCESSES, THREADS, EACH_SECONDS = 20, 3, 3, 0.2


class WithServer(unittest.TestCase):
    server: Real

    @classmethod
    def setUpClass(cls) -> None:
        cls.server = Real()
        cls.client = semel.Semel(cls.server.url)

    @classmethod
    def tearDownClass(cls) -> None:
        cls.server.close()


class Once(WithServer):
    def test_a_duplicate_gets_the_outcome(self) -> None:
        outcome = {"id": 12345678901234567890123, "text": "é😀\n", "list": [1.5, None, True]}
        first = self.client.once("charge", "a", lambda op: outcome, fingerprint={"amount": 1}, transport="t1")
        again = self.client.once("charge", "a", self.fail, fingerprint={"amount": 1.0}, transport="t2")
        self.assertEqual((first.outcome, first.replayed, first.attempt), (outcome, False, 1))
        self.assertEqual((again.outcome, again.replayed, again.duplicate), (outcome, True, "republish"))
        self.assertEqual(again.operation_id or first.operation_id, first.operation_id)
        self.assertIsNotNone(again.completed_at)
        with self.assertRaises(semel.Conflict):
            self.client.once("charge", "a", self.fail, fingerprint={"amount": 2})

    def test_a_number_and_its_text_are_two_keys(self) -> None:
        self.assertFalse(self.client.once("types", 1, lambda op: 1).replayed)
        self.assertFalse(self.client.once("types", "1", lambda op: 2).replayed)
        big = 12345678901234567890123
        self.assertFalse(self.client.once("types", big, lambda op: 3).replayed)
        self.assertFalse(self.client.once("types", big + 1, lambda op: 4).replayed)
        self.assertEqual(self.client.once("types", big, self.fail).outcome, 3)

    def test_bytes_and_no_json(self) -> None:
        self.client.once("bytes", "a", lambda op: b"\0\xff")
        self.assertEqual(self.client.once("bytes", "a", self.fail).outcome, b"\0\xff")
        with self.assertRaises(semel.Unreadable) as told:
            self.client.once("bytes", "b", lambda op: {1})
        self.assertEqual(told.exception.result, {1})
        with self.assertRaises(semel.Unreadable):
            self.client.once("bytes", "b", self.fail)

    def test_large_and_deep_outcomes(self) -> None:
        for length, is_kept in [(900 << 10, True), (3 << 19, False), (3 << 20, False), (20 << 20, False)]:
            text = "x" * (length - 20)
            self.assertEqual(self.client.once("large", length, lambda op: text).outcome, text)
            again = self.client.once("large", length, self.fail)
            self.assertEqual((again.kept, again.outcome), (is_kept, text if is_kept else None), length)
        deep: List[Any] = []
        for _ in range(300):
            deep = [deep]
        with self.assertRaises(semel.Unreadable) as told:
            self.client.once("large", "deep", lambda op: deep)
        self.assertIs(told.exception.result, deep)
        with self.assertRaises(semel.Unreadable):
            self.client.once("large", "deep", self.fail)

    def test_the_ends_of_a_function(self) -> None:
        def not_applied(op: semel.Operation) -> None:
            raise semel.NotApplied("no route")

        def failed(op: semel.Operation) -> None:
            raise semel.Failed("card expired", certainty=semel.NOT_APPLIED)

        def broken(op: semel.Operation) -> None:
            raise OSError("reset")

        with self.assertRaises(semel.NotApplied):
            self.client.once("ends", "n", not_applied)
        self.assertEqual(self.client.once("ends", "n", lambda op: op.attempt).outcome, 2)
        with self.assertRaises(semel.Failed):
            self.client.once("ends", "f", failed)
        with self.assertRaises(semel.Dead):
            self.client.once("ends", "f", self.fail)
        with self.assertRaises(OSError):
            self.client.once("ends", "b", broken)
        with self.assertRaises(semel.InDoubt) as told:
            self.client.once("ends", "b", self.fail)
        self.assertEqual(told.exception.certainty, semel.MAYBE_APPLIED)
        with self.assertRaises(OSError):
            self.client.once("ends", "r", broken, class_="unkeyed", on_doubt="repeat")
        repeat = self.client.once(
            "ends", "r", lambda op: op.possible_repeat, class_="unkeyed", on_doubt="repeat", wait="5s"
        )
        self.assertTrue(repeat.outcome)

    def test_a_lease_is_kept_and_a_second_caller_waits(self) -> None:
        inside = threading.Event()

        def slow(op: semel.Operation) -> str:
            inside.set()
            time.sleep(4.5)
            return "slow"

        found: List[Any] = []
        thread = threading.Thread(target=lambda: found.append(self.client.once("slow", "a", slow, lease="2s")))
        thread.start()
        inside.wait(5)
        time.sleep(2.5)
        with self.assertRaises(semel.Busy) as told:
            self.client.once("slow", "a", self.fail, lease="2s")
        self.assertLessEqual(told.exception.retry_after, 2.1)
        again = self.client.once("slow", "a", self.fail, wait="20s")
        thread.join()
        self.assertEqual((again.outcome, again.replayed, found[0].outcome), ("slow", True, "slow"))

    def test_the_calls_one_by_one(self) -> None:
        claim = self.client.claim("low", "a", lease="30s", class_="unkeyed", on_doubt="park")
        self.assertEqual(claim["decision"], "granted")
        self.client.renew(claim["claim"], "30s")
        self.assertEqual(self.client.complete(claim["claim"], {"n": 1}, window="1d")["state"], "completed")
        self.assertEqual(self.client.complete(claim["claim"], {"n": 1})["state"], "completed")
        self.assertEqual(self.client.claim("low", "a")["outcome"], {"n": 1})
        self.assertEqual(self.client.operation("low", "a")["state"], "completed")
        self.assertIsNone(self.client.operation("low", "unknown"))
        claims = self.client.claim_batch([{"operation": "low", "key": key} for key in ("a", 1, 2, 3)])
        self.assertEqual([it["decision"] for it in claims], ["replay", "granted", "granted", "granted"])
        self.client.start(claims[3]["claim"])
        settled = self.client.settle_batch([
            {"claim": claims[1]["claim"], "step": "complete", "outcome": MANY_DIGITS},
            {"claim": claims[2]["claim"], "step": "release", "error": "no", "certainty": "not_applied"},
        ])
        self.assertEqual([it["state"] for it in settled], ["completed", "released"])
        self.assertEqual(self.client.claim("low", 1)["outcome"], MANY_DIGITS)
        self.assertEqual(self.client.operation("low", 1)["state"], "completed")
        self.client.fail(claims[3]["claim"], "no", certainty=semel.NOT_APPLIED)
        with self.assertRaises(semel.ClaimLost):
            self.client.complete(claims[2]["claim"], 1)
        with self.assertRaises(semel.Refused) as told:
            self.client.claim("low", "")
        self.assertEqual((told.exception.code, told.exception.status), ("invalid-input", 400))

    def test_an_effect_that_outlived_its_lease_is_told(self) -> None:
        def overtaken(op: semel.Operation) -> str:
            # Another caller takes over: this one stood still, and its lease went by.
            begun.operation.lost.clear()
            return "late"

        begun = self.client._begin("late", "a", {"lease": "150ms", "on_doubt": "repeat", "class_": "unkeyed"})
        begun._ended.set()
        time.sleep(0.3)
        other = self.client.once(
            "late", "a", lambda op: "other", class_="unkeyed", on_doubt="repeat", wait="10s"
        )
        self.assertTrue(other.possible_repeat)
        with self.assertRaises(semel.ClaimLost) as told:
            begun.done(overtaken(begun.operation))
        self.assertEqual((told.exception.result, told.exception.certainty), ("late", semel.MAYBE_APPLIED))
        self.assertEqual(self.client.once("late", "a", self.fail).outcome, "other")

    def test_decorated_functions(self) -> None:
        calls: List[Any] = []

        @self.client.idempotent(
            "decorated", key="payment", fingerprint=lambda payment, amount=1: {"amount": amount}, inject="op"
        )
        def charge(payment: str, amount: int = 1, *, op: semel.Operation) -> Dict[str, Any]:
            calls.append(op.idempotency_key)
            return {"charged": amount}

        self.assertEqual([charge("p1", 5), charge("p1", amount=5)], [{"charged": 5}] * 2)
        self.assertEqual(len(calls), 1)
        with self.assertRaises(semel.Conflict):
            charge("p1", 6)

        @self.client.idempotent("decorated", key=lambda payment: payment["id"])
        async def later(payment: Dict[str, Any]) -> str:
            await asyncio.sleep(0)
            calls.append(payment)
            return "done"

        async def twice() -> List[str]:
            return [await later({"id": "p2"}), await later({"id": "p2"})]

        self.assertEqual(asyncio.run(twice()), ["done", "done"])
        self.assertEqual(len(calls), 2)

    def test_a_coroutine_that_is_cancelled_is_told_as_a_maybe(self) -> None:
        async def cancelled() -> None:
            inside = asyncio.Event()

            async def stuck(op: semel.Operation) -> None:
                inside.set()
                await asyncio.sleep(60)

            task = asyncio.ensure_future(self.client.once_async("async", "a", stuck))
            await inside.wait()
            task.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await task

        asyncio.run(cancelled())
        self.assertEqual(self.client.operation("async", "a")["state"], "in_doubt")

    def test_a_call_that_is_cancelled_while_it_asks_holds_no_key(self) -> None:
        async def cancelled() -> None:
            async def never(op: semel.Operation) -> None:
                self.fail("it was cancelled before")

            task = asyncio.ensure_future(self.client.once_async("async", "b", never))
            await asyncio.sleep(0)
            task.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await task
            await asyncio.sleep(0.3)

        asyncio.run(cancelled())
        record = self.client.operation("async", "b")
        self.assertEqual(record["state"] if record else "released", "released")


MANY_DIGITS = semel._read(b"[0.12345678901234567890123, 1e400]")


class Readme(WithServer):
    def test_the_example_prints_what_the_readme_shows(self) -> None:
        folder = Path(semel.__file__).parent
        example, readme = (folder / "example.py").read_text(), (folder / "README.md").read_text()
        self.assertIn(f"```python\n{example}```", readme)
        told = {**os.environ, "SEMEL_URL": self.server.url}
        said = subprocess.run([sys.executable, "example.py"], cwd=folder, env=told, capture_output=True, text=True)
        self.assertIn(f"$ python example.py\n{said.stdout}```", readme, said.stderr)


class Http(WithServer):
    """`clients/http.json`, before a handler of WSGI and one of ASGI."""

    def test_wsgi(self) -> None:
        self.play(self.wsgi)

    def test_asgi(self) -> None:
        self.play(self.asgi)

    def play(self, ask: Any) -> None:
        cases = read("http.json")["cases"]
        self.assertGreater(len(cases), 10)
        for case in cases:
            with self.subTest(case["name"]):
                self.played(case, ask)

    def played(self, case: Dict[str, Any], ask: Any) -> None:
        unique = uuid.uuid4().hex
        settings = {("class_" if name == "class" else name): it for name, it in case.get("settings", {}).items()}
        runs = 0
        if "recorded" in case or "recorded_text" in case:
            claim = self.client.claim("http", case["requests"][0]["key"].replace("K", unique))
            outcome = case["recorded"] if "recorded" in case else case["recorded_text"].encode()
            self.client.complete(claim["claim"], outcome)
        for request in case["requests"]:
            key = request.get("key")
            if key is not None and not case.get("verbatim"):
                key = key.replace("K", unique)
            ran, (status, headers, body) = ask(settings, request, key)
            runs += ran
            gets = request["gets"]
            self.assertEqual(status, gets["status"], body)
            for name, value in gets.get("headers", {}).items():
                self.assertEqual(headers.get(name), value, name)
            if "body" in gets:
                self.assertEqual(body, gets["body"].encode())
            if "code" in gets:
                self.assertEqual(headers["content-type"], "application/problem+json")
                self.assertEqual(problem(body), (gets["code"], gets.get("original_status")))
        self.assertEqual(runs, case["runs"])

    def wsgi(self, settings: Any, request: Any, key: Optional[str]) -> Tuple[int, Tuple[int, Dict[str, str], bytes]]:
        ran, said = 0, []
        handler = request.get("handler", {"status": 500})

        def app(environ: Dict[str, Any], start_response: Any) -> Any:
            nonlocal ran
            ran += 1
            self.assertEqual(environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"])), body)
            if handler.get("raises"):
                raise RuntimeError("broken")
            start_response(f"{handler['status']} X", list(handler.get("headers", {}).items()))
            return [handler.get("body", "").encode()]

        body = request.get("body", "").encode()
        environ = {
            "REQUEST_METHOD": request.get("method", "POST"), "PATH_INFO": request.get("path", "/charges"),
            "QUERY_STRING": request.get("query", ""), "CONTENT_LENGTH": str(len(body)), "wsgi.input": io.BytesIO(body),
        }
        if key is not None:
            environ["HTTP_IDEMPOTENCY_KEY"] = key
        if "authorization" in request:
            environ["HTTP_AUTHORIZATION"] = request["authorization"]
        try:
            middleware = semel.WsgiIdempotency(app, self.client, **settings)
            parts = b"".join(middleware(environ, lambda status, headers: said.append((status, headers))))
        except RuntimeError:
            return ran, (500, {}, b"")
        return ran, (int(said[0][0].split()[0]), {name.lower(): it for name, it in said[0][1]}, parts)

    def asgi(self, settings: Any, request: Any, key: Optional[str]) -> Tuple[int, Tuple[int, Dict[str, str], bytes]]:
        ran = 0
        handler = request.get("handler", {"status": 500})
        body = request.get("body", "").encode()
        headers = [] if key is None else [(b"idempotency-key", key.encode("latin-1"))]
        if "authorization" in request:
            headers.append((b"authorization", request["authorization"].encode()))
        sent: List[Dict[str, Any]] = []
        halves = [{"body": body[:2], "more_body": True}, {"body": body[2:], "more_body": False}]

        async def app(scope: Any, receive: Any, send: Any) -> None:
            nonlocal ran
            ran += 1
            received = b""
            while True:
                message = await receive()
                received += message["body"]
                if not message.get("more_body"):
                    break
            self.assertEqual(received, body)
            if handler.get("raises"):
                raise RuntimeError("broken")
            pairs = [(name.encode(), it.encode()) for name, it in handler.get("headers", {}).items()]
            await send({"type": "http.response.start", "status": handler["status"], "headers": pairs})
            await send({"type": "http.response.body", "body": handler.get("body", "").encode()})

        async def receive() -> Dict[str, Any]:
            return {"type": "http.request", **halves.pop(0)}

        async def send(message: Dict[str, Any]) -> None:
            sent.append(message)

        scope = {
            "type": "http", "method": request.get("method", "POST"), "path": request.get("path", "/charges"),
            "query_string": request.get("query", "").encode(), "headers": headers,
        }
        try:
            asyncio.run(semel.AsgiIdempotency(app, self.client, **settings)(scope, receive, send))
        except RuntimeError:
            return ran, (500, {}, b"")
        found = {name.decode(): it.decode() for name, it in sent[0]["headers"]}
        return ran, (sent[0]["status"], found, b"".join(it["body"] for it in sent[1:]))

    def test_a_request_waits_for_the_first_one_or_is_told(self) -> None:
        inside = threading.Event()

        def app(environ: Any, start_response: Any) -> Any:
            inside.set()
            time.sleep(4)
            start_response("200 OK", [])
            return [b"slow"]

        def ask(wait: str) -> Tuple[str, Any, bytes]:
            said: List[Any] = []
            environ = {
                "REQUEST_METHOD": "POST", "PATH_INFO": "/", "HTTP_IDEMPOTENCY_KEY": key, "wsgi.input": io.BytesIO()
            }
            middleware = semel.WsgiIdempotency(app, self.client, wait=wait)
            body = b"".join(middleware(environ, lambda status, headers: said.append((status, dict(headers)))))
            return said[0][0], said[0][1], body

        key = uuid.uuid4().hex
        first = threading.Thread(target=ask, args=("20s",))
        first.start()
        inside.wait(5)
        status, headers, body = ask("1ms")
        self.assertEqual((status[:3], problem(body)[0]), ("409", "in-progress"))
        self.assertRegex(headers["retry-after"], "^[1-9][0-9]*$")
        status, headers, body = ask("20s")
        self.assertEqual((status[:3], body, headers["idempotency-replayed"]), ("200", b"slow", "true"))
        first.join()

    def test_a_caller_without_a_tenant_and_a_store_that_is_away(self) -> None:
        def ask(client: semel.Semel, **settings: Any) -> Any:
            said: List[Any] = []
            environ = {
                "REQUEST_METHOD": "POST", "PATH_INFO": "/", "HTTP_IDEMPOTENCY_KEY": "k", "wsgi.input": io.BytesIO()
            }
            middleware = semel.WsgiIdempotency(lambda environ, start: self.fail(), client, **settings)
            body = b"".join(middleware(environ, lambda status, headers: said.append((status, dict(headers)))))
            return said[0][0][:3], problem(body)[0], said[0][1].get("retry-after")

        self.assertEqual(ask(self.client, tenant=lambda environ: None), ("400", "tenant-missing", None))
        gone = semel.Semel("http://127.0.0.1:1", retry_for=0.1)
        self.assertEqual(ask(gone), ("503", "store-unavailable", "1"))


class Killed(unittest.TestCase):
    """Racing processes while the server is killed and started again: no key has two effects."""

    def test_no_key_has_two_effects(self) -> None:
        server = Real()
        booked = Path(server.folder.name) / "booked"
        booked.touch()
        begins_at = time.time() + 0.5
        context = multiprocessing.get_context("spawn")
        ends = context.Queue()
        arguments = (server.url, str(booked), begins_at, ends)
        racers = [context.Process(target=race, args=arguments) for _ in range(PROCESSES)]
        for racer in racers:
            racer.start()
        all_ends: List[Any] = []
        reader = threading.Thread(
            target=lambda: all_ends.extend(ends.get(timeout=18) for _ in range(KEYS * PROCESSES * THREADS))
        )
        reader.start()
        kills = 0
        time.sleep(max(begins_at - time.time(), 0) + 0.45)
        while time.time() < begins_at + KEYS * EACH_SECONDS:
            server.kill()
            kills += 1
            time.sleep(0.1)
            server.start()
            time.sleep(0.5)
        reader.join(18)
        for racer in racers:
            racer.join(2)
            racer.kill()
        effects: Dict[str, List[str]] = defaultdict(list)
        for line in booked.read_text().splitlines():
            key, nonce = line.split(" ")
            effects[key].append(nonce)
        server.close()
        self.assertEqual({key: it for key, it in effects.items() if len(it) > 1}, {})
        self.assertGreaterEqual(kills, 3)
        self.assertEqual(len(all_ends), KEYS * PROCESSES * THREADS)
        for index in range(KEYS):
            key = f"key-{index}"
            # A caller may be told a doubt that the late report of the first one ends.
            self.assertLessEqual({end[2] for end in all_ends if end[:2] == (key, "done")}, set(effects[key]))
        self.assertEqual({it[1] for it in all_ends if it[0] in ("key-0", "key-7", "key-14")}, {"in doubt"})
        self.assertGreater(sum(it[3] for it in all_ends), 4 * KEYS)


def race(url: str, booked: str, begins_at: float, ends: Any) -> None:
    client = semel.Semel(url, timeout=3, retry_for=8)
    threads = [threading.Thread(target=racing, args=(client, booked, begins_at, ends)) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def racing(client: semel.Semel, booked: str, begins_at: float, ends: Any) -> None:
    for index in range(KEYS):
        time.sleep(max(begins_at + index * EACH_SECONDS - time.time(), 0))
        ends.put(until_it_ends(client, f"key-{index}", index % 7 == 0, booked))


def until_it_ends(client: semel.Semel, key: str, breaks: bool, booked: str) -> Tuple[Any, ...]:
    """Asks until there is the one answer, or a doubt."""
    nonce = uuid.uuid4().hex

    def effect(op: semel.Operation) -> Dict[str, str]:
        with open(booked, "ab", buffering=0) as file:
            file.write(f"{key} {nonce}\n".encode())
        time.sleep(random.uniform(0, 0.3))
        if breaks:
            raise ConnectionError("the answer of the provider was lost")
        return {"by": nonce}

    while True:
        try:
            receipt = client.once("race", key, effect, lease="2s", wait="1s", class_="unkeyed", on_doubt="park")
            return key, "done", receipt.outcome["by"], receipt.replayed
        except semel.InDoubt:
            return key, "in doubt", None, False
        except semel.Busy as busy:
            time.sleep(min(busy.retry_after, 0.2))
        except (semel.Unavailable, semel.Unrecorded, semel.ClaimLost, ConnectionError):
            time.sleep(0.05)
