package io.github.semelrs;

import java.util.Map;

/** Charges once, however often it is called. */
public final class Example {
    public static void main(String[] args) {
        try (var semel = new Semel()) { // the variable SEMEL_URL names the server
            for (int call = 0; call < 2; call++) {
                var options = new Semel.Options().fingerprint(Map.of("amount", 4200));
                // Pass op.idempotencyKey() on to the provider: it is the same on every attempt.
                var receipt = semel.once("charge", "payment-java", options, op -> Map.of("charged", 4200));
                System.out.println(receipt.outcome() + (receipt.replayed() ? " replayed" : " ran"));
            }
        }
    }
}
