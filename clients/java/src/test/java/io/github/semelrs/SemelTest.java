package io.github.semelrs;

import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.time.Duration;
import java.time.Instant;
import java.util.AbstractMap;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.Comparator;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.logging.Handler;
import java.util.logging.LogRecord;
import java.util.logging.Logger;
import java.util.logging.SimpleFormatter;

/**
 * The tests of the client, a program of its own: the standard library has no framework for them. Run it in the folder
 * `clients/java`; it prints each test, and ends with 1 if one fails.
 */
public final class SemelTest {
    private interface Test {
        void run() throws Exception;
    }

    private static int failures;

    public static void main(String[] args) throws Exception {
        if (args.length > 0) {
            Race.racer(args);
            return;
        }
        test("every case", SemelTest::cases);
        test("numbers keep their digits", SemelTest::numbers);
        test("what is no JSON is refused", SemelTest::noJson);
        test("what a client needs", SemelTest::needs);
        test("no lease is renewed after the end", SemelTest::noLeaseAfterTheEnd);
        test("an interrupted function is reported", SemelTest::interrupted);
        test("a caller that is interrupted holds no key", SemelTest::interruptedClaim);
        test("what is refused is not printed", SemelTest::secrets);
        test("a failure says what the server takes", SemelTest::failures);
        test("a client that is closed tells what still runs", SemelTest::closed);
        var server = new Real();
        try (var semel = new Semel(server.url)) {
            test("a duplicate gets the outcome", () -> duplicate(semel));
            test("keys", () -> keys(semel));
            test("bytes, and what is no JSON", () -> bytes(semel));
            test("large and deep outcomes", () -> large(semel));
            test("the ends of a function", () -> ends(semel));
            test("a lease is kept, and a second caller waits", () -> lease(semel));
            test("the calls one by one", () -> calls(semel));
            test("an effect that outlived its lease is told", () -> outlived(server));
            test("the example prints what the README shows", () -> readme(server));
        } finally {
            server.close();
        }
        test("racing processes while the server is killed: no key has two effects", Race::run);
        System.out.println(failures == 0 ? "all passed" : failures + " failed");
        System.exit(failures == 0 ? 0 : 1);
    }

    private static void test(String name, Test test) {
        try {
            test.run();
            System.out.println("ok      " + name);
        } catch (Throwable error) {
            failures++;
            System.out.println("FAILED  " + name);
            error.printStackTrace(System.out);
        }
    }

    private static void check(boolean holds, Object... said) {
        if (!holds) {
            throw new AssertionError(Arrays.deepToString(said));
        }
    }

    private static void same(Object found, Object wanted, String what) {
        check(Objects.equals(found, wanted), what, "is", found, "not", wanted);
    }

    private static <T extends Throwable> T thrown(Class<T> kind, Test test) {
        try {
            test.run();
        } catch (Throwable error) {
            if (kind.isInstance(error)) {
                return kind.cast(error);
            }
            throw new AssertionError(error + " is no " + kind, error);
        }
        throw new AssertionError("nothing was thrown, not " + kind);
    }

    @SuppressWarnings("unchecked")
    private static Map<String, Object> object(Object value) {
        return value == null ? Map.of() : (Map<String, Object>) value;
    }

    @SuppressWarnings("unchecked")
    private static List<Object> list(Object value) {
        return (List<Object>) value;
    }

    private static Map<String, Object> table() throws IOException {
        return object(Semel.Json.read(Files.readString(Path.of("..", "cases.json"))));
    }

    // The behaviour that all clients share.

    private static final class FunctionError extends Exception {
        private static final long serialVersionUID = 1;

        FunctionError(String message) {
            super(message);
        }
    }

    private static final class Unprintable extends Exception {
        private static final long serialVersionUID = 1;

        @Override
        public String getMessage() {
            throw new IllegalStateException("no text");
        }
    }

    private static final class Breaking extends AbstractMap<String, Object> {
        @Override
        public Set<Map.Entry<String, Object>> entrySet() {
            throw new IllegalStateException("broken while it is written");
        }
    }

    private static void cases() throws Exception {
        var table = table();
        var cases = list(table.get("cases"));
        check(cases.size() > 30, "cases are missing");
        var lanes = Executors.newFixedThreadPool(6);
        var plays = new LinkedHashMap<Object, Future<?>>();
        for (var one : cases) {
            plays.put(object(one).get("name"), lanes.submit(() -> {
                play(object(one), table);
                return null;
            }));
        }
        var faults = new ArrayList<String>();
        for (var played : plays.entrySet()) {
            try {
                played.getValue().get();
            } catch (Exception error) {
                faults.add(played.getKey() + ": " + error.getCause());
            }
        }
        lanes.shutdown();
        check(faults.isEmpty(), String.join("\n", faults));
    }

    private static void play(Map<String, Object> one, Map<String, Object> table) throws Exception {
        var limits = new HashMap<>(object(table.get("client")));
        limits.putAll(object(one.get("client")));
        var once = object(one.get("once"));
        var runs = new AtomicInteger();
        try (var scripted = new Scripted(object(one.get("server")), object(table.get("answers")));
                var semel = new Semel(scripted.url, "secret", millis(limits, "timeout_ms"), millis(limits, "retry_for_ms"))) {
            Semel.Effect<Exception> effect = op -> {
                runs.incrementAndGet();
                var does = object(one.get("function"));
                return does.containsKey("inner")
                    ? semel.once("inner", "inner-1", (Semel.Operation inner) -> function(does, inner))
                    : function(does, op);
            };
            var began = System.nanoTime();
            var found = new HashMap<String, Object>();
            try {
                var options = options(object(once.get("options")));
                var receipt = semel.once("charge", once.getOrDefault("key", "payment-1"), options, effect);
                found.put("outcome", receipt.outcome());
                if (receipt.outcome() instanceof byte[] raw) {
                    found.put("outcome_base64", Base64.getEncoder().encodeToString(raw));
                }
                found.putAll(foundIn(receipt));
            } catch (FunctionError | Unprintable error) {
                found.put("error", "function");
            } catch (Semel.NotApplied | Semel.Failed error) {
                found.put("error", error.getClass().getSimpleName());
            } catch (Semel.SemelException error) {
                found.putAll(foundIn(error));
            }
            var took = (System.nanoTime() - began) / 1_000_000;
            sleep((long) one.getOrDefault("rests_ms", 0L));
            var ends = object(one.get("ends"));
            for (var wanted : ends.entrySet()) {
                var value = found.get(wanted.getKey());
                same(read(value), wanted.getValue(), wanted.getKey());
            }
            same(found.get("error"), ends.get("error"), "error");
            same((long) runs.get(), one.get("runs"), "runs");
            check(took >= (long) one.getOrDefault("at_least_ms", 0L), "took", took);
            check(took <= (long) one.getOrDefault("at_most_ms", 60_000L), "took", took);
            scripted.check(one);
        }
    }

    /** The value as JSON has it: a whole number is a Long. */
    private static Object read(Object value) {
        return value instanceof byte[] ? value : Semel.Json.read(Semel.Json.write(value));
    }

    private static Duration millis(Map<String, Object> limits, String name) {
        return Duration.ofMillis((long) limits.get(name));
    }

    private static Object function(Map<String, Object> does, Semel.Operation op) throws Exception {
        Thread.sleep((long) does.getOrDefault("takes_ms", 0L));
        if (does.containsKey("until_lost")) {
            op.whenLost().get(20, TimeUnit.SECONDS);
            check(op.isLost(), "it is not lost");
        }
        if (does.containsKey("returns_letters")) {
            return "x".repeat(((Long) does.get("returns_letters")).intValue());
        }
        if (does.containsKey("returns_breaking")) {
            return new Breaking();
        }
        if (does.containsKey("returns_no_json")) {
            return new Object();
        }
        if (does.containsKey("returns_operation")) {
            return Map.of(
                "idempotency_key", op.idempotencyKey(), "attempt", op.attempt(), "fencing_token", op.fencingToken(),
                "possible_repeat", op.possibleRepeat(), "takeover", op.takeover());
        }
        var message = (String) does.get("message");
        switch (String.valueOf(does.get("raises"))) {
            case "unprintable":
                throw new Unprintable();
            case "error":
                throw new FunctionError(message);
            case "not_applied":
                throw new Semel.NotApplied(message);
            case "failed":
                if (!does.containsKey("decisive")) {
                    throw new Semel.Failed(message);
                }
                var certainty = does.containsKey("certainty") ? Semel.Certainty.NOT_APPLIED : null;
                throw new Semel.Failed(message, certainty, (boolean) does.get("decisive"), null);
            default:
                return does.get("returns");
        }
    }

    private static Map<String, Object> foundIn(Semel.Receipt receipt) {
        var found = new HashMap<String, Object>();
        found.put("replayed", receipt.replayed());
        found.put("duplicate", receipt.duplicate());
        found.put("operation_id", receipt.operationId());
        found.put("completed_at", receipt.completedAt());
        found.put("attempt", receipt.attempt());
        found.put("possible_repeat", receipt.possibleRepeat());
        found.put("content_type", receipt.contentType());
        found.put("kept", receipt.kept());
        return found;
    }

    private static Map<String, Object> foundIn(Semel.SemelException error) {
        var found = new HashMap<String, Object>();
        found.put("error", error.getClass().getSimpleName());
        found.put("certainty", error.certainty().word());
        found.put("code", error.code());
        found.put("pointer", error.pointer());
        found.put("operation_id", error.operationId());
        found.put("ran", error.ran());
        found.put("result", error.result() != null && error.result().getClass() == Object.class ? null : error.result());
        if (error instanceof Semel.Busy busy) {
            found.put("retry_after_ms", busy.retryAfter().toMillis());
            found.put("until", busy.until());
        } else if (error instanceof Semel.Stale stale) {
            found.put("applied", stale.applied());
        } else if (error instanceof Semel.Parked parked) {
            found.put("state", parked.state());
        }
        return found;
    }

    private static Semel.Options options(Map<String, Object> wire) {
        var options = new Semel.Options();
        for (var it : wire.entrySet()) {
            var value = it.getValue();
            switch (it.getKey()) {
                case "fingerprint" -> options.fingerprint(value);
                case "tenant" -> options.tenant((String) value);
                case "transport" -> options.transport((String) value);
                case "birth" -> options.birth(Instant.parse((String) value));
                case "lease" -> options.lease(duration(value));
                case "window" -> options.window(duration(value));
                case "wait" -> options.wait(duration(value));
                case "class" -> check(value.equals("keyed"), value);
                case "provider_window" -> options.keyed(duration(value));
                case "entity" -> options.version(value, (long) wire.get("version"));
                case "version" -> check(wire.containsKey("entity"), "a version without an entity");
                default -> throw new AssertionError("no option: " + it.getKey());
            }
        }
        return options;
    }

    private static final Map<String, Long> UNITS_MS = Map.of("ms", 1L, "s", 1_000L, "h", 3_600_000L, "d", 86_400_000L);

    private static Duration duration(Object text) {
        var parts = ((String) text).split("(?<=\\d)(?=\\D)");
        return Duration.ofMillis(Long.parseLong(parts[0]) * UNITS_MS.get(parts[1]));
    }

    /** A server that answers each call as a script says, and keeps what it was asked. */
    private static final class Scripted implements AutoCloseable {
        private final Map<String, Object> script;
        private final Map<String, Object> answers;
        private final HttpServer server = HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), 64);
        private final Map<String, AtomicInteger> asked = new ConcurrentHashMap<>();
        private final Set<String> claimIds = ConcurrentHashMap.newKeySet();
        private final ConcurrentLinkedQueue<String> faults = new ConcurrentLinkedQueue<>();
        final String url;

        Scripted(Map<String, Object> script, Map<String, Object> answers) throws IOException {
            this.script = script;
            this.answers = answers;
            this.url = "http://127.0.0.1:" + server.getAddress().getPort();
            server.createContext("/", this::answer);
            server.setExecutor(Executors.newCachedThreadPool(task -> {
                var thread = new Thread(task);
                thread.setDaemon(true);
                return thread;
            }));
            server.start();
        }

        private void answer(HttpExchange exchange) throws IOException {
            var text = new String(exchange.getRequestBody().readAllBytes(), StandardCharsets.UTF_8);
            var body = object(Semel.Json.read(text));
            var path = exchange.getRequestURI().getPath();
            var call = path.substring(path.lastIndexOf('/') + 1);
            if (!call.equals("claims") && !path.startsWith("/v1/claims/C1/")) {
                faults.add("asked for " + path);
            }
            var count = asked.computeIfAbsent(call, name -> new AtomicInteger()).incrementAndGet();
            if (body.get("claim_id") instanceof String id) {
                claimIds.add(id);
            }
            var steps = script.containsKey(call) ? list(script.get(call)) : List.<Object>of("away");
            var step = resolved(steps.get(Math.min(count, steps.size()) - 1));
            compare(call, step, body, text, exchange);
            var fault = String.valueOf(step.get("fault"));
            if (fault.equals("cut")) {
                exchange.close();
                return;
            }
            if (fault.equals("slow")) {
                sleep((long) step.get("slow_ms"));
            }
            var said = step.getOrDefault("raw", Semel.Json.write(step.get("body")));
            var raw = ((String) said).getBytes(StandardCharsets.UTF_8);
            for (var header : object(step.get("headers")).entrySet()) {
                exchange.getResponseHeaders().set(header.getKey(), (String) header.getValue());
            }
            try {
                exchange.sendResponseHeaders(((Long) step.get("status")).intValue(), raw.length);
                exchange.getResponseBody().write(raw, 0, fault.equals("half") ? raw.length / 2 : raw.length);
                exchange.getResponseBody().flush();
            } catch (IOException gone) {
                // A client that did not wait.
            }
            exchange.close();
        }

        private void compare(String call, Map<String, Object> step, Map<String, Object> body, String text, HttpExchange exchange) {
            for (var wanted : object(step.get("expects")).entrySet()) {
                var name = wanted.getKey();
                var isDuration = Set.of("lease", "window", "wait", "provider_window").contains(name);
                var found = body.getOrDefault(name, "absent");
                var fits = isDuration
                    ? duration(found).equals(duration(wanted.getValue()))
                    : body.containsKey(name) && Objects.equals(found, wanted.getValue());
                if (!fits) {
                    faults.add(call + ": " + name + " is " + found + ", not " + wanted.getValue());
                }
            }
            for (var wanted : object(step.get("expects_headers")).entrySet()) {
                var found = exchange.getRequestHeaders().getFirst(wanted.getKey());
                if (!wanted.getValue().equals(found)) {
                    faults.add(call + ": header " + wanted.getKey() + " is " + found);
                }
            }
            if (step.get("expects_text") instanceof String wanted && !text.contains(wanted)) {
                faults.add(call + ": no " + wanted + " in " + text);
            }
        }

        private Map<String, Object> resolved(Object step) {
            if (step instanceof String word) {
                return object(answers.get(word));
            }
            var resolved = new HashMap<>(object(answers.get(object(step).get("answer"))));
            resolved.putAll(object(step));
            return resolved;
        }

        void check(Map<String, Object> one) {
            SemelTest.check(faults.isEmpty(), faults);
            var calls = object(one.get("asked"));
            for (var call : calls.entrySet()) {
                var times = asked.getOrDefault(call.getKey(), new AtomicInteger()).longValue();
                var fits = call.getValue() instanceof Long exact
                    ? times == exact
                    : times >= (long) object(call.getValue()).get("at_least");
                SemelTest.check(fits, call.getKey(), "was asked", times, "times");
            }
            SemelTest.check(calls.keySet().containsAll(asked.keySet()), asked);
            same((long) claimIds.size(), one.getOrDefault("claim_ids", 1L), "the number of claim ids");
            SemelTest.check(claimIds.stream().allMatch(id -> id.matches("[0-9a-f]{32}")), claimIds);
        }

        @Override
        public void close() {
            server.stop(0);
        }
    }

    private static void sleep(long millis) {
        try {
            Thread.sleep(Math.max(millis, 0));
        } catch (InterruptedException interrupted) {
            throw new AssertionError(interrupted);
        }
    }

    // What is this language's own.

    private static void numbers() {
        var text = "{\"a\":12345678901234567890123,\"b\":0.12345678901234567890123,\"c\":1E+400,\"d\":[9223372036854775807,-9223372036854775808]}";
        var value = object(Semel.Json.read(text));
        same(value.get("a"), new BigInteger("12345678901234567890123"), "a");
        same(value.get("b"), new BigDecimal("0.12345678901234567890123"), "b");
        same(value.get("d"), List.of(Long.MAX_VALUE, Long.MIN_VALUE), "d");
        same(Semel.Json.write(value), text, "the text");
        same(Semel.Json.write(Semel.Json.read("[1e9999999999]")), "[1e9999999999]", "a number beyond BigDecimal");
        for (var fault : List.of(
                "", "[", "[1,]", "{\"a\":1,\"a\":2}", "01", "1.", "+1", "nul", "\"\n\"", "\"\\x\"", "\"\\u12g4\"", "1 2", "[1", "{1:2}",
                "NaN", "-", "1e", "{\"a\"}", "\"a", "[".repeat(10_000))) {
            thrown(IllegalArgumentException.class, () -> Semel.Json.read(fault));
        }
        same(Semel.Json.read(" [ \"\\ud83d\\ude00\\n\\/\" , { } , [ ] ] "), List.of("😀\n/", Map.of(), List.of()), "a value");
        same(Semel.Json.write("😀\u0001\ud83d"), "\"😀\\u0001\\ud83d\"", "a string");
    }

    private static void noJson() {
        for (var value : List.of(new Object(), Map.of(1, 2), Double.NaN, List.of(Float.POSITIVE_INFINITY), Instant.EPOCH)) {
            thrown(IllegalArgumentException.class, () -> Semel.Json.write(value));
        }
        var circle = new ArrayList<Object>();
        circle.add(circle);
        thrown(IllegalArgumentException.class, () -> Semel.Json.write(circle));
    }

    private static void needs() {
        for (var url : List.of("127.0.0.1:8181", "ftp://there", "http://")) {
            thrown(IllegalArgumentException.class, () -> new Semel(url));
        }
        try (var semel = new Semel("http://127.0.0.1:1", null, Duration.ofSeconds(1), Duration.ofMillis(300))) {
            thrown(IllegalArgumentException.class, () -> semel.once("charge", true, op -> 1));
            thrown(IllegalArgumentException.class, () -> semel.once("charge", null, op -> 1));
            var told = thrown(Semel.Unavailable.class, () -> semel.once("charge", "k", op -> 1));
            same(told.certainty(), Semel.Certainty.NOT_APPLIED, "certainty");
        }
    }

    private static void noLeaseAfterTheEnd() throws Exception {
        var script = Map.<String, Object>of(
            "claims", List.of("granted"), "renew", List.of("renewed"), "complete", List.of("completed"));
        try (var scripted = new Scripted(script, object(table().get("answers"))); var semel = new Semel(scripted.url)) {
            semel.once("charge", "k", new Semel.Options().lease(Duration.ofSeconds(3)), op -> 1);
            check(semel.clock.getQueue().isEmpty(), semel.clock.getQueue());
            sleep(1_500);
            check(!scripted.asked.containsKey("renew"), scripted.asked);
        }
    }

    private static void secrets() throws Exception {
        var urls = List.of(
            "http://me:secret@there", "http://secret@there", "http://there:secret", "http://the re/secret", "http://there/[secret");
        for (var url : urls) {
            var told = thrown(IllegalArgumentException.class, () -> new Semel(url));
            check(!told.getMessage().contains("secret") && told.getCause() == null, told);
        }
        for (var token : List.of("secret\nX-Other: 1", "secret one", "secr\u00e9t", "secret\u007f")) {
            var told = thrown(IllegalArgumentException.class, () -> new Semel("http://there", token));
            check(!told.getMessage().contains("secr"), told);
        }
        var step = Map.of("answer", "granted", "expects_headers", Map.of("authorization", "Bearer secret"));
        var script = Map.<String, Object>of("claims", List.of(step));
        try (var scripted = new Scripted(script, object(table().get("answers")));
                var semel = new Semel(scripted.url, " secret\r\n")) {
            semel.claim("charge", "k", new Semel.Options());
            check(scripted.faults.isEmpty(), scripted.faults);
        }
    }

    private static void failures() throws Exception {
        for (var notBefore : List.of(Instant.MAX, Instant.MIN)) {
            thrown(IllegalArgumentException.class, () -> {
                throw new Semel.NotApplied("no", notBefore, null);
            });
        }
        thrown(IllegalArgumentException.class, () -> {
            throw new Semel.Failed("no", Semel.Certainty.MAYBE_APPLIED, true, null);
        });
        var step = Map.of("answer", "dead", "expects", Map.of("certainty", "not_applied", "decisive", true));
        var script = Map.<String, Object>of("fail", List.of(step));
        try (var scripted = new Scripted(script, object(table().get("answers"))); var semel = new Semel(scripted.url)) {
            thrown(IllegalArgumentException.class, () -> semel.fail("C1", "no", Semel.Certainty.MAYBE_APPLIED, true));
            semel.fail("C1", "no", null, true);
            check(scripted.faults.isEmpty() && scripted.asked.get("fail").get() == 1, scripted.faults, scripted.asked);
        }
    }

    private static void interruptedClaim() throws Exception {
        var script = Map.<String, Object>of(
            "claims", List.of(Map.of("answer", "granted", "fault", "slow", "slow_ms", 300L), "resumed"),
            "release", List.of(Map.of("answer", "released", "expects", Map.of("certainty", "not_applied"))));
        try (var scripted = new Scripted(script, object(table().get("answers"))); var semel = new Semel(scripted.url)) {
            var caller = Thread.currentThread();
            var lane = Executors.newSingleThreadScheduledExecutor();
            lane.schedule(caller::interrupt, 100, TimeUnit.MILLISECONDS);
            thrown(Semel.Unavailable.class, () -> semel.once("charge", "k", NEVER));
            check(Thread.interrupted(), "the interruption is gone");
            lane.shutdown();
            sleep(700);
            check(scripted.asked.containsKey("release") && scripted.faults.isEmpty(), scripted.asked, scripted.faults);
            same(scripted.claimIds.size(), 1, "claim ids");
        }
    }

    private static void closed() throws Exception {
        var said = new ConcurrentLinkedQueue<String>();
        var log = Logger.getLogger("semel");
        var handler = new Handler() {
            @Override
            public void publish(LogRecord line) {
                said.add(new SimpleFormatter().formatMessage(line));
            }

            @Override
            public void flush() {}

            @Override
            public void close() {}
        };
        log.addHandler(handler);
        log.setUseParentHandlers(false);
        var script = Map.<String, Object>of("claims", List.of("granted"), "complete", List.of("completed"));
        try (var scripted = new Scripted(script, object(table().get("answers")))) {
            var semel = new Semel(scripted.url);
            semel.once("charge", "ended", op -> 1);
            semel.once("charge", "payment-1", op -> {
                semel.close();
                return 1;
            });
        } finally {
            log.removeHandler(handler);
            log.setUseParentHandlers(true);
        }
        var wanted = "charge \"payment-1\": it still runs, and its lease is renewed no more";
        check(List.copyOf(said).equals(List.of(wanted)), said);
    }

    private static void interrupted() throws Exception {
        var script = Map.<String, Object>of("claims", List.of("granted"), "release", List.of("released"));
        try (var scripted = new Scripted(script, object(table().get("answers"))); var semel = new Semel(scripted.url)) {
            thrown(FunctionError.class, () -> semel.once("charge", "k", op -> {
                Thread.currentThread().interrupt();
                throw new FunctionError("interrupted");
            }));
            check(Thread.interrupted(), "the interruption is gone");
            same(scripted.asked.get("release").get(), 1, "releases");
        }
    }

    // Against the real server, used as its users would.

    /** `semel run` with the claim API over an embedded store in a folder of its own. */
    private static final class Real {
        final Path folder;
        final String url;
        private Process process;

        Real() throws Exception {
            folder = Files.createTempDirectory("semel-java-");
            int port;
            try (var socket = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
                port = socket.getLocalPort();
            }
            url = "http://127.0.0.1:" + port;
            var config = "[store]\nurl = \"embedded:./data\"\n\n[claims]\nlisten = \"127.0.0.1:" + port + "\"\n";
            Files.writeString(folder.resolve("semel.toml"), config);
            start();
        }

        void start() throws Exception {
            var binary = System.getenv("SEMEL_BIN");
            check(binary != null, "SEMEL_BIN names no binary; `cargo xtask clients` builds one");
            var log = folder.resolve("log").toFile();
            process = new ProcessBuilder(binary, "run", folder.resolve("semel.toml").toString())
                .redirectErrorStream(true).redirectOutput(ProcessBuilder.Redirect.appendTo(log)).start();
            var http = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();
            var request = HttpRequest.newBuilder(URI.create(url + "/v1/openapi.json")).build();
            for (var until = System.nanoTime() + 15_000_000_000L; System.nanoTime() < until && process.isAlive(); sleep(20)) {
                try {
                    http.send(request, HttpResponse.BodyHandlers.discarding());
                    return;
                } catch (IOException notYet) {
                    continue;
                }
            }
            throw new AssertionError("semel does not come up: " + Files.readString(log.toPath()));
        }

        void kill() throws InterruptedException {
            process.destroyForcibly().waitFor();
        }

        void close() throws Exception {
            kill();
            try (var files = Files.walk(folder)) {
                files.sorted(Comparator.reverseOrder()).forEach(it -> it.toFile().delete());
            }
        }
    }

    private static final Semel.Effect<RuntimeException> NEVER = op -> {
        throw new AssertionError("it ran");
    };

    private static void duplicate(Semel semel) {
        var outcome = new LinkedHashMap<String, Object>();
        outcome.put("id", new BigInteger("12345678901234567890123"));
        outcome.put("text", "é😀\n");
        outcome.put("list", Arrays.asList(new BigDecimal("1.50"), null, true));
        var options = new Semel.Options().fingerprint(Map.of("amount", 1)).transport("t1");
        var first = semel.once("charge", "a", options, op -> outcome);
        var again = semel.once("charge", "a", options.transport("t2"), NEVER);
        check(!first.replayed() && first.attempt() == 1, first);
        check(again.replayed() && again.duplicate().equals("republish") && again.completedAt() != null, again);
        same(again.outcome(), outcome, "the outcome");
        same(again.text(), first.text(), "its text");
        thrown(Semel.Conflict.class, () -> semel.once("charge", "a", options.fingerprint(Map.of("amount", 2)), NEVER));
    }

    private static void keys(Semel semel) {
        var big = new BigInteger("12345678901234567890123");
        for (var key : List.of(1, "1", big, big.add(BigInteger.ONE))) {
            check(!semel.once("types", key, op -> key.toString()).replayed(), key);
        }
        same(semel.once("types", new BigDecimal("1.0"), NEVER).outcome(), "1", "the outcome");
    }

    private static void bytes(Semel semel) {
        semel.once("bytes", "a", op -> new byte[] {0, -1});
        check(Arrays.equals((byte[]) semel.once("bytes", "a", NEVER).outcome(), new byte[] {0, -1}), "bytes");
        var told = thrown(Semel.Unreadable.class, () -> semel.once("bytes", "b", op -> Instant.EPOCH));
        same(told.result(), Instant.EPOCH, "the result");
        thrown(Semel.Unreadable.class, () -> semel.once("bytes", "b", NEVER));
    }

    private static void large(Semel semel) {
        for (var length : List.of(900 << 10, 3 << 19, 3 << 20, 20 << 20)) {
            var text = "x".repeat(length - 20);
            same(semel.once("large", length, op -> text).outcome(), text, "the outcome");
            var again = semel.once("large", length, NEVER);
            check(again.kept() == (length == 900 << 10), length, again.kept());
            same(again.outcome(), again.kept() ? text : null, "the outcome");
        }
        Object deep = List.of();
        for (int depth = 0; depth < 300; depth++) {
            deep = List.of(deep);
        }
        var nested = deep;
        var told = thrown(Semel.Unreadable.class, () -> semel.once("large", "deep", op -> nested));
        same(told.result(), nested, "the result");
        thrown(Semel.Unreadable.class, () -> semel.once("large", "deep", NEVER));
    }

    private static void ends(Semel semel) {
        thrown(Semel.NotApplied.class, () -> semel.once("ends", "n", op -> {
            throw new Semel.NotApplied("no route");
        }));
        var waits = new Semel.Options().wait(Duration.ofSeconds(5));
        same(semel.once("ends", "n", waits, op -> op.attempt()).outcome(), 2, "the attempt");
        thrown(Semel.Failed.class, () -> semel.once("ends", "f", op -> {
            throw new Semel.Failed("card expired", Semel.Certainty.NOT_APPLIED, false, null);
        }));
        thrown(Semel.Dead.class, () -> semel.once("ends", "f", NEVER));
        Semel.Effect<IOException> broken = op -> {
            throw new IOException("reset");
        };
        thrown(IOException.class, () -> semel.once("ends", "b", broken));
        var told = thrown(Semel.InDoubt.class, () -> semel.once("ends", "b", NEVER));
        same(told.certainty(), Semel.Certainty.MAYBE_APPLIED, "certainty");
        var repeat = new Semel.Options().unkeyed("repeat").wait(Duration.ofSeconds(5));
        thrown(IOException.class, () -> semel.once("ends", "r", repeat, broken));
        same(semel.once("ends", "r", repeat, op -> op.possibleRepeat()).outcome(), true, "possible repeat");
    }

    private static void lease(Semel semel) throws Exception {
        var brief = new Semel.Options().lease(Duration.ofSeconds(2));
        var lane = Executors.newSingleThreadExecutor();
        var first = lane.submit(() -> semel.once("slow", "a", brief, op -> {
            sleep(4_500);
            return "slow";
        }));
        sleep(2_500);
        var told = thrown(Semel.Busy.class, () -> semel.once("slow", "a", brief, NEVER));
        check(told.retryAfter().toMillis() <= 2_100, told.retryAfter());
        var again = semel.once("slow", "a", new Semel.Options().wait(Duration.ofSeconds(20)), NEVER);
        check(again.replayed() && again.outcome().equals("slow") && first.get().outcome().equals("slow"), again);
        lane.shutdown();
    }

    private static void calls(Semel semel) {
        var none = new Semel.Options();
        var claim = semel.claim("low", "a", new Semel.Options().lease(Duration.ofSeconds(30)).unkeyed("park"));
        same(claim.get("decision"), "granted", "decision");
        var name = (String) claim.get("claim");
        semel.renew(name, Duration.ofSeconds(30));
        same(semel.complete(name, Map.of("n", 1), Duration.ofDays(1)).get("state"), "completed", "state");
        same(semel.complete(name, Map.of("n", 1)).get("state"), "completed", "state");
        same(semel.claim("low", "a", none).get("outcome"), Map.of("n", 1L), "outcome");
        same(semel.operation("low", "a", null).get("state"), "completed", "state");
        same(semel.operation("low", "unknown", null), null, "no record");
        var batch = new ArrayList<Semel.Claim>();
        for (var key : List.of("a", 1, 2, 3)) {
            batch.add(new Semel.Claim("low", key, none));
        }
        var claims = semel.claimBatch(batch);
        var decisions = claims.stream().map(it -> it.get("decision")).toList();
        same(decisions, List.of("replay", "granted", "granted", "granted"), "decisions");
        semel.start((String) claims.get(3).get("claim"));
        var digits = List.<Object>of(new BigDecimal("0.12345678901234567890123"));
        var settled = semel.settleBatch(List.of(
            Map.of("claim", claims.get(1).get("claim"), "step", "complete", "outcome", digits),
            Map.of("claim", claims.get(2).get("claim"), "step", "release", "error", "no", "certainty", "not_applied")));
        same(settled.stream().map(it -> it.get("state")).toList(), List.of("completed", "released"), "states");
        same(semel.claim("low", 1, none).get("outcome"), digits, "outcome");
        same(semel.operation("low", 1, null).get("state"), "completed", "state");
        semel.fail((String) claims.get(3).get("claim"), "no", Semel.Certainty.NOT_APPLIED, false);
        thrown(Semel.ClaimLost.class, () -> semel.complete((String) claims.get(2).get("claim"), 1));
        var told = thrown(Semel.Refused.class, () -> semel.claim("low", "", none));
        check("invalid-input".equals(told.code()) && told.status() == 400, told);
    }

    /** A process that stood still: a client that is closed renews nothing. */
    private static void outlived(Real server) {
        var options = new Semel.Options().lease(Duration.ofMillis(150)).unkeyed("repeat");
        try (var other = new Semel(server.url)) {
            var still = new Semel(server.url);
            var told = thrown(Semel.ClaimLost.class, () -> still.once("late", "a", options, op -> {
                still.close();
                sleep(400);
                check(other.once("late", "a", options.wait(Duration.ofSeconds(10)), second -> "other").possibleRepeat(), "no possible repeat");
                return "late";
            }));
            check(told.ran() && told.result().equals("late"), told.result());
            same(told.certainty(), Semel.Certainty.MAYBE_APPLIED, "certainty");
            same(other.once("late", "a", NEVER).outcome(), "other", "outcome");
        }
    }

    private static void readme(Real server) throws Exception {
        var example = Files.readString(Path.of("src/test/java/io/github/semelrs/Example.java"));
        var readme = Files.readString(Path.of("README.md"));
        check(readme.contains("```java\n" + example + "```"), "the README has another example");
        var running = new ProcessBuilder(JAVA, "-cp", System.getProperty("java.class.path"), Example.class.getName());
        running.environment().put("SEMEL_URL", server.url);
        var said = new String(running.start().getInputStream().readAllBytes(), StandardCharsets.UTF_8);
        check(readme.contains("Example.java\n" + said + "```"), said);
    }

    private static final String JAVA = Path.of(System.getProperty("java.home"), "bin", "java").toString();

    /** Racing processes while the server is killed and started again. */
    private static final class Race {
        private static final int KEYS = 20;
        private static final int PROCESSES = 3;
        private static final int LANES = 3;
        private static final long EACH_MS = 200;

        static void run() throws Exception {
            var server = new Real();
            var booked = Files.createFile(server.folder.resolve("booked"));
            var beginsAt = System.currentTimeMillis() + 1_500;
            var racers = new ArrayList<Process>();
            for (int process = 0; process < PROCESSES; process++) {
                var classes = System.getProperty("java.class.path");
                racers.add(new ProcessBuilder(
                    JAVA, "-XX:TieredStopAtLevel=1", "-Xshare:auto", "-cp", classes, SemelTest.class.getName(), server.url,
                    booked.toString(), Long.toString(beginsAt)).redirectError(ProcessBuilder.Redirect.INHERIT).start());
            }
            var reading = Executors.newCachedThreadPool();
            var outputs = racers.stream().map(it -> reading.submit(() -> new String(it.getInputStream().readAllBytes(), StandardCharsets.UTF_8))).toList();
            int kills = 0;
            sleep(beginsAt + 450 - System.currentTimeMillis());
            while (System.currentTimeMillis() < beginsAt + KEYS * EACH_MS) {
                server.kill();
                kills++;
                sleep(100);
                server.start();
                sleep(500);
            }
            for (var racer : racers) {
                check(racer.waitFor(15, TimeUnit.SECONDS), "a racer does not end");
                same(racer.exitValue(), 0, "the exit code of a racer");
            }
            check(kills >= 3, kills, "kills");
            var ends = new ArrayList<Map<String, Object>>();
            for (var output : outputs) {
                output.get().lines().forEach(line -> ends.add(object(Semel.Json.read(line))));
            }
            reading.shutdown();
            judge(Files.readAllLines(booked), ends);
            server.close();
        }

        private static void judge(List<String> booked, List<Map<String, Object>> ends) {
            var effects = new HashMap<String, List<String>>();
            for (var line : booked) {
                var parts = line.split(" ");
                effects.computeIfAbsent(parts[0], key -> new ArrayList<>()).add(parts[1]);
            }
            effects.forEach((key, nonces) -> check(nonces.size() == 1, key, nonces));
            same(ends.size(), KEYS * PROCESSES * LANES, "the number of ends");
            int replays = 0;
            var broken = Set.of("key-0", "key-7", "key-14");
            for (var end : ends) {
                var isDone = end.get("end").equals("done");
                // A caller may be told a doubt that the late report of the first one ends.
                check(isDone || end.get("end").equals("in doubt"), end);
                check(!isDone || List.of(end.get("by")).equals(effects.get((String) end.get("key"))), end, effects);
                check(!isDone || !broken.contains(end.get("key")), end);
                replays += Boolean.TRUE.equals(end.get("replayed")) ? 1 : 0;
            }
            check(replays > 4 * KEYS, replays, "replays");
        }

        /** A process that races for every key, in several lanes; it prints each end. */
        static void racer(String[] args) throws Exception {
            var semel = new Semel(args[0], null, Duration.ofSeconds(3), Duration.ofSeconds(8));
            var booked = Path.of(args[1]);
            var beginsAt = Long.parseLong(args[2]);
            var lanes = Executors.newFixedThreadPool(LANES);
            var over = new HashSet<Future<?>>();
            for (int lane = 0; lane < LANES; lane++) {
                over.add(lanes.submit(() -> {
                    for (int index = 0; index < KEYS; index++) {
                        sleep(beginsAt + index * EACH_MS - System.currentTimeMillis());
                        System.out.println(Semel.Json.write(untilItEnds(semel, "key-" + index, index % 7 == 0, booked)));
                    }
                }));
            }
            for (var lane : over) {
                lane.get();
            }
            System.exit(0);
        }

        private static Map<String, Object> untilItEnds(Semel semel, String key, boolean breaks, Path booked) {
            var nonce = UUID.randomUUID().toString();
            var options = new Semel.Options().lease(Duration.ofSeconds(2)).wait(Duration.ofSeconds(1)).unkeyed("park");
            while (true) {
                try {
                    var receipt = semel.once("race", key, options, op -> {
                        book(booked, key + " " + nonce + "\n");
                        sleep(ThreadLocalRandom.current().nextLong(300));
                        if (breaks) {
                            throw new IOException("the answer of the provider was lost");
                        }
                        return Map.of("by", nonce);
                    });
                    var by = object(receipt.outcome()).get("by");
                    return Map.of("key", key, "end", "done", "by", by, "replayed", receipt.replayed());
                } catch (Semel.InDoubt doubt) {
                    return Map.of("key", key, "end", "in doubt");
                } catch (Semel.Busy | Semel.ClaimLost | Semel.Unavailable | Semel.Unrecorded | IOException passing) {
                    sleep(50);
                }
            }
        }

        private static void book(Path booked, String line) {
            try {
                Files.writeString(booked, line, StandardOpenOption.APPEND);
            } catch (IOException error) {
                throw new UncheckedIOException(error);
            }
        }
    }
}
