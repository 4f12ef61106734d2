"""The behaviour that all clients share, from `clients/cases.json`, and what is this language's own."""

from __future__ import annotations

import asyncio
import base64
import functools
import io
import logging
import threading
import time
import unittest
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from typing import Any, Dict

import semel

from .servers import Scripted, read

TABLE = read("cases.json")
ANSWERS = TABLE["answers"]


def setUpModule() -> None:
    logging.disable(logging.WARNING)


def tearDownModule() -> None:
    logging.disable(logging.NOTSET)


class FunctionError(Exception):
    pass


class Unprintable(FunctionError):
    def __str__(self) -> str:
        raise RuntimeError("no text")


class Breaking(Dict[str, Any]):
    def items(self) -> Any:
        raise RuntimeError("broken while it is written")


def play(case: Dict[str, Any]) -> None:
    scripted = Scripted(case["server"], TABLE["answers"])
    try:
        played(case, scripted)
    finally:
        scripted.close()


def played(case: Dict[str, Any], scripted: Scripted) -> None:
    limits = {**TABLE["client"], **case.get("client", {})}
    client = semel.Semel(
        scripted.url, "secret", timeout=limits["timeout_ms"] / 1000, retry_for=limits["retry_for_ms"] / 1000
    )
    with client:
        asked(case, scripted, client)


def asked(case: Dict[str, Any], scripted: Scripted, client: semel.Semel) -> None:
    once = case.get("once", {})
    options = {("class_" if name == "class" else name): it for name, it in once.get("options", {}).items()}
    does = case["function"]
    runs = 0
    no_json = object()

    def function(op: semel.Operation) -> Any:
        nonlocal runs
        runs += 1
        time.sleep(does.get("takes_ms", 0) / 1000)
        if does.get("until_lost") and not op.lost.wait(20):
            raise AssertionError("nobody told that the claim is lost")
        if "returns_letters" in does:
            return "x" * does["returns_letters"]
        if does.get("returns_no_json"):
            return no_json
        if does.get("returns_breaking"):
            return Breaking(a=1)
        if does.get("returns_operation"):
            names = ["idempotency_key", "attempt", "fencing_token", "possible_repeat", "takeover"]
            return {name: getattr(op, name) for name in names}
        if does.get("inner"):
            return client.once("inner", "inner-1", ending)
        return ending(op)

    def ending(op: semel.Operation) -> Any:
        kind = does.get("raises")
        if kind == "unprintable":
            raise Unprintable()
        if kind == "not_applied":
            raise semel.NotApplied(does["message"])
        if kind == "failed":
            raise semel.Failed(does["message"], **{it: does[it] for it in ("certainty", "decisive") if it in does})
        if kind == "error":
            raise FunctionError(does["message"])
        return does["returns"]

    began = time.monotonic()
    found: Dict[str, Any] = {}
    try:
        receipt = client.once("charge", once.get("key", "payment-1"), function, **options)
        found = {name: getattr(receipt, name) for name in vars(receipt)}
        if isinstance(receipt.outcome, bytes):
            found["outcome_base64"] = base64.b64encode(receipt.outcome).decode()
    except FunctionError:
        found = {"error": "function"}
    except Exception as error:
        found = {"error": type(error).__name__, **vars(error), "certainty": getattr(error, "certainty", None)}
        if "retry_after" in found and found["retry_after"] is not None:
            found["retry_after_ms"] = round(found["retry_after"] * 1000)
        if found["error"] not in semel.__all__:
            raise
    took_ms = (time.monotonic() - began) * 1000
    time.sleep(case.get("rests_ms", 0) / 1000)
    for name, value in case["ends"].items():
        assert found.get(name) == value, f"{name} is {found.get(name)!r}, not {value!r}: {found}"
    if "error" not in case["ends"]:
        assert "error" not in found, found
    assert runs == case["runs"], f"ran {runs} times"
    assert not scripted.faults, scripted.faults
    for call, count in case["asked"].items():
        times = scripted.asked.get(call, 0)
        fits = times >= count["at_least"] if isinstance(count, dict) else times == count
        assert fits, f"{call} was asked {times} times, not {count}"
    assert set(scripted.asked) <= set(case["asked"]), scripted.asked
    assert len(scripted.claim_ids) == case.get("claim_ids", 1), scripted.claim_ids
    assert all(len(it) == 32 for it in scripted.claim_ids), scripted.claim_ids
    assert case.get("at_least_ms", 0) <= took_ms <= case.get("at_most_ms", 60_000), f"took {took_ms} ms"


class Cases(unittest.TestCase):
    def test_every_case(self) -> None:
        self.assertGreater(len(TABLE["cases"]), 30)
        with ThreadPoolExecutor(8) as pool:
            plays = [(case["name"], pool.submit(play, case)) for case in TABLE["cases"]]
        for name, ended in plays:
            with self.subTest(name):
                ended.result()


class Python(unittest.TestCase):
    def test_numbers_keep_their_digits_and_floats_stay_floats(self) -> None:
        text = '{"a":12345678901234567890123,"b":0.12345678901234567890123,"c":1E+400,"d":1.5,"e":-0.0}'
        value = semel._read(text.encode())
        self.assertEqual(value["a"], 12345678901234567890123)
        self.assertEqual(value["b"], Decimal("0.12345678901234567890123"))
        self.assertIs(type(value["d"]), float)
        self.assertEqual(semel._write(value), text)
        long = "9" * 5000
        self.assertEqual(semel._write(semel._read(long.encode())), long)

    def test_what_json_would_change_in_silence_is_refused(self) -> None:
        for value in [{1: 2}, {"a": object()}, float("nan"), Decimal("Infinity"), {"a": {1}}]:
            with self.assertRaises((TypeError, ValueError)):
                semel._write(value)

    def test_a_key_is_a_string_or_a_number(self) -> None:
        client = semel.Semel("http://127.0.0.1:1")
        for key in [None, True, ["a"], b"a"]:
            with self.assertRaises(TypeError):
                client.once("charge", key, lambda op: None)
        with self.assertRaises(TypeError):
            client.once("charge", "k", lambda op: None, leese="30s")
        with self.assertRaises(ValueError):
            client.once("charge", "k", lambda op: None, lease="soon")
        spelled = [semel._spelled(it) for it in ["a", "json:1", 1, Decimal("1.50")]]
        self.assertEqual(spelled, ["a", 'json:"json:1"', "json:1", "json:1.50"])

    def test_durations_and_instants(self) -> None:
        self.assertEqual([semel._wire(it) for it in ["7d", 1.5, timedelta(minutes=2)]], ["7d", "1500ms", "120000ms"])
        self.assertEqual([semel._seconds(it) for it in ["500ms", "2m", "1d", 3]], [0.5, 120, 86400, 3])
        with self.assertRaises(ValueError):
            semel._seconds("soon")
        there = datetime(2026, 1, 2, 3, 4, 5, tzinfo=timezone(timedelta(hours=1)))
        self.assertEqual(semel._instant(there), "2026-01-02T02:04:05.000Z")
        with self.assertRaises(ValueError):
            semel._instant(datetime(2026, 1, 2))
        self.assertEqual(semel._retry_after("3"), 3)
        self.assertEqual(semel._retry_after("Thu, 01 Jan 1970 00:00:00 GMT"), 0)
        self.assertIsNone(semel._retry_after("soon"))

    def test_a_url_is_needed(self) -> None:
        for url in ["", "127.0.0.1:8181", "ftp://there"]:
            with self.assertRaises(ValueError):
                semel.Semel(url)

    def test_a_url_without_credentials_and_a_token_that_a_header_can_have(self) -> None:
        for url in ["http://me:secret@there", "http://secret@there", "http://there:secret", "http://the re/secret"]:
            with self.assertRaises(ValueError) as told:
                semel.Semel(url)
            self.assertNotIn("secret", str(told.exception))
        for token in ["secret\nX-Other: 1", "secret one", "secr\u00e9t", "secret\x7f"]:
            with self.assertRaises(ValueError) as told:
                semel.Semel("http://there", token)
            self.assertNotIn("secr", str(told.exception))
        scripted = Scripted({"claims": [{"answer": "granted", "expects_headers": {"authorization": "Bearer secret"}}]}, ANSWERS)
        semel.Semel(scripted.url, " secret\r\n").claim("charge", "k")
        self.assertEqual(scripted.faults, [])
        scripted.close()

    def test_a_failure_says_what_the_server_takes(self) -> None:
        for build in [
            lambda: semel.NotApplied("no", not_before=datetime(2026, 1, 2)),
            lambda: semel.NotApplied("no", not_before="soon"),
            lambda: semel.NotApplied("no", not_before=float("nan")),
            lambda: semel.NotApplied("no", not_before=float("inf")),
            lambda: semel.Failed("no", certainty=semel.MAYBE_APPLIED, decisive=True),
            lambda: semel.Failed("no", certainty="surely"),
            lambda: semel.Semel("http://127.0.0.1:1").fail("C1", "no", certainty=semel.MAYBE_APPLIED, decisive=True),
        ]:
            with self.assertRaises((TypeError, ValueError)):
                build()
        expected = {"certainty": "not_applied", "decisive": True}
        scripted = Scripted({"fail": [{"answer": "dead", "expects": expected}]}, ANSWERS)
        semel.Semel(scripted.url).fail("C1", "no", decisive=True)
        self.assertEqual(scripted.faults, [])
        scripted.close()

    def test_a_time_that_cannot_be_reported_is_left_out(self) -> None:
        release = {"answer": "released", "expects": {"certainty": "not_applied", "not_before": ...}}
        scripted = Scripted({"claims": ["granted"], "release": [release]}, ANSWERS)
        error = semel.NotApplied("no")
        error.not_before = datetime(2026, 1, 2)

        def function(op: semel.Operation) -> None:
            raise error

        with self.assertRaises(semel.NotApplied):
            semel.Semel(scripted.url).once("charge", "k", function, lease="3s")
        time.sleep(1.5)
        self.assertEqual((scripted.asked, scripted.faults), ({"claims": 1, "release": 1}, []))
        scripted.close()

    def test_what_is_awaited_is_told_from_what_is_not(self) -> None:
        async def later(op: semel.Operation) -> int:
            return 1

        class Callable:
            async def __call__(self, op: semel.Operation) -> int:
                return 1

        def now(op: semel.Operation) -> int:
            return 1

        client = semel.Semel("http://127.0.0.1:1", retry_for=0.1)
        for function in [later, functools.partial(later), Callable()]:
            with self.assertRaises(TypeError):
                client.once("charge", "k", function)
        with self.assertRaises(TypeError):
            asyncio.run(client.once_async("charge", "k", now))
        released = {"answer": "released", "expects": {"certainty": "maybe_applied"}}
        scripted = Scripted({"claims": ["granted"], "release": [released]}, ANSWERS)
        client = semel.Semel(scripted.url)
        with self.assertRaises(TypeError):
            client.once("charge", "k", lambda op: later(op))
        with self.assertRaises(TypeError):
            asyncio.run(client.once_async("charge", "k", lambda op: 1))
        self.assertEqual((scripted.asked, scripted.faults), ({"claims": 2, "release": 2}, []))
        scripted.close()

    def test_a_warning_names_the_operation_and_the_key(self) -> None:
        scripted = Scripted({"claims": ["granted"], "renew": ["cut", "renewed"], "release": ["lost"]}, ANSWERS)
        logging.disable(logging.NOTSET)

        def function(op: semel.Operation) -> None:
            time.sleep(0.25)
            raise semel.NotApplied("no")

        try:
            with self.assertLogs("semel") as said, self.assertRaises(semel.NotApplied):
                semel.Semel(scripted.url).once("charge", "payment-1", function, lease="60ms")
        finally:
            logging.disable(logging.WARNING)
            scripted.close()
        self.assertGreaterEqual(len(said.output), 1)
        for line in said.output:
            self.assertIn("charge 'payment-1'", line)

    def test_a_body_that_broke_off_is_refused(self) -> None:
        said = []
        environ = {
            "REQUEST_METHOD": "POST", "PATH_INFO": "/", "HTTP_IDEMPOTENCY_KEY": "k", "CONTENT_LENGTH": "5",
            "wsgi.input": io.BytesIO(b"1234"),
        }
        middleware = semel.WsgiIdempotency(lambda *_: self.fail("it ran"), semel.Semel("http://127.0.0.1:1", retry_for=0.1))
        list(middleware(environ, lambda status, headers: said.append(status)))
        self.assertEqual(said[0][:3], "400")

    def test_an_answer_that_is_no_bytes_is_reported(self) -> None:
        released = {"answer": "released", "expects": {"certainty": "maybe_applied"}}
        scripted = Scripted({"claims": ["granted"], "release": [released]}, ANSWERS)

        def app(environ: Any, start: Any) -> Any:
            start("200 OK", [])
            return ["text"]

        environ = {"REQUEST_METHOD": "POST", "PATH_INFO": "/", "HTTP_IDEMPOTENCY_KEY": "k", "wsgi.input": io.BytesIO()}
        middleware = semel.WsgiIdempotency(app, semel.Semel(scripted.url), lease="3s")
        with self.assertRaises(TypeError):
            middleware(environ, lambda status, headers: None)
        time.sleep(1.5)
        self.assertEqual((scripted.asked, scripted.faults), ({"claims": 1, "release": 1}, []))
        scripted.close()

    def test_a_handler_that_was_called_and_a_server_that_was_not_told(self) -> None:
        scripted = Scripted({"claims": ["granted"], "complete": ["away"]}, ANSWERS)

        def app(environ: Any, start: Any) -> Any:
            start("200 OK", [])
            return [b"charged"]

        said: Any = []
        environ = {"REQUEST_METHOD": "POST", "PATH_INFO": "/", "HTTP_IDEMPOTENCY_KEY": "k", "wsgi.input": io.BytesIO()}
        middleware = semel.WsgiIdempotency(app, semel.Semel(scripted.url, retry_for=0.1))
        body = b"".join(middleware(environ, lambda status, headers: said.append((status[:3], dict(headers)))))
        told = semel._read(body)
        self.assertEqual((told["code"], told["certainty"]), ("outcome-unrecorded", semel.MAYBE_APPLIED))
        self.assertEqual((said[0][0], said[0][1].get("retry-after")), ("500", "1"))
        scripted.close()

    def test_nothing_listens_there(self) -> None:
        client = semel.Semel("http://127.0.0.1:1", retry_for=0.3)
        with self.assertRaises(semel.Unavailable) as told:
            client.once("charge", "k", lambda op: None)
        self.assertEqual(told.exception.certainty, semel.NOT_APPLIED)

    def test_no_lease_is_renewed_after_the_end(self) -> None:
        scripted = Scripted({"claims": ["granted"], "renew": ["renewed"], "complete": ["completed"]}, TABLE["answers"])
        client = semel.Semel(scripted.url)
        client.once("charge", "k", lambda op: None, lease="3s")
        time.sleep(1.5)
        self.assertNotIn("renew", scripted.asked)
        client.close()
        names = [it.name for it in threading.enumerate()]
        self.assertNotIn("semel-lease", names)
        scripted.close()
