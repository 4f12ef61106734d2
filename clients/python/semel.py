"""Semel's claim API from Python: one business key, one effect, or a visible record that says why not.

    import semel

    client = semel.Semel("http://127.0.0.1:8181")
    receipt = client.once("charge", "payment-1", lambda op: charge(op.idempotency_key))

One file, the standard library alone, Python 3.9 and later. A client is safe to share between threads and survives a
fork. Numbers keep their digits: an integer is an `int`, and a decimal that no `float` holds is a `decimal.Decimal`.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import email.utils
import functools
import hashlib
import http.client
import inspect
import io
import json
import logging
import math
import os
import random
import re
import ssl
import threading
import time
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from json.encoder import encode_basestring
from typing import Any, Awaitable, Callable, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple, Union
from urllib.parse import quote, urlencode, urlsplit

__version__ = "0.1.0"
__all__ = [
    "Busy", "ClaimLost", "Conflict", "Dead", "Failed", "Illegal", "InDoubt", "NotApplied", "Operation", "Parked",
    "Receipt", "Refused", "Semel", "SemelError", "Stale", "TooOld", "Unavailable", "Unreadable", "Unrecorded",
    "AsgiIdempotency", "WsgiIdempotency", "MAYBE_APPLIED", "NOT_APPLIED",
]

NOT_APPLIED = "not_applied"
MAYBE_APPLIED = "maybe_applied"

Duration = Union[str, int, float, timedelta]
Key = Union[str, int, float, Decimal]

_log = logging.getLogger("semel")
_LONGEST_PAUSE = 2.0
_UNWRITTEN = "application/vnd.semel.unwritten"
"""The content type of an outcome that stands for a value that is no JSON."""
_TOO_LARGE = "application/vnd.semel.too-large"
"""The content type of an outcome that stands for one that is too large to be sent."""
_LARGEST = 2 << 20
"""In bytes: a server keeps less, and takes more."""


class SemelError(Exception):
    """The reason why a call has no outcome.

    `certainty` says whether the effect was applied: `not_applied` or `maybe_applied`. `ran` tells whether this call ran
    the function to its end; then `result` is what the function returned. `pointer` is the member of the request that a
    refusal is about.
    """

    certainty = NOT_APPLIED

    def __init__(
        self,
        detail: str,
        *,
        code: Optional[str] = None,
        certainty: Optional[str] = None,
        operation_id: Optional[str] = None,
        status: Optional[int] = None,
        pointer: Optional[str] = None,
    ) -> None:
        super().__init__(detail)
        self.code = code
        self.operation_id = operation_id
        self.status = status
        self.pointer = pointer
        self.ran = False
        self.result: Any = None
        if certainty is not None:
            self.certainty = certainty

    def _with_result(self, result: Any) -> SemelError:
        self.ran, self.result = True, result
        return self


class Busy(SemelError):
    """Another caller runs this key, or its next attempt is not due yet. Ask again after `retry_after` seconds."""

    def __init__(self, detail: str, *, retry_after: float, until: Optional[str], **more: Any) -> None:
        super().__init__(detail, **more)
        self.retry_after = retry_after
        self.until = until


class Conflict(SemelError):
    """The key was used with another fingerprint. The outcome on record is not shown."""


class Stale(SemelError):
    """The entity has this version or a later one; `applied` is the version that it has."""

    def __init__(self, detail: str, *, applied: Optional[int], **more: Any) -> None:
        super().__init__(detail, **more)
        self.applied = applied


class Illegal(SemelError):
    """The entity's state does not allow this change."""


class TooOld(SemelError):
    """There is no record, and the request is older than the window: a record may have been forgotten."""

    certainty = MAYBE_APPLIED


class Parked(SemelError):
    """Nothing runs this key until a person decides; `state` says why."""

    certainty = MAYBE_APPLIED

    def __init__(self, detail: str, *, state: str, **more: Any) -> None:
        super().__init__(detail, **more)
        self.state = state


class InDoubt(Parked):
    """The effect was started, and nobody knows whether it happened."""


class Dead(Parked):
    """The effect failed for good, or is out of attempts."""


class ClaimLost(SemelError):
    """Another caller owns the operation now: the effect outlived its lease. `result` is what the function returned."""

    certainty = MAYBE_APPLIED


class Unrecorded(SemelError):
    """The function ran, and its result could not be recorded. `result` is what the function returned."""

    certainty = MAYBE_APPLIED


class Unreadable(SemelError):
    """The effect happened, and its outcome is no JSON: `result` has it if this call ran the function."""

    certainty = MAYBE_APPLIED


class Unavailable(SemelError):
    """Semel gave no answer for as long as this client asks again. `retry_after` is the wait it asked for, in seconds."""

    retry_after: Optional[float] = None


class Refused(SemelError):
    """Semel does not accept the request: see `code` and `status`."""


class _Said(Exception):
    """What a function says of its own operation; of an outer one it says nothing."""

    _is_reported = False

    def _report(self) -> bool:
        """Tells whether this is the operation that it speaks for, the first that it leaves."""
        is_first, self._is_reported = not self._is_reported, True
        return is_first


class NotApplied(_Said):
    """Raise it in the function to say that the effect surely did not happen; another attempt may follow.

    `not_before` keeps the key busy until then: seconds, a `timedelta`, or a `datetime` with its time zone. To a function
    that calls [`Semel.once`] itself, the error of that call is an error like any other.
    """

    def __init__(self, message: str = "", *, not_before: Union[None, float, timedelta, datetime] = None) -> None:
        super().__init__(message)
        if not_before is not None:
            _not_before(not_before)
        self.not_before = not_before


class Failed(_Said):
    """Raise it in the function to fail the operation for good: it is dead, or in doubt if the effect may have happened.

    `certainty` is `maybe_applied` unless it is given. `decisive` says that neither this attempt nor an earlier one was
    applied: only an answer from behind the provider's own look-up of the idempotency key is.
    """

    def __init__(self, message: str = "", *, certainty: Optional[str] = None, decisive: bool = False) -> None:
        super().__init__(message)
        self.certainty = _certainty(certainty, decisive)
        self.decisive = decisive


class Operation:
    """The operation as its function sees it."""

    def __init__(self, granted: Mapping[str, Any]) -> None:
        self.claim: str = granted["claim"]
        self.idempotency_key: str = granted["idempotency_key"]
        """The same on every attempt: pass it on to whatever you call."""
        self.operation_id: str = granted["operation_id"]
        self.attempt: int = granted["attempt"]
        self.fencing_token: int = granted["token"]
        self.possible_repeat: bool = granted.get("possible_repeat", False)
        """True if an earlier attempt may have applied the effect."""
        self.takeover: bool = granted.get("takeover", False)
        self.lost = threading.Event()
        """Set when another caller owns the operation: a function that can stop should."""


@dataclass(frozen=True)
class Receipt:
    """The outcome of an operation, from this run or from the record."""

    outcome: Any
    """The JSON value, or `bytes` where the outcome is no JSON."""
    replayed: bool
    """True if it comes from the record."""
    duplicate: Optional[str] = None
    """`own`, `redelivery`, `republish` or `unknown`, for a replay."""
    operation_id: Optional[str] = None
    completed_at: Optional[str] = None
    attempt: Optional[int] = None
    possible_repeat: bool = False
    content_type: Optional[str] = None
    kept: bool = True
    """False if the outcome was too large to be kept: the effect happened, and a replay has `None` for it."""


class Semel:
    """A client of one Semel server.

    `url` defaults to the variable `SEMEL_URL`, `token` to `SEMEL_TOKEN`. `timeout` is the time to wait for one answer,
    `retry_for` the time for which a lost answer is asked for again, both in seconds. `tls` is the context for `https`.
    """

    def __init__(
        self,
        url: Optional[str] = None,
        token: Optional[str] = None,
        *,
        timeout: float = 10.0,
        retry_for: float = 30.0,
        tls: Optional[ssl.SSLContext] = None,
    ) -> None:
        url = (url or os.environ.get("SEMEL_URL") or "").strip()
        self._http = _Http(url, (token or os.environ.get("SEMEL_TOKEN") or "").strip(), tls)
        self._timeout = timeout
        self._retry_for = retry_for

    # Calls that run a function.

    def once(self, operation: str, key: Key, function: Callable[[Operation], Any], **options: Any) -> Receipt:
        """Runs `function` unless the effect of the key happened before, and returns its outcome.

        Options, all of them keywords: `fingerprint`, `tenant`, `transport`, `birth`, `entity`, `version`; `lease`
        ("30s"), `window`, `wait`; `class_` ("unkeyed" unless there is a `provider_window`), `provider_window`,
        `on_doubt`. An error of the function releases the key, as "maybe applied" unless it is [`NotApplied`], and is
        raised as it is.

        Raises [`SemelError`]: Busy, Conflict, Stale, TooOld, InDoubt, Dead, ClaimLost, Unrecorded, Unavailable, Refused.
        """
        if _is_coroutine_function(function):
            raise TypeError("the function is a coroutine function: once_async runs it")
        begun = self._begin(operation, key, options)
        if isinstance(begun, Receipt):
            return begun
        try:
            value = function(begun.operation)
            if inspect.isawaitable(value):
                if inspect.iscoroutine(value):
                    value.close()
                raise TypeError("the function returned an awaitable: once_async awaits it")
        except BaseException as error:
            begun.failed(error)
            raise
        return begun.done(value)

    async def once_async(
        self, operation: str, key: Key, function: Callable[[Operation], Awaitable[Any]], **options: Any
    ) -> Receipt:
        """Does what [`once`] does for a coroutine function; the calls of Semel run in threads."""
        inner = inspect.unwrap(function)
        if inspect.isfunction(inner) and inner.__name__ != "<lambda>" and not _is_coroutine_function(inner):
            raise TypeError("the function is no coroutine function: declare it `async def`, or use once")
        begun = await _in_thread(self._begin, operation, key, options)
        if isinstance(begun, Receipt):
            return begun
        try:
            value = await function(begun.operation)
        except BaseException as error:
            await asyncio.shield(asyncio.to_thread(begun.failed, error))
            raise
        return await asyncio.shield(asyncio.to_thread(begun.done, value))

    def idempotent(
        self,
        operation: str,
        *,
        key: Union[str, Callable[..., Key]],
        fingerprint: Optional[Callable[..., Any]] = None,
        inject: Optional[str] = None,
        **options: Any,
    ) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Decorates a function, plain or `async`, that must have its effect once per key.

        `key` and `fingerprint` are functions of the call's arguments, `key` may be the name of one. `inject` names a
        parameter that receives the [`Operation`]. The decorated function returns the outcome.
        """

        def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
            signature = inspect.signature(function)
            if inject is not None:
                rest = [it for it in signature.parameters.values() if it.name != inject]
                signature = signature.replace(parameters=rest)

            def call(args: Any, kwargs: Any) -> Tuple[Key, Callable[[Operation], Any], Dict[str, Any]]:
                bound = signature.bind(*args, **kwargs)
                bound.apply_defaults()
                found = bound.arguments[key] if isinstance(key, str) else key(*args, **kwargs)
                more = dict(options)
                if fingerprint is not None:
                    more["fingerprint"] = fingerprint(*args, **kwargs)

                def run(op: Operation) -> Any:
                    return function(*args, **(kwargs if inject is None else {**kwargs, inject: op}))

                async def run_async(op: Operation) -> Any:
                    return await run(op)

                return found, run_async if _is_coroutine_function(function) else run, more

            if _is_coroutine_function(function):

                @functools.wraps(function)
                async def later(*args: Any, **kwargs: Any) -> Any:
                    found, run, more = call(args, kwargs)
                    return (await self.once_async(operation, found, run, **more)).outcome

                return later

            @functools.wraps(function)
            def now(*args: Any, **kwargs: Any) -> Any:
                found, run, more = call(args, kwargs)
                return self.once(operation, found, run, **more).outcome

            return now

        return decorate

    # The calls of the API, one by one.

    def claim(self, operation: str, key: Key, **options: Any) -> Dict[str, Any]:
        """Asks for a claim and returns the decision. Options as [`once`], and `claim_id`; no class means none."""
        request = _request(operation, key, options)
        return self._ask("POST", "/v1/claims", request, extra=_seconds(request.get("wait", 0))).accepted()

    def claim_batch(self, claims: Sequence[Mapping[str, Any]]) -> List[Dict[str, Any]]:
        """Asks for at most 1,000 claims, each `{"operation": …, "key": …, …}`; answers come in their order."""
        requests = [{"claim_id": _claim_id(), **claim} for claim in claims]
        return self._ask("POST", "/v1/claims/batch", {"claims": requests}).accepted()["answers"]

    def renew(self, claim: str, lease: Duration) -> Dict[str, Any]:
        """Extends the lease of a claim, counted from now."""
        return self._step(claim, "renew", {"lease": _wire(lease)})

    def start(self, claim: str) -> Dict[str, Any]:
        """Marks the effect of a claim without a class as about to be sent."""
        return self._step(claim, "start", {})

    def complete(
        self,
        claim: str,
        outcome: Any = None,
        *,
        content_type: Optional[str] = None,
        window: Optional[Duration] = None,
    ) -> Dict[str, Any]:
        """Reports that the effect happened. `outcome` is JSON, or `bytes` with their `content_type`."""
        body = _outcome(outcome, content_type)
        if window is not None:
            body["window"] = _wire(window)
        return self._step(claim, "complete", body)

    def release(
        self,
        claim: str,
        error: str,
        *,
        certainty: str = MAYBE_APPLIED,
        not_before: Union[None, float, timedelta, datetime] = None,
    ) -> Dict[str, Any]:
        """Reports an attempt that ended without a result; another may follow."""
        return self._step(claim, "release", _released(error, certainty, not_before))

    def fail(
        self, claim: str, error: str, *, certainty: Optional[str] = None, decisive: bool = False
    ) -> Dict[str, Any]:
        """Reports that no other attempt shall follow. What is decisive was not applied, else it may have been."""
        return self._step(claim, "fail", _released(error, _certainty(certainty, decisive), decisive=decisive))

    def settle_batch(self, settlements: Sequence[Mapping[str, Any]]) -> List[Dict[str, Any]]:
        """Reports at most 1,000 steps, each `{"claim": …, "step": "complete", …}`; answers come in their order."""
        return self._ask("POST", "/v1/settle/batch", {"settlements": list(settlements)}).accepted()["answers"]

    def operation(self, operation: str, key: Key, *, tenant: Optional[str] = None) -> Optional[Dict[str, Any]]:
        """Returns the record of a key, or `None` if there is none."""
        query = {"operation": operation, "key": _spelled(key)}
        if tenant is not None:
            query["tenant"] = tenant
        answer = self._ask("GET", "/v1/operations?" + urlencode(query, quote_via=quote))
        if answer.status == 404 and answer.value.get("code") == "key-unknown":
            return None
        return answer.accepted()

    def close(self) -> None:
        """Closes the connections that nobody uses."""
        self._http.close()

    def __enter__(self) -> Semel:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def _begin(self, operation: str, key: Key, options: Mapping[str, Any]) -> Union[Receipt, _Attempt]:
        options = {"lease": "30s", **{name: value for name, value in options.items() if value is not None}}
        if "class_" not in options:
            options["class_"] = "keyed" if "provider_window" in options else "unkeyed"
        if options["class_"] == "unkeyed":
            options.setdefault("on_doubt", "park")
        request = _request(operation, key, options)
        lease, wait = _seconds(options["lease"]), _seconds(request.get("wait", 0))
        answer = self._ask("POST", "/v1/claims", request, extra=wait)
        decision = answer.accepted()
        if decision.get("decision") == "replay":
            return _replayed(decision)
        if decision.get("decision") != "granted":
            raise _refusal(decision)
        # A claim that is resumed was granted to an earlier request, and so was its lease.
        asked_at = answer.first_sent_at if decision.get("resumed") else answer.sent_at
        attempt = _Attempt(self, decision, lease, asked_at, f"{operation} {key!r}")
        attempt.begin()
        return attempt

    def _step(self, claim: str, step: str, body: Any, *, within: Optional[float] = None) -> Dict[str, Any]:
        return self._ask("POST", f"/v1/claims/{quote(claim, safe='')}/{step}", body, within=within).accepted()

    def _ask(
        self, method: str, path: str, body: Any = None, *, extra: float = 0.0, within: Optional[float] = None
    ) -> _Answer:
        """Asks until there is an answer, or until the time for asking again is over. Every call may be repeated.

        `extra` is what the server may wait; a call that has to end `within` a time has no more for one answer.
        """
        text = None if body is None else _write(body).encode()
        first_sent_at = time.monotonic()
        until = None if within is None else first_sent_at + within
        timeout = extra + (self._timeout if within is None else min(self._timeout, within))
        pause = 0.05
        while True:
            sent_at = time.monotonic()
            hint, code, status, why = None, None, None, "no answer"
            answer: Optional[_Answer] = None
            try:
                status, headers, raw = self._http.send(method, path, text, timeout)
            except (OSError, http.client.HTTPException) as error:
                why = f"{type(error).__name__}: {error}"
            else:
                try:
                    answer = _Answer(status, raw, first_sent_at, sent_at)
                except ValueError as error:
                    why = f"{type(error).__name__}: {error}"
            if answer is not None:
                if not answer.is_passing():
                    return answer
                code, why = answer.text("code"), answer.why()
                hint = _retry_after(headers.get("Retry-After"))
            if hint is None:
                wait = random.uniform(pause / 2, pause)
                pause = min(2 * pause, _LONGEST_PAUSE)
            else:
                wait = hint + random.uniform(0, min(hint / 8, 1.0))
            if until is None:
                until = time.monotonic() + self._retry_for
            if time.monotonic() + wait > until:
                unavailable = Unavailable(f"no answer from Semel: {why}", code=code, status=status)
                unavailable.retry_after = hint
                raise unavailable
            time.sleep(wait)


class _Attempt:
    """A claim that was granted: its lease is renewed until it is settled."""

    def __init__(
        self, client: Semel, granted: Mapping[str, Any], lease: float, asked_at: float, name: str
    ) -> None:
        self.operation = Operation(granted)
        self._name = name
        self._client = client
        self._lease = lease
        self._asked_at = asked_at
        self._ended = threading.Event()
        self._renewing: Optional[threading.Thread] = None

    def begin(self) -> None:
        """Renews first if a third of the lease is over, so that the effect does not begin at its end."""
        if time.monotonic() - self._asked_at >= self._lease / 3:
            try:
                self._renew(self._lease)
            except BaseException as error:
                if not isinstance(error, ClaimLost):
                    self.give_up("release", _released("the lease was not renewed, and nothing ran", NOT_APPLIED), 2.0)
                if isinstance(error, SemelError):
                    error.certainty = NOT_APPLIED
                raise
        self._renewing = threading.Thread(target=self._keep, name="semel-lease", daemon=True)
        self._renewing.start()

    def done(self, value: Any) -> Receipt:
        """Completes with the value of the function, and returns its receipt."""
        self._ended.set()
        op, kept = self.operation, True
        unwritten: Optional[Exception] = None
        try:
            body = _outcome(value, None)
            if len(_write(body).encode()) > _LARGEST:
                body, kept = _outcome(b"too large", _TOO_LARGE), False
        except Exception as error:  # Whatever breaks while the value is written: the effect happened.
            unwritten, body = error, _unwritten(error)
        try:
            self.settle("complete", body, value)
        except Unrecorded as error:
            # The effect happened: that is recorded even if its outcome cannot be.
            if error.status == 413:
                body, kept = _outcome(b"too large", _TOO_LARGE), False
            elif error.status == 400:
                unwritten, body = error, _unwritten(error)
            else:
                raise
            self.settle("complete", body, value)
        if unwritten is not None:
            told = Unreadable(f"the outcome is no JSON: {_text(unwritten)}", operation_id=op.operation_id)
            raise told._with_result(value) from unwritten
        return Receipt(
            value,
            replayed=False,
            operation_id=op.operation_id,
            attempt=op.attempt,
            possible_repeat=op.possible_repeat,
            kept=kept,
        )

    def settle(self, step: str, body: Any, value: Any) -> None:
        """Reports an effect that happened; an error carries `value`."""
        self._ended.set()
        op = self.operation
        try:
            self._client._step(op.claim, step, body)
        except ClaimLost as error:
            error.operation_id = error.operation_id or op.operation_id
            raise error._with_result(value)
        except Exception as error:
            told = Unrecorded(
                f"the effect ran, and its outcome is not recorded: {error}",
                code=getattr(error, "code", None),
                operation_id=op.operation_id,
                status=getattr(error, "status", None),
                pointer=getattr(error, "pointer", None),
            )
            raise told._with_result(value) from error

    def failed(self, error: BaseException) -> None:
        """Releases or fails the operation; the caller raises the error itself."""
        self._ended.set()
        said = _text(error)
        step, body = "release", _released(f"{type(error).__name__}: {said}", MAYBE_APPLIED)
        if isinstance(error, _Said) and error._report():
            said = said or type(error).__name__
            try:
                if isinstance(error, NotApplied):
                    body = _released(said, NOT_APPLIED)
                    body = _released(said, NOT_APPLIED, error.not_before)
                elif isinstance(error, Failed):
                    certainty = _certainty(error.certainty, error.decisive)
                    step, body = "fail", _released(said, certainty, decisive=error.decisive)
            except Exception as fault:
                _log.warning("%s: a failure is not reported as it was said: %s", self._name, fault)
        # Whoever interrupts the program does not wait half a minute.
        self.give_up(step, body, None if isinstance(error, Exception) else 2.0)

    def give_up(self, step: str, body: Any, within: Optional[float] = None) -> None:
        """Reports an attempt without an outcome. What cannot be reported is left to the end of the lease."""
        self._ended.set()
        try:
            self._client._step(self.operation.claim, step, body, within=within)
        except Exception as error:
            _log.warning("%s: the end of an attempt is not recorded: %s", self._name, error)

    def _keep(self) -> None:
        while True:
            wait = self._asked_at + self._lease / 3 - time.monotonic()
            if self._ended.wait(max(wait, 0.0)):
                return
            try:
                self._renew(self._lease / 3)
            except ClaimLost:
                return
            except Exception as error:
                _log.warning("%s: a lease is not renewed: %s", self._name, error)
                if self._ended.wait(min(self._lease / 10, _LONGEST_PAUSE)):
                    return

    def _renew(self, within: float) -> None:
        sent_at = time.monotonic()
        try:
            self._client._step(self.operation.claim, "renew", {"lease": _wire(self._lease)}, within=within)
        except ClaimLost:
            self.operation.lost.set()
            raise
        self._asked_at = sent_at


async def _in_thread(begin: Callable[..., Any], *args: Any) -> Any:
    """Begins an attempt in a thread; whoever is cancelled meanwhile gives it back."""
    begun = asyncio.ensure_future(asyncio.to_thread(begin, *args))

    def give_back(ended: asyncio.Future[Any]) -> None:
        if not ended.cancelled() and ended.exception() is None and isinstance(ended.result(), _Attempt):
            body = _released("cancelled before it ran", NOT_APPLIED)
            threading.Thread(target=ended.result().give_up, args=("release", body, 2.0)).start()

    try:
        return await asyncio.shield(begun)
    except asyncio.CancelledError:
        begun.add_done_callback(give_back)
        raise


class _Answer:
    def __init__(self, status: int, raw: bytes, first_sent_at: float, sent_at: float) -> None:
        self.status = status
        value: Any = None
        try:
            value = _read(raw)
        except ValueError:
            # Who refuses without JSON is not Semel, and refuses all the same.
            if status == 200:
                raise
        self.value = value if isinstance(value, dict) else {}
        self.first_sent_at = first_sent_at
        self.sent_at = sent_at

    def is_passing(self) -> bool:
        """Tells whether the same request may get another answer soon. A problem with status 500 stays."""
        stays = self.status == 501 or (self.status == 500 and self.text("code") is not None)
        return self.status in (408, 429) or (self.status >= 500 and not stays)

    def text(self, name: str) -> Optional[str]:
        """Returns a member that is a string; what is none is not Semel's."""
        value = self.value.get(name)
        return value if isinstance(value, str) else None

    def why(self) -> str:
        said = f"{self.status} {self.text('code') or ''}: {self.text('detail') or ''}".rstrip(": ")
        pointer = self.text("pointer")
        return said if pointer is None else f"{said} (at {pointer})"

    def accepted(self) -> Dict[str, Any]:
        if self.status == 200:
            return self.value
        code = self.text("code")
        kind = ClaimLost if code == "claim-lost" else Refused
        # What a record that cannot be read would say, nobody knows.
        certainty = MAYBE_APPLIED if self.status == 500 else None
        about: Dict[str, Any] = {"code": code, "operation_id": self.text("operation_id"), "status": self.status}
        raise kind(self.why(), certainty=certainty, pointer=self.text("pointer"), **about)


class _Http:
    """Connections to one server that are kept and used again."""

    def __init__(self, url: str, token: Optional[str], tls: Optional[ssl.SSLContext]) -> None:
        # What is refused is not printed: it may have a secret in it.
        fault = "the URL of Semel is missing or is not http(s): pass it, or set SEMEL_URL"
        try:
            parts = urlsplit(url)
            host, port = parts.hostname, parts.port
        except ValueError:
            raise ValueError(fault) from None
        if parts.scheme not in ("http", "https") or not host or not re.fullmatch(r"[!-~]+", url):
            raise ValueError(fault)
        if "@" in parts.netloc:
            raise ValueError("the URL of Semel has credentials in it: pass the token by itself")
        if token and not re.fullmatch(r"[!-~]+", token):
            raise ValueError("the token of Semel has a character that is no visible ASCII")
        self._host, self._port = host, port
        self._tls = (tls or ssl.create_default_context()) if parts.scheme == "https" else None
        self._prefix = parts.path.rstrip("/")
        self._headers = {"Accept": "application/json"}
        if token:
            self._headers["Authorization"] = f"Bearer {token}"
        self._lock = threading.Lock()
        self._idle: List[http.client.HTTPConnection] = []
        self._process = os.getpid()

    def send(
        self, method: str, path: str, body: Optional[bytes], timeout: float
    ) -> Tuple[int, http.client.HTTPMessage, bytes]:
        headers = dict(self._headers)
        if body is not None:
            headers["Content-Type"] = "application/json"
        connection = self._take()
        if connection is not None:
            try:
                return self._over(connection, method, path, body, headers, timeout)
            except (ConnectionError, http.client.BadStatusLine):
                pass  # The server closed it while nobody used it, or died: a new one will tell.
        if self._tls is not None:
            connection = http.client.HTTPSConnection(self._host, self._port, context=self._tls)
        else:
            connection = http.client.HTTPConnection(self._host, self._port)
        return self._over(connection, method, path, body, headers, timeout)

    def _over(
        self,
        connection: http.client.HTTPConnection,
        method: str,
        path: str,
        body: Optional[bytes],
        headers: Mapping[str, str],
        timeout: float,
    ) -> Tuple[int, http.client.HTTPMessage, bytes]:
        connection.timeout = timeout
        try:
            if connection.sock is not None:
                connection.sock.settimeout(timeout)
            connection.request(method, self._prefix + path, body, dict(headers))
            answer = connection.getresponse()
            raw = answer.read()
        except BaseException:
            connection.close()
            raise
        if answer.will_close:
            connection.close()
        else:
            with self._lock:
                self._idle.append(connection)
        return answer.status, answer.headers, raw

    def _take(self) -> Optional[http.client.HTTPConnection]:
        with self._lock:
            if self._process != os.getpid():
                # They belong to the parent of this process, which still uses them.
                self._process, self._idle = os.getpid(), []
            return self._idle.pop() if self._idle else None

    def close(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()


_OPTIONS = {
    "fingerprint", "tenant", "lease", "window", "class_", "provider_window", "on_doubt", "transport", "birth",
    "entity", "version", "wait", "claim_id",
}
_DURATIONS = {"lease", "window", "provider_window", "wait"}


def _request(operation: str, key: Key, options: Mapping[str, Any]) -> Dict[str, Any]:
    if isinstance(key, bool) or not isinstance(key, (str, int, float, Decimal)):
        raise TypeError("a key is a string or a number")
    request: Dict[str, Any] = {"operation": operation, "key": key}
    for name, value in options.items():
        if name not in _OPTIONS:
            raise TypeError(f"unknown option: {name}")
        if value is None:
            continue
        if name in _DURATIONS:
            value = _wire(value)
        elif name == "birth" and isinstance(value, datetime):
            value = _instant(value)
        request["class" if name == "class_" else name] = value
    request.setdefault("claim_id", _claim_id())
    return request


def _claim_id() -> str:
    return os.urandom(16).hex()


def _replayed(decision: Mapping[str, Any]) -> Receipt:
    outcome = decision.get("outcome")
    content_type = decision.get("content_type")
    kept = not decision.get("outcome_too_large", False) and content_type != _TOO_LARGE
    if kept and "outcome_base64" in decision:
        outcome = base64.b64decode(decision["outcome_base64"])
        if content_type == _UNWRITTEN:
            said = outcome.decode(errors="replace")
            raise Unreadable(f"the outcome is no JSON: {said}", operation_id=decision.get("operation_id"))
    return Receipt(
        outcome,
        replayed=True,
        duplicate=decision.get("duplicate"),
        operation_id=decision.get("operation_id"),
        completed_at=decision.get("completed_at"),
        content_type=content_type,
        kept=kept,
    )


def _refusal(decision: Mapping[str, Any]) -> SemelError:
    kind = decision.get("decision")
    about = {"code": kind, "operation_id": decision.get("operation_id")}
    if kind == "busy":
        retry_after = decision.get("retry_after_ms", 1000) / 1000
        return Busy("another caller runs this key", retry_after=retry_after, until=decision.get("until"), **about)
    if kind == "conflict":
        return Conflict("the key was used with another fingerprint", **about)
    if kind == "stale":
        return Stale("the entity has this version or a later one", applied=decision.get("applied"), **about)
    if kind == "illegal":
        return Illegal("the entity's state does not allow this change", **about)
    if decision.get("certainty") in (NOT_APPLIED, MAYBE_APPLIED):
        about["certainty"] = decision["certainty"]
    if kind == "too_old":
        return TooOld("the request is older than the window", **about)
    if kind == "parked":
        state = str(decision.get("state", ""))
        if state == "in_doubt":
            return InDoubt("nobody knows whether the effect happened", state=state, **{**about, "code": "in-doubt"})
        if state == "dead":
            return Dead("the effect failed for good, or is out of attempts", state=state, **{**about, "code": "dead"})
        return Parked(f"the operation is parked: {state}", state=state, **about)
    return Refused(f"this client does not know the decision {kind!r}", **about)


def _outcome(value: Any, content_type: Optional[str]) -> Dict[str, Any]:
    if isinstance(value, (bytes, bytearray, memoryview)):
        text = base64.b64encode(bytes(value)).decode()
        return {"outcome_base64": text, "content_type": content_type or "application/octet-stream"}
    return {"outcome": value}


def _unwritten(error: Exception) -> Dict[str, Any]:
    said = f"{type(error).__name__}: {_text(error)}"[:500]
    return _outcome(said.encode(errors="replace"), _UNWRITTEN)


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:
        return ""


def _is_coroutine_function(function: Any) -> bool:
    called = type(function).__call__ if callable(function) else None
    return any(inspect.iscoroutinefunction(it) for it in (function, called))


def _certainty(certainty: Optional[str], decisive: bool) -> str:
    """The certainty of a failure, unless it contradicts itself."""
    if certainty is None:
        return NOT_APPLIED if decisive else MAYBE_APPLIED
    if certainty not in (NOT_APPLIED, MAYBE_APPLIED):
        raise ValueError("a certainty is not_applied or maybe_applied")
    if decisive and certainty != NOT_APPLIED:
        raise ValueError("what is decisive was not applied")
    return certainty


def _released(
    error: str,
    certainty: str,
    not_before: Union[None, float, timedelta, datetime] = None,
    decisive: bool = False,
) -> Dict[str, Any]:
    line = " ".join(error.encode(errors="replace").decode().split())[:500]
    body: Dict[str, Any] = {"error": line or "no reason was given", "certainty": certainty}
    if not_before is not None:
        body["not_before"] = _not_before(not_before)
    if decisive:
        body["decisive"] = True
    return body


def _not_before(value: Union[float, timedelta, datetime]) -> str:
    if not isinstance(value, datetime):
        try:
            wait = value if isinstance(value, timedelta) else timedelta(seconds=value)
            value = datetime.now(timezone.utc) + wait
        except OverflowError as error:
            raise ValueError("the time is out of bounds") from error
    return _instant(value)


def _instant(value: datetime) -> str:
    if value.tzinfo is None:
        raise ValueError("a time needs its time zone")
    return value.astimezone(timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")


_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}


def _seconds(value: Duration) -> float:
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, str):
        parts = re.fullmatch(r"(\d+)(ms|s|m|h|d|w)", value)
        if parts is None:
            raise ValueError(f"{value!r} is no duration such as \"30s\" or \"500ms\"")
        return int(parts[1]) * _UNITS[parts[2]]
    return float(value)


def _wire(value: Duration) -> str:
    return value if isinstance(value, str) else f"{round(_seconds(value) * 1000)}ms"


def _retry_after(header: Optional[str]) -> Optional[float]:
    if header is None:
        return None
    if header.strip().isdigit():
        return float(header)
    with contextlib.suppress(ValueError, TypeError):
        return max(email.utils.parsedate_to_datetime(header).timestamp() - time.time(), 0.0)
    return None


def _spelled(key: Key) -> str:
    """The key as the command line has it: a number is `json:1`, and a string that begins so is quoted."""
    if isinstance(key, str):
        return "json:" + _write(key) if key.startswith("json:") else key
    return "json:" + _write(key)


def _read(raw: bytes) -> Any:
    return json.loads(raw, parse_float=_decimal, parse_int=_integer)


def _decimal(text: str) -> Union[float, Decimal]:
    number = float(text)
    exact = Decimal(text)
    return number if math.isfinite(number) and Decimal(repr(number)) == exact else exact


def _integer(text: str) -> Union[int, Decimal]:
    try:
        return int(text)
    except ValueError:  # More digits than Python converts.
        return Decimal(text)


def _write(value: Any) -> str:
    """JSON with all digits of every number; whatever another type would change in silence is a `TypeError`."""
    if value is None:
        return "null"
    if value is True:
        return "true"
    if value is False:
        return "false"
    if isinstance(value, str):
        return encode_basestring(value)
    if isinstance(value, int):
        return int.__repr__(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError("JSON has no endless numbers")
        return float.__repr__(value)
    if isinstance(value, Decimal):
        if not value.is_finite():
            raise ValueError("JSON has no endless numbers")
        return str(value)
    if isinstance(value, Mapping):
        if not all(isinstance(name, str) for name in value):
            raise TypeError("a member of JSON has a string for a name")
        return "{" + ",".join(f"{encode_basestring(name)}:{_write(it)}" for name, it in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ",".join(map(_write, value)) + "]"
    raise TypeError(f"{type(value).__name__} is no JSON")


# HTTP: requests with a header `Idempotency-Key`.

_Headers = List[Tuple[str, str]]
_KEPT = {
    "content-type", "content-encoding", "content-language", "content-disposition", "location", "etag",
    "last-modified", "link", "vary",
}
_NOT_APPLIED_STATUS = {401, 403, 407, 408, 425, 429, 503}


@dataclass(frozen=True)
class _Response:
    status: int
    headers: _Headers
    body: bytes

    @classmethod
    def problem(cls, status: int, code: str, detail: str, **more: Any) -> _Response:
        headers = [("content-type", "application/problem+json")]
        if "retry_after" in more:
            headers.append(("retry-after", str(max(1, math.ceil(more.pop("retry_after"))))))
        more = {name: value for name, value in more.items() if value is not None}
        body = {"type": f"urn:semel:problem:{code}", "code": code, "status": status, "detail": detail, **more}
        return cls(status, headers, _write(body).encode())


class _Idempotency:
    """The rules that both kinds of middleware share."""

    def __init__(
        self,
        app: Any,
        semel: Semel,
        *,
        operation: str = "http",
        methods: Iterable[str] = ("POST", "PATCH"),
        require_key: bool = False,
        tenant: Optional[Callable[[Any], Optional[str]]] = None,
        wait: Duration = "5s",
        lease: Duration = "30s",
        window: Optional[Duration] = None,
        class_: Optional[str] = None,
        provider_window: Optional[Duration] = None,
        on_doubt: Optional[str] = None,
        decisive: Iterable[int] = (),
        max_body: int = 1 << 20,
        max_answer: int = 512 << 10,
    ) -> None:
        self._app = app
        self._semel = semel
        self._operation = operation
        self._methods = {method.upper() for method in methods}
        self._require_key = require_key
        self._tenant = tenant
        self._decisive = set(decisive)
        self._max_body = max_body
        self._max_answer = max_answer
        self._is_keyed = class_ == "keyed" or provider_window is not None
        self._options = {
            "wait": wait, "lease": lease, "window": window, "class_": class_,
            "provider_window": provider_window, "on_doubt": on_doubt,
        }

    def _key(self, method: str, sent: Sequence[bytes]) -> Union[None, str, _Response]:
        """Returns the key of a request; `None` lets it pass as it is."""
        if method not in self._methods:
            return None
        if not sent:
            if self._require_key:
                return _Response.problem(400, "key-missing", "the header Idempotency-Key is required")
            return None
        invalid = functools.partial(_Response.problem, 400, "key-invalid")
        if len(sent) > 1:
            return invalid("the header Idempotency-Key was sent twice")
        key = sent[0].strip(b" \t")
        if key.startswith(b'"'):
            quoted = re.fullmatch(rb'"((?:[^"\\]|\\["\\])*)"', key)
            if quoted is None:
                return invalid("the quotes of the key do not match")
            key = re.sub(rb'\\(["\\])', rb"\1", quoted[1])
        if not key.strip() or len(key) > 255 or not all(0x20 <= byte <= 0x7E for byte in key):
            return invalid("a key has 1 to 255 printable ASCII characters")
        return key.decode("ascii")

    def _too_large(self) -> _Response:
        return _Response.problem(413, "body-too-large", f"a body has at most {self._max_body} bytes")

    def _begin(
        self, key: str, request: Any, method: str, path: str, query: str, body: bytes, authorization: bytes
    ) -> Union[_Response, _Attempt]:
        tenant = self._tenant(request) if self._tenant else None
        if self._tenant and not tenant:
            return _Response.problem(400, "tenant-missing", "the request names no tenant")
        fingerprint = {"method": method, "path": path, "query": query, "body": hashlib.sha256(body).hexdigest()}
        if not tenant and authorization:
            fingerprint["authorization"] = hashlib.sha256(authorization).hexdigest()
        options = {**self._options, "tenant": tenant, "fingerprint": fingerprint}
        try:
            begun = self._semel._begin(self._operation, key, options)
        except SemelError as error:
            return _answer_of(error)
        return self._replayed(begun) if isinstance(begun, Receipt) else begun

    def _replayed(self, receipt: Receipt) -> _Response:
        stored = receipt.outcome
        if not receipt.kept or (isinstance(stored, dict) and stored.get("too_large")):
            status = stored.get("status") if receipt.kept else None
            return _Response.problem(
                410, "answer-too-large", "the answer was not kept", original_status=status,
                operation_id=receipt.operation_id,
            )
        try:
            status = stored["status"]
            headers = [(name, value) for name, value in stored.get("headers", [])]
            body = base64.b64decode(stored.get("body", ""))
            is_answer = type(status) is int and 200 <= status < 600
            is_answer = is_answer and all(isinstance(it, str) for pair in headers for it in pair)
        except (TypeError, ValueError, KeyError, AttributeError):
            is_answer = False
        if not is_answer:
            return _unreadable(receipt.operation_id)
        headers.append(("idempotency-replayed", "true"))
        return _Response(status, headers, body)

    def _finish(self, attempt: _Attempt, answer: _Response) -> _Response:
        """Records the answer before its first byte leaves, or releases the key."""
        status, op = answer.status, attempt.operation
        is_outcome = 200 <= status < 500 and status not in _NOT_APPLIED_STATUS
        certainty = NOT_APPLIED if status in _NOT_APPLIED_STATUS else MAYBE_APPLIED
        if self._is_keyed and status == 409:
            is_outcome, certainty = False, NOT_APPLIED
        if op.possible_repeat and not (200 <= status < 300 or status in self._decisive):
            is_outcome = False
        if not is_outcome:
            attempt.give_up("release", _released(f"answered {status}", certainty))
            return answer
        stored: Dict[str, Any] = {"status": status}
        if len(answer.body) > self._max_answer:
            stored["too_large"] = True
        else:
            try:
                stored["headers"] = [[name, it] for name, it in answer.headers if name.lower() in _KEPT]
            except Exception as error:
                attempt.failed(error)
                raise
            stored["body"] = base64.b64encode(answer.body).decode()
        try:
            attempt.settle("complete", {"outcome": stored}, answer)
        except SemelError as error:
            return _answer_of(error)
        return answer


def _unreadable(operation_id: Optional[str]) -> _Response:
    detail = "the record of this key is no answer of HTTP"
    return _Response.problem(
        500, "outcome-unreadable", detail, certainty=MAYBE_APPLIED, operation_id=operation_id
    )


def _answer_of(error: SemelError) -> _Response:
    about = {"operation_id": error.operation_id}
    if isinstance(error, Busy):
        return _Response.problem(
            409, "in-progress", "the first request still runs", retry_after=error.retry_after, **about
        )
    if isinstance(error, Conflict):
        return _Response.problem(422, "key-reused", "the key was used for another request", **about)
    if isinstance(error, InDoubt):
        return _Response.problem(409, "in-doubt", str(error), certainty=error.certainty, **about)
    if isinstance(error, Parked):
        return _Response.problem(409, error.state.replace("_", "-"), str(error), certainty=error.certainty, **about)
    if isinstance(error, TooOld):
        return _Response.problem(409, "too-old", str(error), certainty=error.certainty, **about)
    if isinstance(error, Unreadable) or error.code == "outcome-unreadable":
        return _unreadable(error.operation_id)
    if isinstance(error, ClaimLost):
        return _Response.problem(409, "claim-lost", str(error), certainty=error.certainty, **about)
    if isinstance(error, Unrecorded):
        # 503 would say that nothing was applied.
        return _Response.problem(
            500, "outcome-unrecorded", str(error), retry_after=1, certainty=error.certainty, **about
        )
    if isinstance(error, Refused) and error.code == "invalid-input":
        return _Response.problem(400, "key-invalid", str(error))
    return _Response.problem(
        503, "store-unavailable", str(error), retry_after=getattr(error, "retry_after", None) or 1,
        certainty=error.certainty, **about,
    )


class WsgiIdempotency(_Idempotency):
    """WSGI middleware: one effect for each `Idempotency-Key`, with the stored answer for every retry.

    Answers are held until they are recorded. A server that joins a header that was sent twice hides that from WSGI.
    """

    def __call__(self, environ: Dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        method = environ["REQUEST_METHOD"]
        sent = environ.get("HTTP_IDEMPOTENCY_KEY")
        key = self._key(method, [] if sent is None else [sent.encode("latin-1")])
        if key is None:
            return self._app(environ, start_response)
        answer = key if isinstance(key, _Response) else self._run(key, environ)
        status = f"{answer.status} {http.client.responses.get(answer.status, 'Unknown')}"
        headers = [(name, value) for name, value in answer.headers if name.lower() != "content-length"]
        start_response(status, [*headers, ("content-length", str(len(answer.body)))])
        return [answer.body]

    def _run(self, key: str, environ: Dict[str, Any]) -> _Response:
        length = environ.get("CONTENT_LENGTH") or ("-1" if environ.get("wsgi.input_terminated") else "0")
        wanted = int(length) if length.isdigit() else self._max_body + 1
        if wanted > self._max_body and length.isdigit():
            return self._too_large()
        body = environ["wsgi.input"].read(wanted)
        if len(body) > self._max_body:
            return self._too_large()
        if length.isdigit() and len(body) < wanted:
            return _Response.problem(400, "key-invalid", "the request broke off")
        path = environ.get("SCRIPT_NAME", "") + environ.get("PATH_INFO", "")
        begun = self._begin(
            key, environ, environ["REQUEST_METHOD"], path, environ.get("QUERY_STRING", ""), body,
            environ.get("HTTP_AUTHORIZATION", "").encode("latin-1"),
        )
        if isinstance(begun, _Response):
            return begun
        said: List[Any] = []
        parts: List[bytes] = []

        def start(status: str, headers: _Headers, exc_info: Any = None) -> Callable[[bytes], None]:
            said[:] = [int(status.split(" ", 1)[0]), headers]
            return parts.append

        inner = {
            **environ, "wsgi.input": io.BytesIO(body), "CONTENT_LENGTH": str(len(body)),
            "semel.operation": begun.operation,
        }
        try:
            chunks = self._app(inner, start)
            try:
                parts.extend(chunks)
            finally:
                if hasattr(chunks, "close"):
                    chunks.close()
            if not said:
                raise RuntimeError("the application gave no answer")
            answer = _Response(said[0], said[1], b"".join(parts))
        except BaseException as error:
            begun.failed(error)
            raise
        return self._finish(begun, answer)


class AsgiIdempotency(_Idempotency):
    """ASGI middleware: one effect for each `Idempotency-Key`, with the stored answer for every retry.

    Answers are held until they are recorded. The application runs on if its client has hung up.
    """

    async def __call__(self, scope: Dict[str, Any], receive: Callable[..., Any], send: Callable[..., Any]) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        key = self._key(scope["method"], [it for name, it in scope["headers"] if name == b"idempotency-key"])
        if key is None:
            await self._app(scope, receive, send)
            return
        answer = key if isinstance(key, _Response) else await self._run(key, scope, receive)
        headers = [(name, value) for name, value in answer.headers if name.lower() != "content-length"]
        headers.append(("content-length", str(len(answer.body))))
        encoded = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers]
        await send({"type": "http.response.start", "status": answer.status, "headers": encoded})
        await send({"type": "http.response.body", "body": answer.body})

    async def _run(self, key: str, scope: Dict[str, Any], receive: Callable[..., Any]) -> _Response:
        body = b""
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                return _Response.problem(400, "key-invalid", "the request broke off")
            body += message.get("body", b"")
            if len(body) > self._max_body:
                return self._too_large()
            if not message.get("more_body"):
                break
        authorization = b"".join(it for name, it in scope["headers"] if name == b"authorization")
        begun = await _in_thread(
            self._begin, key, scope, scope["method"], scope["path"],
            scope.get("query_string", b"").decode("latin-1"), body, authorization,
        )
        if isinstance(begun, _Response):
            return begun
        handed = False
        status: List[int] = []
        headers: _Headers = []
        parts: List[bytes] = []

        async def again() -> Dict[str, Any]:
            nonlocal handed
            if handed:
                return await receive()
            handed = True
            return {"type": "http.request", "body": body, "more_body": False}

        async def hold(message: Dict[str, Any]) -> None:
            if message["type"] == "http.response.start":
                status.append(message["status"])
                for name, value in message.get("headers", []):
                    headers.append((bytes(name).decode("latin-1"), bytes(value).decode("latin-1")))
            elif message["type"] == "http.response.body":
                parts.append(message.get("body", b""))

        try:
            await self._app({**scope, "semel.operation": begun.operation}, again, hold)
            if not status:
                raise RuntimeError("the application gave no answer")
            answer = _Response(status[0], headers, b"".join(parts))
        except BaseException as error:
            await asyncio.shield(asyncio.to_thread(begun.failed, error))
            raise
        return await asyncio.shield(asyncio.to_thread(self._finish, begun, answer))
