package io.github.semelrs;

import java.math.BigDecimal;
import java.math.BigInteger;
import java.net.URI;
import java.net.URLEncoder;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.security.SecureRandom;
import java.time.DateTimeException;
import java.time.Duration;
import java.time.Instant;
import java.time.ZonedDateTime;
import java.time.format.DateTimeFormatter;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.StringJoiner;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.ThreadFactory;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicBoolean;

/**
 * Semel's claim API from Java: one business key, one effect, or a visible record that says why not.
 *
 * <pre>{@code
 * try (var semel = new Semel("http://127.0.0.1:8181")) {
 *     var receipt = semel.once("charge", "payment-1", op -> charge(op.idempotencyKey()));
 * }
 * }</pre>
 *
 * One file, nothing beside Java 17. A client is safe to share between threads. Values are those of JSON: null, Boolean,
 * String, Long, BigInteger, BigDecimal, List and Map, so that numbers keep their digits; bytes are byte[].
 */
public final class Semel implements AutoCloseable {
    /** Says whether an effect was applied. */
    public enum Certainty {
        NOT_APPLIED, MAYBE_APPLIED;

        String word() {
            return name().toLowerCase(java.util.Locale.ROOT);
        }
    }

    /** The effect: returns its outcome, a value of JSON or a byte[]. */
    @FunctionalInterface
    public interface Effect<E extends Exception> {
        Object run(Operation operation) throws E;
    }

    private static final Duration DEFAULT_LEASE = Duration.ofSeconds(30);
    private static final long LONGEST_PAUSE_MS = 2_000;
    /** The time for the release of a claim whose function was not called. */
    private static final Duration GIVING_BACK = Duration.ofSeconds(2);
    /** The content type of an outcome that stands for a value that is no JSON. */
    private static final String UNWRITTEN = "application/vnd.semel.unwritten";
    /** The content type of an outcome that stands for one that is too large to be sent. */
    private static final String TOO_LARGE = "application/vnd.semel.too-large";
    /** In characters: a server keeps less, and takes more. */
    private static final int LARGEST = 2 << 20;
    private static final System.Logger LOG = System.getLogger("semel");
    private static final SecureRandom RANDOM = new SecureRandom();

    private final String url;
    private final String token;
    private final Duration timeout;
    private final Duration retryFor;
    private final HttpClient http;
    /** Has the renewals that are due later: none of an attempt that ended. */
    final ScheduledThreadPoolExecutor clock = new ScheduledThreadPoolExecutor(1, threads("semel-clock"));
    private final ExecutorService renewals = Executors.newCachedThreadPool(threads("semel-lease"));
    private final Set<Attempt> running = ConcurrentHashMap.newKeySet();

    /** Makes a client of the server that the variable SEMEL_URL names, with the token SEMEL_TOKEN. */
    public Semel() {
        this(null);
    }

    /** Makes a client with the token of the variable SEMEL_TOKEN, if it is set. */
    public Semel(String url) {
        this(url, null);
    }

    /** Makes a client that waits ten seconds for an answer, and asks half a minute for a lost one. */
    public Semel(String url, String token) {
        this(url, token, Duration.ofSeconds(10), Duration.ofSeconds(30));
    }

    /** Makes a client that waits `timeout` for one answer, and asks again for a lost one until `retryFor` is over. */
    public Semel(String url, String token, Duration timeout, Duration retryFor) {
        var address = url == null || url.isEmpty() ? System.getenv("SEMEL_URL") : url;
        var secret = token == null ? System.getenv("SEMEL_TOKEN") : token;
        this.url = (address == null ? "" : address.strip()).replaceAll("/+$", "");
        this.token = secret == null ? "" : secret.strip();
        // What is refused is not printed: it may have a secret in it.
        if (!this.url.matches("https?://[!-~&&[^/]][!-~]*") || !isAddress(this.url)) {
            throw new IllegalArgumentException("the URL of Semel is missing or is not http(s): pass it, or set SEMEL_URL");
        }
        if (URI.create(this.url).getRawAuthority().contains("@")) {
            throw new IllegalArgumentException("the URL of Semel has credentials in it: pass the token by itself");
        }
        if (!this.token.matches("[!-~]*")) {
            throw new IllegalArgumentException("the token of Semel has a character that is no visible ASCII");
        }
        clock.setRemoveOnCancelPolicy(true);
        this.timeout = timeout;
        this.retryFor = retryFor;
        this.http = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).connectTimeout(timeout).build();
    }

    private static boolean isAddress(String url) {
        try {
            var parsed = URI.create(url);
            return parsed.getHost() != null && parsed.getPort() < 65_536;
        } catch (IllegalArgumentException error) {
            return false;
        }
    }

    // Calls that run a function.

    /** Does what {@link #once(String, Object, Options, Effect)} does, with the default options. */
    public <E extends Exception> Receipt once(String operation, Object key, Effect<E> effect) throws E {
        return once(operation, key, new Options(), effect);
    }

    /**
     * Runs the effect unless that of the key happened before, and returns its outcome.
     *
     * The key is a String or a Number. What the effect throws releases the key, as "maybe applied" unless it is
     * {@link NotApplied}, and is thrown as it is; every other failure is a {@link SemelException}.
     */
    public <E extends Exception> Receipt once(String operation, Object key, Options options, Effect<E> effect) throws E {
        var lease = options.lease == null ? DEFAULT_LEASE : options.lease;
        var name = operation + " " + (key instanceof String || key instanceof Number ? Json.write(key) : key);
        var body = Json.write(options.forOnce().request(operation, key));
        Answer answer;
        try {
            answer = asked("POST", "/v1/claims", body, options.waits());
        } catch (Unavailable error) {
            if (error.getCause() instanceof InterruptedException) {
                // The claim may be granted, and nobody would run it.
                giveBack(name, body, options.waits());
            }
            throw error;
        }
        var decision = answer.accepted();
        if ("replay".equals(decision.get("decision"))) {
            return replayed(decision, answer.outcome);
        }
        if (!"granted".equals(decision.get("decision"))) {
            throw refusal(decision);
        }
        // A claim that is resumed was granted to an earlier request, and so was its lease.
        var askedAt = Boolean.TRUE.equals(decision.get("resumed")) ? answer.firstSentAt : answer.sentAt;
        var attempt = new Attempt(name, new Operation(decision), lease, askedAt);
        attempt.begin();
        Object value;
        try {
            value = effect.run(attempt.operation);
        } catch (Throwable error) {
            attempt.failed(error);
            throw error;
        }
        return attempt.done(value);
    }

    /** Asks for a claim again whose answer nobody waited for, and releases it. */
    private void giveBack(String name, String body, Duration waits) {
        var within = retryFor.compareTo(GIVING_BACK) < 0 ? GIVING_BACK : retryFor;
        Runnable task = () -> {
            try {
                var decision = asked("POST", "/v1/claims", body, waits, within).accepted();
                if ("granted".equals(decision.get("decision"))) {
                    step(text(decision, "claim"), "release", nothingRan(), within);
                }
            } catch (RuntimeException error) {
                warn(name, "a claim that nobody waits for is not released", error);
            }
        };
        try {
            renewals.execute(task);
        } catch (RejectedExecutionException closed) {
            warn(name, "a claim that nobody waits for is not released", closed);
        }
    }

    private static Map<String, Object> nothingRan() {
        return released("nothing ran", Certainty.NOT_APPLIED, null, false);
    }

    private static void warn(String name, String what, Throwable error) {
        LOG.log(System.Logger.Level.WARNING, "{0}: {1}: {2}", name, what, textOf(error));
    }

    // The calls of the API, one by one.

    /** Asks for a claim and returns the decision. No class in the options means none. */
    public Map<String, Object> claim(String operation, Object key, Options options) {
        return asked("POST", "/v1/claims", Json.write(options.request(operation, key)), options.waits()).accepted();
    }

    /** Asks for at most 1,000 claims; answers come in their order, each a decision or a problem with its code. */
    public List<Map<String, Object>> claimBatch(List<Claim> claims) {
        var requests = claims.stream().map(it -> it.options.request(it.operation, it.key)).toList();
        return answers(asked("POST", "/v1/claims/batch", Json.write(Map.of("claims", requests)), Duration.ZERO));
    }

    /** One claim of a batch. */
    public record Claim(String operation, Object key, Options options) {}

    /** Extends the lease of a claim, counted from now. */
    public Map<String, Object> renew(String claim, Duration lease) {
        return step(claim, "renew", Map.of("lease", wire(lease)), null);
    }

    /** Marks the effect of a claim without a class as about to be sent. */
    public Map<String, Object> start(String claim) {
        return step(claim, "start", Map.of(), null);
    }

    /** Reports that the effect happened. The outcome is JSON, or a byte[]. */
    public Map<String, Object> complete(String claim, Object outcome) {
        return complete(claim, outcome, null);
    }

    /** Reports that the effect happened, to be remembered for a window of its own. */
    public Map<String, Object> complete(String claim, Object outcome, Duration window) {
        var body = outcomeOf(outcome);
        if (window != null) {
            body.put("window", wire(window));
        }
        return step(claim, "complete", body, null);
    }

    /** Reports an attempt that ended without a result; another may follow, not before an instant if one is given. */
    public Map<String, Object> release(String claim, String error, Certainty certainty, Instant notBefore) {
        return step(claim, "release", released(error, certainty, notBefore, false), null);
    }

    /**
     * Reports that no other attempt shall follow. What is decisive was not applied; without a certainty, anything else may
     * have been.
     */
    public Map<String, Object> fail(String claim, String error, Certainty certainty, boolean decisive) {
        return step(claim, "fail", released(error, certaintyOf(certainty, decisive), null, decisive), null);
    }

    /** Reports at most 1,000 steps, each with `claim`, `step` and its members as the API has them. */
    public List<Map<String, Object>> settleBatch(List<Map<String, Object>> settlements) {
        return answers(asked("POST", "/v1/settle/batch", Json.write(Map.of("settlements", settlements)), Duration.ZERO));
    }

    /** Returns the record of a key, or null if there is none. The tenant may be null. */
    public Map<String, Object> operation(String operation, Object key, String tenant) {
        var query = new StringJoiner("&", "/v1/operations?", "");
        query.add("operation=" + URLEncoder.encode(operation, StandardCharsets.UTF_8));
        query.add("key=" + URLEncoder.encode(spelled(key), StandardCharsets.UTF_8));
        if (tenant != null) {
            query.add("tenant=" + URLEncoder.encode(tenant, StandardCharsets.UTF_8));
        }
        var answer = asked("GET", query.toString(), null, Duration.ZERO);
        return answer.status == 404 && "key-unknown".equals(answer.value.get("code")) ? null : answer.accepted();
    }

    /** Stops the threads that renew leases. What still runs is told to the log: its claim ends with its lease. */
    @Override
    public void close() {
        for (var attempt : running) {
            LOG.log(System.Logger.Level.WARNING, "{0}: it still runs, and its lease is renewed no more", attempt.name);
        }
        clock.shutdownNow();
        renewals.shutdown();
    }

    // What goes over the wire.

    private Map<String, Object> step(String claim, String step, Map<String, Object> body, Duration within) {
        var path = "/v1/claims/" + URLEncoder.encode(claim, StandardCharsets.UTF_8) + "/" + step;
        return asked("POST", path, Json.write(body), Duration.ZERO, within).accepted();
    }

    private Answer asked(String method, String path, String body, Duration extra) {
        return asked(method, path, body, extra, null);
    }

    /**
     * Asks until there is an answer, or until the time for asking again is over. Every call may be repeated. `extra` is
     * what the server may wait; a call that has to end `within` a time has no more for one answer.
     */
    private Answer asked(String method, String path, String body, Duration extra, Duration within) {
        // A request that cannot be built is a fault of the caller, and is not asked again.
        var request = request(method, path, body);
        var firstSentAt = System.nanoTime();
        var lastMs = within == null ? -1 : within.toMillis();
        var longest = (within == null || within.compareTo(timeout) > 0 ? timeout : within).plus(extra);
        long pauseMs = 50;
        while (true) {
            var sentAt = System.nanoTime();
            String code = null;
            var status = 0;
            String why;
            Long hintMs = null;
            Exception cause = null;
            try {
                var answer = askedOnce(request, longest, firstSentAt, sentAt);
                if (!answer.isPassing()) {
                    return answer;
                }
                status = answer.status;
                code = text(answer.value, "code");
                why = answer.why();
                hintMs = answer.retryAfterMs;
            } catch (InterruptedException interrupted) {
                Thread.currentThread().interrupt();
                throw new Unavailable("interrupted while asking Semel", Facts.NONE, null, interrupted);
            } catch (ExecutionException | TimeoutException | IllegalArgumentException error) {
                cause = error;
                why = String.valueOf(error instanceof ExecutionException ? error.getCause() : error);
            }
            long waitMs;
            if (hintMs == null) {
                waitMs = ThreadLocalRandom.current().nextLong(pauseMs / 2, pauseMs + 1);
                pauseMs = Math.min(2 * pauseMs, LONGEST_PAUSE_MS);
            } else {
                waitMs = hintMs + ThreadLocalRandom.current().nextLong(Math.min(hintMs / 8, 1_000) + 1);
            }
            if (lastMs < 0) {
                lastMs = millisSince(firstSentAt) + retryFor.toMillis();
            }
            if (millisSince(firstSentAt) + waitMs > lastMs) {
                var facts = new Facts(code, status, null, Certainty.NOT_APPLIED);
                var retryAfter = hintMs == null ? null : Duration.ofMillis(hintMs);
                throw new Unavailable("no answer from Semel: " + why, facts, retryAfter, cause);
            }
            try {
                Thread.sleep(waitMs);
            } catch (InterruptedException interrupted) {
                Thread.currentThread().interrupt();
                throw new Unavailable("interrupted while asking Semel", Facts.NONE, null, interrupted);
            }
        }
    }

    private HttpRequest request(String method, String path, String body) {
        var request = HttpRequest.newBuilder(URI.create(url + path)).header("Accept", "application/json");
        if (!token.isEmpty()) {
            request.header("Authorization", "Bearer " + token);
        }
        if (body == null) {
            request.method(method, HttpRequest.BodyPublishers.noBody());
        } else {
            request.header("Content-Type", "application/json").method(method, HttpRequest.BodyPublishers.ofString(body));
        }
        return request.build();
    }

    private Answer askedOnce(HttpRequest request, Duration timeout, long firstSentAt, long sentAt)
            throws InterruptedException, ExecutionException, TimeoutException {
        var sent = http.sendAsync(request, HttpResponse.BodyHandlers.ofString());
        try {
            return new Answer(sent.get(timeout.toMillis(), TimeUnit.MILLISECONDS), firstSentAt, sentAt);
        } finally {
            sent.cancel(true);
        }
    }

    private static final class Answer {
        final int status;
        final Map<String, Object> value;
        /** The text of the member `outcome`. */
        final String outcome;
        final Long retryAfterMs;
        final long firstSentAt;
        final long sentAt;

        Answer(HttpResponse<String> response, long firstSentAt, long sentAt) {
            this.status = response.statusCode();
            this.firstSentAt = firstSentAt;
            this.sentAt = sentAt;
            this.retryAfterMs = response.headers().firstValue("Retry-After").map(Answer::millis).orElse(null);
            var reader = new Json.Reader(response.body(), true);
            Map<String, Object> members = Map.of();
            try {
                if (reader.read() instanceof Map<?, ?> object) {
                    members = object(object);
                }
            } catch (IllegalArgumentException error) {
                // Who refuses without JSON is not Semel, and refuses all the same.
                if (status == 200) {
                    throw error;
                }
            }
            this.value = members;
            this.outcome = reader.outcome;
        }

        private static Long millis(String header) {
            if (header.strip().matches("\\d{1,9}")) {
                return Long.parseLong(header.strip()) * 1_000;
            }
            try {
                var at = ZonedDateTime.parse(header.strip(), DateTimeFormatter.RFC_1123_DATE_TIME).toInstant();
                return Math.max(0, Duration.between(Instant.now(), at).toMillis());
            } catch (DateTimeException noTime) {
                return null;
            }
        }

        /** Tells whether the same request may get another answer soon. A problem with status 500 stays. */
        boolean isPassing() {
            var stays = status == 501 || (status == 500 && text(value, "code") != null);
            return status == 408 || status == 429 || (status >= 500 && !stays);
        }

        String why() {
            var said = new StringJoiner(" ").add(String.valueOf(status));
            for (var name : List.of("code", "detail")) {
                if (text(value, name) != null) {
                    said.add(text(value, name));
                }
            }
            var pointer = text(value, "pointer");
            return pointer == null ? said.toString() : said + " (at " + pointer + ")";
        }

        Map<String, Object> accepted() {
            if (status == 200) {
                return value;
            }
            var code = text(value, "code");
            // What a record that cannot be read would say, nobody knows.
            var certainty = status == 500 || "claim-lost".equals(code) ? Certainty.MAYBE_APPLIED : Certainty.NOT_APPLIED;
            var facts = new Facts(code, status, text(value, "operation_id"), certainty, text(value, "pointer"));
            throw "claim-lost".equals(code) ? new ClaimLost(why(), facts) : new Refused(why(), facts);
        }
    }

    @SuppressWarnings("unchecked")
    private static Map<String, Object> object(Map<?, ?> value) {
        return (Map<String, Object>) value;
    }

    /** A member that is a string; what is none is not Semel's. */
    private static String text(Map<String, Object> members, String name) {
        return members.get(name) instanceof String text ? text : null;
    }

    private static String textOf(Throwable error) {
        try {
            return error.getMessage() == null ? error.toString() : error.getMessage();
        } catch (RuntimeException broken) {
            return error.getClass().getName();
        }
    }

    /** The certainty of a failure, unless it contradicts itself. */
    private static Certainty certaintyOf(Certainty certainty, boolean isDecisive) {
        if (isDecisive && certainty == Certainty.MAYBE_APPLIED) {
            throw new IllegalArgumentException("what is decisive was not applied");
        }
        if (certainty == null) {
            return isDecisive ? Certainty.NOT_APPLIED : Certainty.MAYBE_APPLIED;
        }
        return certainty;
    }

    @SuppressWarnings("unchecked")
    private static List<Map<String, Object>> answers(Answer answer) {
        return (List<Map<String, Object>>) answer.accepted().get("answers");
    }

    /** A claim that was granted: its lease is renewed until it is settled. */
    private final class Attempt {
        final String name;
        final Operation operation;
        private final Duration lease;
        private volatile long askedAt;
        private boolean ended;
        private ScheduledFuture<?> renewal;

        Attempt(String name, Operation operation, Duration lease, long askedAt) {
            this.name = name;
            this.operation = operation;
            this.lease = lease;
            this.askedAt = askedAt;
        }

        /** Renews first if a third of the lease is over, so that the effect does not begin at its end. */
        void begin() {
            if (millisSince(askedAt) >= lease.toMillis() / 3) {
                try {
                    renewOnce(lease);
                } catch (ClaimLost lost) {
                    ((SemelException) lost).certainty = Certainty.NOT_APPLIED;
                    throw lost;
                } catch (SemelException error) {
                    giveUp("release", nothingRan(), GIVING_BACK);
                    error.certainty = Certainty.NOT_APPLIED;
                    throw error;
                }
            }
            running.add(this);
            keep(lease.toMillis() / 3 - millisSince(askedAt));
        }

        private synchronized void keep(long waitMs) {
            if (ended) {
                return;
            }
            try {
                renewal = clock.schedule(() -> renewals.execute(this::renewed), Math.max(waitMs, 0), TimeUnit.MILLISECONDS);
            } catch (RejectedExecutionException closed) {
                LOG.log(System.Logger.Level.WARNING, "{0}: a lease is not renewed: the client is closed", name);
            }
        }

        private synchronized void end() {
            ended = true;
            running.remove(this);
            if (renewal != null) {
                renewal.cancel(false);
            }
        }

        private synchronized boolean hasEnded() {
            return ended;
        }

        private void renewed() {
            if (hasEnded()) {
                return;
            }
            try {
                renewOnce(lease.dividedBy(3));
                keep(lease.toMillis() / 3 - millisSince(askedAt));
            } catch (ClaimLost lost) {
                // The function was told; its end asks once more.
            } catch (RuntimeException error) {
                if (!hasEnded()) {
                    warn(name, "a lease is not renewed", error);
                }
                keep(Math.min(lease.toMillis() / 10, LONGEST_PAUSE_MS));
            }
        }

        private void renewOnce(Duration within) {
            var sentAt = System.nanoTime();
            try {
                step(operation.claim(), "renew", Map.of("lease", wire(lease)), within);
            } catch (ClaimLost lost) {
                operation.lost.complete(null);
                throw lost;
            }
            askedAt = sentAt;
        }

        /** Completes with the value of the function, and returns its receipt. */
        Receipt done(Object value) {
            end();
            Map<String, Object> body;
            RuntimeException unwritten = null;
            String text = null;
            var kept = true;
            try {
                body = outcomeOf(value);
                text = Json.write(value instanceof byte[] ? body.get("outcome_base64") : value);
                if (text.length() > LARGEST) {
                    body = marked(TOO_LARGE, "too large");
                    kept = false;
                }
            } catch (RuntimeException error) { // Whatever breaks while the value is written: the effect happened.
                unwritten = error;
                body = marked(UNWRITTEN, textOf(error));
            }
            try {
                complete(body, value);
            } catch (Unrecorded error) {
                // The effect happened: that is recorded even if its outcome cannot be.
                if (error.status == 413) {
                    kept = false;
                    complete(marked(TOO_LARGE, "too large"), value);
                } else if (error.status == 400) {
                    unwritten = error;
                    complete(marked(UNWRITTEN, error.getMessage()), value);
                } else {
                    throw error;
                }
            }
            if (unwritten != null) {
                var detail = "the outcome is no JSON: " + textOf(unwritten);
                throw new Unreadable(detail, facts(null, 0), unwritten).ranTo(value);
            }
            return new Receipt(
                value, value instanceof byte[] ? null : text, false, null, operation.operationId(), null,
                operation.attempt(), operation.possibleRepeat(), null, kept);
        }

        private static Map<String, Object> marked(String contentType, String said) {
            var body = outcomeOf(String.valueOf(said).getBytes(StandardCharsets.UTF_8));
            body.put("content_type", contentType);
            return body;
        }

        private Facts facts(String code, int status) {
            return new Facts(code, status, operation.operationId(), Certainty.MAYBE_APPLIED);
        }

        private void complete(Map<String, Object> body, Object value) {
            try {
                uninterrupted("complete", body, null);
            } catch (ClaimLost lost) {
                throw new ClaimLost(lost.getMessage(), facts(lost.code, lost.status)).ranTo(value);
            } catch (RuntimeException error) {
                var detail = "the effect ran, and its outcome is not recorded: " + textOf(error);
                var told = error instanceof SemelException refused ? refused : null;
                var facts = told == null ? facts(null, 0) : facts(told.code, told.status);
                throw new Unrecorded(detail, facts, error).ranTo(value);
            }
        }

        /** Releases or fails the operation; the caller throws the error itself. */
        void failed(Throwable error) {
            end();
            var said = textOf(error);
            var kind = error.getClass().getName();
            var isKind = said.startsWith(kind);
            var step = "release";
            var body = released(isKind ? said : kind + ": " + said, Certainty.MAYBE_APPLIED, null, false);
            if (error instanceof Declared declared && declared.report()) {
                if (error instanceof NotApplied notApplied) {
                    body = released(said, Certainty.NOT_APPLIED, notApplied.notBefore, false);
                } else if (error instanceof Failed failed) {
                    step = "fail";
                    body = released(said, failed.certainty, null, failed.isDecisive);
                }
            }
            giveUp(step, body, null);
        }

        /** Reports an attempt without an outcome. What cannot be reported is left to the end of the lease. */
        private void giveUp(String step, Map<String, Object> body, Duration within) {
            end();
            try {
                uninterrupted(step, body, within);
            } catch (RuntimeException error) {
                warn(name, "the end of an attempt is not recorded", error);
            }
        }

        /** Reports the end also where somebody interrupted the function. */
        private void uninterrupted(String step, Map<String, Object> body, Duration within) {
            var wasInterrupted = Thread.interrupted();
            try {
                step(operation.claim(), step, body, within);
            } finally {
                if (wasInterrupted) {
                    Thread.currentThread().interrupt();
                }
            }
        }
    }

    private static Receipt replayed(Map<String, Object> decision, String text) {
        var operationId = text(decision, "operation_id");
        var contentType = text(decision, "content_type");
        var outcome = decision.get("outcome");
        var kept = !Boolean.TRUE.equals(decision.get("outcome_too_large")) && !TOO_LARGE.equals(contentType);
        if (kept && decision.get("outcome_base64") instanceof String base64) {
            var bytes = Base64.getDecoder().decode(base64);
            if (UNWRITTEN.equals(contentType)) {
                var detail = "the outcome is no JSON: " + new String(bytes, StandardCharsets.UTF_8);
                throw new Unreadable(detail, new Facts(null, 0, operationId, Certainty.MAYBE_APPLIED), null);
            }
            outcome = bytes;
        }
        return new Receipt(
            outcome, text, true, text(decision, "duplicate"), operationId, text(decision, "completed_at"), 0,
            false, contentType, kept);
    }

    private static SemelException refusal(Map<String, Object> decision) {
        var kind = String.valueOf(decision.get("decision"));
        var state = String.valueOf(decision.getOrDefault("state", ""));
        var isMaybe = (kind.equals("parked") || kind.equals("too_old"))
            && !Certainty.NOT_APPLIED.word().equals(decision.get("certainty"));
        var code = switch (kind.equals("parked") ? state : "") {
            case "in_doubt" -> "in-doubt";
            case "dead" -> "dead";
            default -> kind;
        };
        var certainty = isMaybe ? Certainty.MAYBE_APPLIED : Certainty.NOT_APPLIED;
        var facts = new Facts(code, 0, text(decision, "operation_id"), certainty);
        return switch (kind) {
            case "busy" -> new Busy(
                facts, Duration.ofMillis(decision.get("retry_after_ms") instanceof Number ms ? ms.longValue() : 1_000),
                text(decision, "until"));
            case "conflict" -> new Conflict(facts);
            case "stale" -> new Stale(facts, decision.get("applied") instanceof Number applied ? applied : null);
            case "illegal" -> new Illegal(facts);
            case "too_old" -> new TooOld(facts);
            case "parked" -> switch (state) {
                case "in_doubt" -> new InDoubt(facts);
                case "dead" -> new Dead(facts);
                default -> new Parked(state, "the operation is parked: " + state, facts);
            };
            default -> new Refused("this client does not know the decision " + kind, facts);
        };
    }

    private static Map<String, Object> outcomeOf(Object value) {
        var body = new LinkedHashMap<String, Object>();
        if (value instanceof byte[] bytes) {
            body.put("outcome_base64", Base64.getEncoder().encodeToString(bytes));
            body.put("content_type", "application/octet-stream");
        } else {
            body.put("outcome", value);
        }
        return body;
    }

    private static Map<String, Object> released(String error, Certainty certainty, Instant notBefore, boolean decisive) {
        var line = String.join(" ", error.strip().split("\\s+"));
        var body = new LinkedHashMap<String, Object>();
        var end = line.codePointCount(0, line.length()) > 500 ? line.offsetByCodePoints(0, 500) : line.length();
        body.put("error", line.isEmpty() ? "no reason was given" : line.substring(0, end));
        body.put("certainty", certainty.word());
        if (notBefore != null) {
            body.put("not_before", notBefore.toString());
        }
        if (decisive) {
            body.put("decisive", true);
        }
        return body;
    }

    /** The key as the command line has it: a number is `json:1`, and a string that begins so is quoted. */
    private static String spelled(Object key) {
        return key instanceof String text && !text.startsWith("json:") ? text : "json:" + Json.write(key);
    }

    private static String wire(Duration duration) {
        return duration.toMillis() + "ms";
    }

    private static long millisSince(long nanoTime) {
        return (System.nanoTime() - nanoTime) / 1_000_000;
    }

    private static ThreadFactory threads(String name) {
        return task -> {
            var thread = new Thread(task, name);
            thread.setDaemon(true);
            return thread;
        };
    }

    /** Options of a claim. What is not set is not sent, but `once` has a lease of 30 seconds and the class unkeyed. */
    public static final class Options {
        private final Map<String, Object> members = new LinkedHashMap<>();
        private Duration lease;
        private Duration wait = Duration.ZERO;

        /** Sets what the key is bound to: any JSON. */
        public Options fingerprint(Object fingerprint) {
            return with("fingerprint", fingerprint);
        }

        public Options tenant(String tenant) {
            return with("tenant", tenant);
        }

        public Options transport(String transport) {
            return with("transport", transport);
        }

        public Options birth(Instant birth) {
            return with("birth", birth.toString());
        }

        public Options lease(Duration lease) {
            this.lease = lease;
            return with("lease", wire(lease));
        }

        public Options window(Duration window) {
            return with("window", wire(window));
        }

        /** Sets the time to wait for another caller to finish. */
        public Options wait(Duration wait) {
            this.wait = wait;
            return with("wait", wire(wait));
        }

        /** Declares an effect whose provider recognises the idempotency key for this long. */
        public Options keyed(Duration providerWindow) {
            return with("class", "keyed").with("provider_window", wire(providerWindow));
        }

        /** Declares an effect that no provider recognises; a doubt is "park" or "repeat". */
        public Options unkeyed(String onDoubt) {
            return with("class", "unkeyed").with("on_doubt", onDoubt);
        }

        /** Sets the entity, and the version of it that the effect writes. */
        public Options version(Object entity, long version) {
            return with("entity", entity).with("version", version);
        }

        /** Sets the claim id, 32 hexadecimal digits; else each call makes one. */
        public Options claimId(String claimId) {
            return with("claim_id", claimId);
        }

        private Options with(String name, Object value) {
            members.put(name, value);
            return this;
        }

        private Duration waits() {
            return wait;
        }

        private Options forOnce() {
            var options = new Options();
            options.lease(lease == null ? DEFAULT_LEASE : lease);
            options.unkeyed("park");
            if (members.containsKey("class")) {
                options.members.remove("on_doubt");
            }
            options.members.putAll(members);
            return options;
        }

        private Map<String, Object> request(String operation, Object key) {
            if (!(key instanceof String) && !(key instanceof Number)) {
                throw new IllegalArgumentException("a key is a String or a Number");
            }
            var request = new LinkedHashMap<String, Object>();
            request.put("operation", Objects.requireNonNull(operation));
            request.put("key", key);
            request.putAll(members);
            if (!request.containsKey("claim_id")) {
                var id = new byte[16];
                RANDOM.nextBytes(id);
                request.put("claim_id", HexFormat.of().formatHex(id));
            }
            return request;
        }
    }

    /** The operation as its function sees it. */
    public static final class Operation {
        private final Map<String, Object> granted;
        private final CompletableFuture<Void> lost = new CompletableFuture<>();

        private Operation(Map<String, Object> granted) {
            this.granted = granted;
        }

        public String claim() {
            return text(granted, "claim");
        }

        /** The same on every attempt: pass it on to whatever you call. */
        public String idempotencyKey() {
            return text(granted, "idempotency_key");
        }

        public String operationId() {
            return text(granted, "operation_id");
        }

        public int attempt() {
            return granted.get("attempt") instanceof Number attempt ? attempt.intValue() : 0;
        }

        public long fencingToken() {
            return granted.get("token") instanceof Number token ? token.longValue() : 0;
        }

        /** True if an earlier attempt may have applied the effect. */
        public boolean possibleRepeat() {
            return Boolean.TRUE.equals(granted.get("possible_repeat"));
        }

        public boolean takeover() {
            return Boolean.TRUE.equals(granted.get("takeover"));
        }

        /** True when another caller owns the operation: a function that can stop should. */
        public boolean isLost() {
            return lost.isDone();
        }

        /** Completed when another caller owns the operation. */
        public CompletableFuture<Void> whenLost() {
            return lost.copy();
        }
    }

    /**
     * The outcome of an operation, from this run or from the record.
     *
     * @param outcome the JSON value, or a byte[] where the outcome is no JSON
     * @param text the outcome as JSON, from the record as it was written
     * @param replayed true if it comes from the record
     * @param duplicate own, redelivery, republish or unknown, for a replay
     * @param attempt the number of the attempt that this call ran, else 0
     * @param kept false if the outcome was too large to be kept: the effect happened, and a replay has null for it
     */
    public record Receipt(
            Object outcome, String text, boolean replayed, String duplicate, String operationId, String completedAt,
            int attempt, boolean possibleRepeat, String contentType, boolean kept) {}

    /** What an effect says of its own operation; of an outer one it says nothing. */
    public abstract static sealed class Declared extends RuntimeException permits NotApplied, Failed {
        private static final long serialVersionUID = 1;
        private final AtomicBoolean isReported = new AtomicBoolean();

        private Declared(String message, Throwable cause) {
            super(message, cause);
        }

        /** Tells whether this is the operation that it speaks for, the first that it leaves. */
        boolean report() {
            return isReported.compareAndSet(false, true);
        }
    }

    /**
     * Throw it in the effect to say that it surely did not happen; another attempt may follow. To an effect that calls
     * `once` itself, what that call throws is an exception like any other.
     */
    public static final class NotApplied extends Declared {
        private static final long serialVersionUID = 1;
        private static final Instant YEAR_10000 = Instant.parse("9999-12-31T23:59:59Z");
        private final transient Instant notBefore;

        public NotApplied(String message) {
            this(message, null, null);
        }

        /** Keeps the key busy until `notBefore`, unless that is null. */
        public NotApplied(String message, Instant notBefore, Throwable cause) {
            super(message, cause);
            if (notBefore != null && (notBefore.isBefore(Instant.EPOCH) || !notBefore.isBefore(YEAR_10000))) {
                throw new IllegalArgumentException("the time is out of bounds");
            }
            this.notBefore = notBefore;
        }
    }

    /** Throw it in the effect to fail the operation for good: it is dead, or in doubt if the effect may have happened. */
    public static final class Failed extends Declared {
        private static final long serialVersionUID = 1;
        private final Certainty certainty;
        private final boolean isDecisive;

        /** Fails an operation that may have been applied. */
        public Failed(String message) {
            this(message, Certainty.MAYBE_APPLIED, false, null);
        }

        /**
         * Fails an operation that may have been applied unless a certainty is given. Decisive says that neither this attempt
         * nor an earlier one was applied: only an answer from behind the provider's own look-up of the idempotency key is.
         */
        public Failed(String message, Certainty certainty, boolean isDecisive, Throwable cause) {
            super(message, cause);
            this.certainty = certaintyOf(certainty, isDecisive);
            this.isDecisive = isDecisive;
        }
    }

    private record Facts(String code, int status, String operationId, Certainty certainty, String pointer) {
        Facts(String code, int status, String operationId, Certainty certainty) {
            this(code, status, operationId, certainty, null);
        }

        static final Facts NONE = new Facts(null, 0, null, Certainty.NOT_APPLIED);
    }

    /** The reason why a call has no outcome. */
    public abstract static class SemelException extends RuntimeException {
        private static final long serialVersionUID = 1;
        final String code;
        final int status;
        private final String operationId;
        private final String pointer;
        private Certainty certainty;
        private boolean ran;
        private transient Object result;

        private SemelException(String detail, Facts facts, Throwable cause) {
            super(detail, cause);
            this.code = facts.code;
            this.status = facts.status;
            this.operationId = facts.operationId;
            this.pointer = facts.pointer;
            this.certainty = facts.certainty;
        }

        /** Says whether the effect was applied. */
        public Certainty certainty() {
            return certainty;
        }

        public String code() {
            return code;
        }

        /** The status of HTTP, or 0. */
        public int status() {
            return status;
        }

        public String operationId() {
            return operationId;
        }

        /** The member of the request that a refusal is about, or null. */
        public String pointer() {
            return pointer;
        }

        /** True if this call ran the function to its end. */
        public boolean ran() {
            return ran;
        }

        /** The value that the function returned, if it ran. */
        public Object result() {
            return result;
        }

        SemelException ranTo(Object value) {
            ran = true;
            result = value;
            return this;
        }
    }

    /** Another caller runs this key, or its next attempt is not due yet. */
    public static final class Busy extends SemelException {
        private static final long serialVersionUID = 1;
        private final Duration retryAfter;
        private final String until;

        private Busy(Facts facts, Duration retryAfter, String until) {
            super("another caller runs this key", facts, null);
            this.retryAfter = retryAfter;
            this.until = until;
        }

        public Duration retryAfter() {
            return retryAfter;
        }

        public String until() {
            return until;
        }
    }

    /** The key was used with another fingerprint. The outcome on record is not shown. */
    public static final class Conflict extends SemelException {
        private static final long serialVersionUID = 1;

        private Conflict(Facts facts) {
            super("the key was used with another fingerprint", facts, null);
        }
    }

    /** The entity has this version or a later one. */
    public static final class Stale extends SemelException {
        private static final long serialVersionUID = 1;
        private final Number applied;

        private Stale(Facts facts, Number applied) {
            super("the entity has this version or a later one", facts, null);
            this.applied = applied;
        }

        /** The version that the entity has. */
        public Number applied() {
            return applied;
        }
    }

    /** The entity's state does not allow this change. */
    public static final class Illegal extends SemelException {
        private static final long serialVersionUID = 1;

        private Illegal(Facts facts) {
            super("the entity's state does not allow this change", facts, null);
        }
    }

    /** There is no record, and the request is older than the window: a record may have been forgotten. */
    public static final class TooOld extends SemelException {
        private static final long serialVersionUID = 1;

        private TooOld(Facts facts) {
            super("the request is older than the window", facts, null);
        }
    }

    /** Nothing runs this key until a person decides. */
    public static sealed class Parked extends SemelException permits InDoubt, Dead {
        private static final long serialVersionUID = 1;
        private final String state;

        private Parked(String state, String detail, Facts facts) {
            super(detail, facts, null);
            this.state = state;
        }

        public String state() {
            return state;
        }
    }

    /** The effect was started, and nobody knows whether it happened. */
    public static final class InDoubt extends Parked {
        private static final long serialVersionUID = 1;

        private InDoubt(Facts facts) {
            super("in_doubt", "nobody knows whether the effect happened", facts);
        }
    }

    /** The effect failed for good, or is out of attempts. */
    public static final class Dead extends Parked {
        private static final long serialVersionUID = 1;

        private Dead(Facts facts) {
            super("dead", "the effect failed for good, or is out of attempts", facts);
        }
    }

    /** Another caller owns the operation now: the effect outlived its lease. */
    public static final class ClaimLost extends SemelException {
        private static final long serialVersionUID = 1;

        private ClaimLost(String detail, Facts facts) {
            super(detail, facts, null);
        }
    }

    /** The function ran, and its result could not be recorded. */
    public static final class Unrecorded extends SemelException {
        private static final long serialVersionUID = 1;

        private Unrecorded(String detail, Facts facts, Throwable cause) {
            super(detail, facts, cause);
        }
    }

    /** The effect happened, and its outcome is no JSON. */
    public static final class Unreadable extends SemelException {
        private static final long serialVersionUID = 1;

        private Unreadable(String detail, Facts facts, Throwable cause) {
            super(detail, facts, cause);
        }
    }

    /** Semel gave no answer for as long as this client asks again. */
    public static final class Unavailable extends SemelException {
        private static final long serialVersionUID = 1;
        private final Duration retryAfter;

        private Unavailable(String detail, Facts facts, Duration retryAfter, Throwable cause) {
            super(detail, facts, cause);
            this.retryAfter = retryAfter;
        }

        /** The wait that Semel asked for, or null. */
        public Duration retryAfter() {
            return retryAfter;
        }
    }

    /** Semel does not accept the request. */
    public static final class Refused extends SemelException {
        private static final long serialVersionUID = 1;

        private Refused(String detail, Facts facts) {
            super(detail, facts, null);
        }
    }

    /** JSON, which the standard library of Java has not. Strict, and with all digits of every number. */
    public static final class Json {
        private static final int DEEPEST = 512;

        private Json() {}

        /** A text of JSON that is written as it is; a number that no BigDecimal holds is read as one. */
        public record Raw(String text) {}

        /** Reads a text. Numbers are Long, BigInteger or BigDecimal. */
        public static Object read(String text) {
            return new Reader(text, false).read();
        }

        /** Writes a value. What is no JSON is an IllegalArgumentException. */
        public static String write(Object value) {
            var text = new StringBuilder();
            write(value, text, 0);
            return text.toString();
        }

        private static void write(Object value, StringBuilder text, int depth) {
            if (depth > DEEPEST) {
                throw new IllegalArgumentException("the value is nested too deep");
            }
            if (value == null || value instanceof Boolean || value instanceof BigInteger || isWhole(value)) {
                text.append(value);
            } else if (value instanceof CharSequence string) {
                quote(string, text);
            } else if (value instanceof BigDecimal number) {
                text.append(number);
            } else if (value instanceof Double || value instanceof Float) {
                if (!Double.isFinite(((Number) value).doubleValue())) {
                    throw new IllegalArgumentException("JSON has no endless numbers");
                }
                text.append(value);
            } else if (value instanceof Raw raw) {
                text.append(raw.text);
            } else if (value instanceof Map<?, ?> map) {
                var separator = "{";
                for (var member : map.entrySet()) {
                    if (!(member.getKey() instanceof String name)) {
                        throw new IllegalArgumentException("a member of JSON has a string for a name");
                    }
                    text.append(separator);
                    separator = ",";
                    quote(name, text);
                    text.append(':');
                    write(member.getValue(), text, depth + 1);
                }
                text.append(map.isEmpty() ? "{}" : "}");
            } else if (value instanceof Iterable<?> list) {
                text.append('[');
                var separator = "";
                for (var element : list) {
                    text.append(separator);
                    separator = ",";
                    write(element, text, depth + 1);
                }
                text.append(']');
            } else if (value instanceof Object[] array) {
                write(java.util.Arrays.asList(array), text, depth);
            } else {
                throw new IllegalArgumentException(value.getClass().getName() + " is no JSON");
            }
        }

        private static boolean isWhole(Object value) {
            return value instanceof Long || value instanceof Integer || value instanceof Short || value instanceof Byte;
        }

        private static void quote(CharSequence string, StringBuilder text) {
            text.append('"');
            for (int at = 0; at < string.length(); at++) {
                var sign = string.charAt(at);
                char next = at + 1 < string.length() ? string.charAt(at + 1) : 0;
                if (sign == '"' || sign == '\\') {
                    text.append('\\').append(sign);
                } else if (Character.isHighSurrogate(sign) && Character.isLowSurrogate(next)) {
                    text.append(sign).append(next);
                    at++;
                } else if (sign < ' ' || Character.isSurrogate(sign)) {
                    text.append(String.format("\\u%04x", (int) sign));
                } else {
                    text.append(sign);
                }
            }
            text.append('"');
        }

        private static final class Reader {
            private final String text;
            private int at;
            /** The text of the member `outcome` of the outermost object. */
            private String outcome;
            /** True if an outcome may have a member twice: it has the text that somebody gave. */
            private final boolean hasOutcomes;
            private boolean isInOutcome;

            Reader(String text, boolean hasOutcomes) {
                this.text = text;
                this.hasOutcomes = hasOutcomes;
            }

            Object read() {
                var value = value(0);
                if (peek() != 0) {
                    throw fault();
                }
                return value;
            }

            private Object value(int depth) {
                if (depth > DEEPEST) {
                    throw fault();
                }
                return switch (peek()) {
                    case '{' -> object(depth);
                    case '[' -> array(depth);
                    case '"' -> string();
                    case 't' -> word("true", true);
                    case 'f' -> word("false", false);
                    case 'n' -> word("null", null);
                    default -> number();
                };
            }

            private Map<String, Object> object(int depth) {
                var object = new LinkedHashMap<String, Object>();
                at++;
                if (passes('}')) {
                    return object;
                }
                do {
                    if (peek() != '"') {
                        throw fault();
                    }
                    var name = string();
                    if (!passes(':')) {
                        throw fault();
                    }
                    peek();
                    var from = at;
                    var wasInOutcome = isInOutcome;
                    isInOutcome |= hasOutcomes && name.equals("outcome");
                    var value = value(depth + 1);
                    isInOutcome = wasInOutcome;
                    if (depth == 0 && name.equals("outcome")) {
                        outcome = text.substring(from, at);
                    }
                    if (object.containsKey(name) && !isInOutcome) {
                        throw fault();
                    }
                    object.put(name, value);
                } while (passes(','));
                if (!passes('}')) {
                    throw fault();
                }
                return object;
            }

            private List<Object> array(int depth) {
                var array = new ArrayList<Object>();
                at++;
                if (passes(']')) {
                    return array;
                }
                do {
                    array.add(value(depth + 1));
                } while (passes(','));
                if (!passes(']')) {
                    throw fault();
                }
                return array;
            }

            private String string() {
                var string = new StringBuilder();
                at++;
                while (true) {
                    var sign = next();
                    if (sign == '"') {
                        return string.toString();
                    }
                    if (sign < ' ') {
                        throw fault();
                    }
                    string.append(sign == '\\' ? escaped() : sign);
                }
            }

            private char escaped() {
                var sign = next();
                return switch (sign) {
                    case '"', '\\', '/' -> sign;
                    case 'b' -> '\b';
                    case 'f' -> '\f';
                    case 'n' -> '\n';
                    case 'r' -> '\r';
                    case 't' -> '\t';
                    case 'u' -> {
                        int code = 0;
                        for (int digits = 0; digits < 4; digits++) {
                            var digit = Character.digit(next(), 16);
                            if (digit < 0) {
                                throw fault();
                            }
                            code = code * 16 + digit;
                        }
                        yield (char) code;
                    }
                    default -> throw fault();
                };
            }

            private char next() {
                if (at == text.length()) {
                    throw fault();
                }
                return text.charAt(at++);
            }

            private Object word(String word, Object value) {
                if (!text.startsWith(word, at)) {
                    throw fault();
                }
                at += word.length();
                return value;
            }

            private Object number() {
                var from = at;
                at += text.startsWith("-", at) ? 1 : 0;
                var leads = at;
                var whole = digits();
                if (whole == 0 || (whole > 1 && text.charAt(leads) == '0')) {
                    throw fault();
                }
                var isWhole = true;
                if (text.startsWith(".", at)) {
                    at++;
                    isWhole = false;
                    if (digits() == 0) {
                        throw fault();
                    }
                }
                if (text.startsWith("e", at) || text.startsWith("E", at)) {
                    at++;
                    isWhole = false;
                    at += text.startsWith("+", at) || text.startsWith("-", at) ? 1 : 0;
                    if (digits() == 0) {
                        throw fault();
                    }
                }
                var number = text.substring(from, at);
                if (isWhole) {
                    return number.length() < 19 ? (Object) Long.valueOf(number) : shortened(new BigInteger(number));
                }
                try {
                    return new BigDecimal(number);
                } catch (NumberFormatException beyond) {
                    return new Raw(number);
                }
            }

            private static Object shortened(BigInteger number) {
                return number.bitLength() < 64 ? (Object) number.longValueExact() : number;
            }

            private int digits() {
                var from = at;
                while (at < text.length() && text.charAt(at) >= '0' && text.charAt(at) <= '9') {
                    at++;
                }
                return at - from;
            }

            private char peek() {
                while (at < text.length() && " \t\r\n".indexOf(text.charAt(at)) >= 0) {
                    at++;
                }
                return at < text.length() ? text.charAt(at) : 0;
            }

            private boolean passes(char sign) {
                if (peek() != sign) {
                    return false;
                }
                at++;
                return true;
            }

            private IllegalArgumentException fault() {
                return new IllegalArgumentException("this is no JSON, at position " + at);
            }
        }
    }
}
