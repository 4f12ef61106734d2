// Program example charges once, however often it is called.
package main

import (
	"context"
	"fmt"
	"log"

	semel "github.com/semel-rs/semel/clients/go"
)

type payment struct{ Charged int }

func main() {
	client, err := semel.New("", "") // the variable SEMEL_URL names the server
	if err != nil {
		log.Fatal(err)
	}
	charge := func(ctx context.Context, op *semel.Operation) (payment, error) {
		// Pass op.IdempotencyKey on to the provider: it is the same on every attempt.
		return payment{Charged: 4200}, nil
	}
	options := &semel.Options{Fingerprint: map[string]int{"amount": 4200}}
	for call := 0; call < 2; call++ {
		receipt, err := semel.Once(context.Background(), client, "charge", "payment-go", charge, options)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(receipt.Outcome.Charged, map[bool]string{false: "ran", true: "replayed"}[receipt.Replayed])
	}
}
