package semel

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"reflect"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
)

// A table is the behaviour that all clients share, `clients/cases.json`.
type table struct {
	Answers map[string]step
	Client  limits
	Cases   []playedCase
}

type limits struct {
	TimeoutMS  int64 `json:"timeout_ms"`
	RetryForMS int64 `json:"retry_for_ms"`
}

type playedCase struct {
	Name   string
	Client *limits
	Once   struct {
		Key     any
		Options map[string]any
	}
	Function struct {
		Returns          any
		ReturnsOperation bool `json:"returns_operation"`
		ReturnsNoJSON    bool `json:"returns_no_json"`
		ReturnsBreaking  bool `json:"returns_breaking"`
		Inner            bool
		ReturnsLetters   int `json:"returns_letters"`
		Raises           string
		Message          string
		Certainty        Certainty
		Decisive         bool
		TakesMS          int64 `json:"takes_ms"`
		UntilLost        bool  `json:"until_lost"`
	}
	Server    map[string][]step
	Asked     map[string]any
	ClaimIDs  int `json:"claim_ids"`
	Runs      int
	Ends      map[string]any
	AtLeastMS int64 `json:"at_least_ms"`
	AtMostMS  int64 `json:"at_most_ms"`
	RestsMS   int64 `json:"rests_ms"`
}

// A step is one answer of a scripted server: a word of the table, or an object that changes it.
type step struct {
	Answer         string
	Status         int
	Body           json.RawMessage
	Raw            string
	Headers        map[string]string
	Fault          string
	SlowMS         int64 `json:"slow_ms"`
	Expects        map[string]any
	ExpectsHeaders map[string]string `json:"expects_headers"`
	ExpectsText    string            `json:"expects_text"`
}

func (s *step) UnmarshalJSON(text []byte) error {
	if text[0] == '"' {
		return json.Unmarshal(text, &s.Answer)
	}
	type plain step
	return exactly(text, (*plain)(s))
}

func exactly(text []byte, into any) error {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	return decoder.Decode(into)
}

func readTable(t *testing.T, name string, into any) {
	t.Helper()
	text, err := os.ReadFile("../" + name)
	if err == nil {
		err = exactly(text, into)
	}
	if err != nil {
		t.Fatal(err)
	}
}

type scripted struct {
	*httptest.Server
	mutex    sync.Mutex
	asked    map[string]int
	claimIDs map[string]bool
	faults   []string
}

func script(server map[string][]step, answers map[string]step) *scripted {
	s := &scripted{asked: map[string]int{}, claimIDs: map[string]bool{}}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		var body map[string]any
		if err := exactly(text, &body); err != nil {
			s.fault("no JSON: %s", text)
		}
		call := r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]
		if call != "claims" && !strings.HasPrefix(r.URL.Path, "/v1/claims/C1/") {
			s.fault("asked for %s", r.URL.Path)
		}
		s.mutex.Lock()
		s.asked[call]++
		count := s.asked[call]
		if id, ok := body["claim_id"].(string); ok {
			s.claimIDs[id] = true
		}
		s.mutex.Unlock()
		steps := server[call]
		if len(steps) == 0 {
			steps = []step{{Answer: "away"}}
		}
		if count > len(steps) {
			count = len(steps)
		}
		s.answer(w, r, call, body, string(text), resolved(steps[count-1], answers))
	}))
	return s
}

func resolved(one step, answers map[string]step) step {
	base := answers[one.Answer]
	if one.Status == 0 {
		one.Status = base.Status
	}
	if one.Body == nil {
		one.Body = base.Body
	}
	if one.Raw != "" {
		one.Body = json.RawMessage(one.Raw)
	}
	if one.Fault == "" {
		one.Fault = base.Fault
	}
	return one
}

func (s *scripted) answer(w http.ResponseWriter, r *http.Request, call string, body map[string]any, text string, one step) {
	for name, value := range one.Expects {
		found, ok := body[name]
		if !ok || !same(name, found, value) {
			s.fault("%s: %s is %v, not %v", call, name, found, value)
		}
	}
	for name, value := range one.ExpectsHeaders {
		if r.Header.Get(name) != value {
			s.fault("%s: header %s is %s", call, name, r.Header.Get(name))
		}
	}
	if !strings.Contains(text, one.ExpectsText) {
		s.fault("%s: no %s in %s", call, one.ExpectsText, text)
	}
	switch one.Fault {
	case "cut":
		cut(w, "")
		return
	case "half":
		cut(w, fmt.Sprintf("HTTP/1.1 %d OK\r\nContent-Length: %d\r\n\r\n%s", one.Status, len(one.Body), one.Body[:len(one.Body)/2]))
		return
	case "slow":
		time.Sleep(time.Duration(one.SlowMS) * time.Millisecond)
	}
	for name, value := range one.Headers {
		w.Header().Set(name, value)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(one.Status)
	_, _ = w.Write(one.Body)
}

func cut(w http.ResponseWriter, text string) {
	connection, _, err := w.(http.Hijacker).Hijack()
	if err == nil {
		_, _ = io.WriteString(connection, text)
		_ = connection.Close()
	}
}

func (s *scripted) fault(format string, args ...any) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.faults = append(s.faults, fmt.Sprintf(format, args...))
}

var durations = map[string]bool{"lease": true, "window": true, "wait": true, "provider_window": true}

// same compares values of JSON; this client writes all durations in milliseconds.
func same(name string, found, value any) bool {
	if durations[name] {
		return duration(found) == duration(value)
	}
	return reflect.DeepEqual(found, value)
}

func duration(text any) time.Duration {
	spelled, _ := text.(string)
	if strings.HasSuffix(spelled, "d") {
		days, _ := time.ParseDuration(strings.TrimSuffix(spelled, "d") + "h")
		return 24 * days
	}
	parsed, _ := time.ParseDuration(spelled)
	return parsed
}

func optionsOf(wire map[string]any) *Options {
	text := func(name string) string { spelled, _ := wire[name].(string); return spelled }
	options := &Options{
		Fingerprint: wire["fingerprint"], Tenant: text("tenant"), Transport: text("transport"), Lease: duration(wire["lease"]),
		Window: duration(wire["window"]), Wait: duration(wire["wait"]), Class: text("class"), OnDoubt: text("on_doubt"),
		ProviderWindow: duration(wire["provider_window"]), Entity: wire["entity"],
	}
	options.Birth, _ = time.Parse(time.RFC3339, text("birth"))
	if number, ok := wire["version"].(json.Number); ok {
		version, _ := number.Int64()
		options.Version = uint64(version)
	}
	return options
}

var errFunction = errors.New("the function's own error")

type unprintable struct{}

func (unprintable) Error() string { panic("no text") }

func (unprintable) Unwrap() error { return errFunction }

type breaking struct{}

func (breaking) MarshalJSON() ([]byte, error) { panic("broken while it is written") }

var kinds = map[error]string{
	ErrBusy: "Busy", ErrConflict: "Conflict", ErrStale: "Stale", ErrIllegal: "Illegal", ErrTooOld: "TooOld",
	ErrParked: "Parked", ErrInDoubt: "InDoubt", ErrDead: "Dead", ErrClaimLost: "ClaimLost", ErrUnrecorded: "Unrecorded",
	ErrUnreadable: "Unreadable", ErrUnavailable: "Unavailable", ErrRefused: "Refused",
}

func play(t *testing.T, one playedCase, all *table) {
	server := script(one.Server, all.Answers)
	defer server.Close()
	client, err := New(server.URL, "secret")
	if err != nil {
		t.Fatal(err)
	}
	bounds := all.Client
	if one.Client != nil {
		bounds = *one.Client
	}
	client.Timeout = time.Duration(bounds.TimeoutMS) * time.Millisecond
	client.RetryFor = time.Duration(bounds.RetryForMS) * time.Millisecond
	key := one.Once.Key
	if key == nil {
		key = "payment-1"
	}
	runs := 0
	began := time.Now()
	receipt, err := Once(context.Background(), client, "charge", key, func(ctx context.Context, op *Operation) (any, error) {
		runs++
		if OperationOf(ctx) != op {
			t.Error("the context is not that of the operation")
		}
		if one.Function.Inner {
			inner := func(context.Context, *Operation) (any, error) { return function(t, one, op) }
			_, err := Once(ctx, client, "inner", "inner-1", inner, nil)
			return nil, fmt.Errorf("the inner operation: %w", err)
		}
		return function(t, one, op)
	}, optionsOf(one.Once.Options))
	took := time.Since(began).Milliseconds()
	time.Sleep(time.Duration(one.RestsMS) * time.Millisecond)
	found := foundIn(t, receipt, err)
	for name, value := range one.Ends {
		// Go has one type for JSON's null and for nothing.
		if got := found[name]; !reflect.DeepEqual(got, value) {
			t.Errorf("%s is %#v, not %#v", name, got, value)
		}
	}
	if (err != nil) != (one.Ends["error"] != nil) {
		t.Errorf("error is %v", err)
	}
	if runs != one.Runs {
		t.Errorf("ran %d times", runs)
	}
	if took < one.AtLeastMS || (one.AtMostMS > 0 && took > one.AtMostMS) {
		t.Errorf("took %d ms", took)
	}
	compareAsked(t, one, server)
}

func compareAsked(t *testing.T, one playedCase, server *scripted) {
	server.mutex.Lock()
	defer server.mutex.Unlock()
	for _, fault := range server.faults {
		t.Error(fault)
	}
	for call, count := range one.Asked {
		asked, isExact := server.asked[call], true
		if least, ok := count.(map[string]any); ok {
			count, isExact = least["at_least"], false
		}
		wanted, _ := count.(json.Number).Int64()
		if asked < int(wanted) || (isExact && asked != int(wanted)) {
			t.Errorf("%s was asked %d times, not %d", call, asked, wanted)
		}
	}
	for call := range server.asked {
		if one.Asked[call] == nil {
			t.Errorf("asked for %s", call)
		}
	}
	if one.ClaimIDs == 0 {
		one.ClaimIDs = 1
	}
	if len(server.claimIDs) != one.ClaimIDs {
		t.Errorf("claim ids: %v", server.claimIDs)
	}
	for id := range server.claimIDs {
		if !regexp.MustCompile("^[0-9a-f]{32}$").MatchString(id) {
			t.Errorf("claim id %s", id)
		}
	}
}

func function(t *testing.T, one playedCase, op *Operation) (any, error) {
	does := one.Function
	time.Sleep(time.Duration(does.TakesMS) * time.Millisecond)
	if does.UntilLost {
		select {
		case <-op.Lost():
		case <-time.After(20 * time.Second):
			t.Error("nobody told that the claim is lost")
		}
	}
	switch does.Raises {
	case "unprintable":
		return nil, unprintable{}
	case "error":
		return nil, fmt.Errorf("%s: %w", does.Message, errFunction)
	case "not_applied":
		return nil, NotApplied(errors.New(does.Message))
	case "failed":
		return nil, &FailedError{Err: errors.New(does.Message), Certainty: does.Certainty, Decisive: does.Decisive}
	}
	if does.ReturnsLetters > 0 {
		return strings.Repeat("x", does.ReturnsLetters), nil
	}
	if does.ReturnsBreaking {
		return breaking{}, nil
	}
	if does.ReturnsNoJSON {
		return func() {}, nil
	}
	if does.ReturnsOperation {
		return map[string]any{
			"idempotency_key": op.IdempotencyKey, "attempt": number(op.Attempt), "fencing_token": number(op.FencingToken),
			"possible_repeat": op.PossibleRepeat, "takeover": op.Takeover,
		}, nil
	}
	return does.Returns, nil
}

func number(value any) json.Number { return json.Number(fmt.Sprint(value)) }

// foundIn returns the end of a call in the words of the table.
func foundIn(t *testing.T, receipt Receipt[any], err error) map[string]any {
	var told *Error
	var notApplied *NotAppliedError
	var failed *FailedError
	switch {
	case err == nil:
		found := map[string]any{
			"outcome": receipt.Outcome, "replayed": receipt.Replayed, "duplicate": receipt.Duplicate,
			"operation_id": receipt.OperationID, "completed_at": receipt.CompletedAt, "attempt": number(receipt.Attempt),
			"possible_repeat": receipt.PossibleRepeat, "content_type": receipt.ContentType, "kept": receipt.Kept,
		}
		if raw, ok := receipt.Outcome.([]byte); ok {
			found["outcome_base64"] = base64.StdEncoding.EncodeToString(raw)
		}
		return found
	case errors.Is(err, errFunction):
		return map[string]any{"error": "function"}
	case errors.As(err, &notApplied):
		return map[string]any{"error": "NotApplied"}
	case errors.As(err, &failed):
		return map[string]any{"error": "Failed"}
	case errors.As(err, &told):
		return map[string]any{
			"error": kinds[told.Kind], "certainty": string(told.Certainty), "code": told.Code, "ran": told.Ran,
			"result": told.Result, "operation_id": told.OperationID, "retry_after_ms": number(told.RetryAfter.Milliseconds()),
			"until": told.Until, "pointer": told.Pointer, "applied": number(told.Applied), "state": told.State,
		}
	}
	t.Fatalf("an error of no kind: %v", err)
	return nil
}

func TestEveryCase(t *testing.T) {
	var all table
	readTable(t, "cases.json", &all)
	if len(all.Cases) < 30 {
		t.Fatal("cases are missing")
	}
	for _, one := range all.Cases {
		one := one
		t.Run(one.Name, func(t *testing.T) {
			t.Parallel()
			play(t, one, &all)
		})
	}
}

func TestNumbersKeepTheirDigits(t *testing.T) {
	text := `{"a":12345678901234567890123,"b":0.12345678901234567890123,"c":1e400,"d":"<&>"}`
	decision := &Decision{Decision: "replay", Outcome: json.RawMessage(text)}
	receipt, err := replayed[map[string]any](decision)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := written(receipt.Outcome); err != nil || string(again) != text {
		t.Fatalf("%s, %v", again, err)
	}
	big, err := replayed[struct{ A *big.Int }](decision)
	if err != nil || big.Outcome.A.String() != "12345678901234567890123" {
		t.Fatalf("%v, %v", big.Outcome, err)
	}
	if _, err := replayed[struct{ A int }](decision); !errors.Is(err, ErrUnreadable) {
		t.Fatalf("digits were lost: %v", err)
	}
}

func TestAKeyIsAStringOrANumber(t *testing.T) {
	for _, key := range []any{nil, true, 1.5, []string{"a"}} {
		if _, err := requested("charge", key, nil); err == nil {
			t.Errorf("%v is no key", key)
		}
	}
	for key, text := range map[any]string{"a": "a", "json:1": `json:"json:1"`, 1: "json:1", json.Number("1.50"): "json:1.50"} {
		if found, err := spelled(key); err != nil || found != text {
			t.Errorf("%v is %s", key, found)
		}
	}
}

func TestAnAddressIsNeeded(t *testing.T) {
	t.Setenv("SEMEL_URL", "")
	for _, address := range []string{"", "127.0.0.1:8181", "ftp://there"} {
		if _, err := New(address, ""); err == nil {
			t.Errorf("%q is no address", address)
		}
	}
	t.Setenv("SEMEL_URL", "http://there:1/")
	t.Setenv("SEMEL_TOKEN", "secret")
	if client, err := New("", ""); err != nil || client.url != "http://there:1" || client.token != "secret" {
		t.Errorf("%v, %v", client, err)
	}
}

func TestWhatIsRefusedIsNotPrinted(t *testing.T) {
	for _, address := range []string{"http://me:secret@there", "http://secret@there", "http://there:secret", "http://the re/secret"} {
		if _, err := New(address, ""); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v", address, err)
		}
	}
	for _, token := range []string{"secret\nX-Other: 1", "secret one", "secr\u00e9t", "secret\x7f"} {
		if _, err := New("http://there", token); err == nil || strings.Contains(err.Error(), "secr") {
			t.Errorf("%q: %v", token, err)
		}
	}
	if client, err := New("http://there", " secret\r\n"); err != nil || client.token != "secret" {
		t.Error(err)
	}
}

// ended calls once with a function that returns an error, over a server that expects one report of it.
func ended(t *testing.T, err error, call, word string, expects map[string]any) {
	t.Helper()
	var all table
	readTable(t, "cases.json", &all)
	server := script(map[string][]step{"claims": {{Answer: "granted"}}, call: {{Answer: word, Expects: expects}}}, all.Answers)
	defer server.Close()
	client, _ := New(server.URL, "")
	run := func(context.Context, *Operation) (int, error) { return 0, err }
	if _, told := Once(context.Background(), client, "charge", "k", run, nil); !errors.Is(told, err) {
		t.Error(told)
	}
	if server.asked[call] != 1 || len(server.faults) != 0 {
		t.Errorf("%v, %v", server.asked, server.faults)
	}
}

func TestAFailureThatCannotBeReportedAsItIs(t *testing.T) {
	surely := map[string]any{"certainty": "not_applied"}
	ended(t, NotApplied(nil), "release", "released", surely)
	beyond := time.Date(10_001, 1, 1, 0, 0, 0, 0, time.UTC)
	ended(t, &NotAppliedError{Err: io.EOF, NotBefore: beyond}, "release", "released", surely)
	maybe := map[string]any{"certainty": "maybe_applied"}
	ended(t, &FailedError{Err: io.EOF, Certainty: MaybeApplied, Decisive: true}, "fail", "dead", maybe)
	ended(t, &FailedError{Certainty: "surely"}, "fail", "dead", maybe)
	client, _ := New("http://127.0.0.1:1", "")
	if _, err := client.Fail(context.Background(), "C1", "no", MaybeApplied, true); err == nil || errors.Is(err, ErrUnavailable) {
		t.Error(err)
	}
}

func TestACallerWhoGoesAwayHoldsNoKey(t *testing.T) {
	var all table
	readTable(t, "cases.json", &all)
	server := script(map[string][]step{
		"claims":  {{Answer: "granted", Fault: "slow", SlowMS: 3000}, {Answer: "resumed"}},
		"release": {{Answer: "released", Expects: map[string]any{"certainty": "not_applied"}}},
	}, all.Answers)
	defer server.Close()
	client, _ := New(server.URL, "")
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	never := func(context.Context, *Operation) (int, error) { t.Error("it ran"); return 0, nil }
	if _, err := Once(ctx, client, "charge", "k", never, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	if _, err := Once(ctx, client, "charge", "k", never, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	time.Sleep(3 * time.Second)
	wanted := map[string]int{"claims": 2, "release": 1}
	if !reflect.DeepEqual(server.asked, wanted) || len(server.claimIDs) != 1 || len(server.faults) != 0 {
		t.Errorf("%v, %v, %v", server.asked, server.claimIDs, server.faults)
	}
}

// A cancelling transport has its caller go away as soon as the answer was read.
type cancelling struct{ cancel context.CancelFunc }

type closing struct {
	io.ReadCloser
	cancel context.CancelFunc
}

func (c closing) Close() error {
	c.cancel()
	return c.ReadCloser.Close()
}

func (c cancelling) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := http.DefaultTransport.RoundTrip(r)
	if err == nil && strings.HasSuffix(r.URL.Path, "/claims") {
		response.Body = closing{response.Body, c.cancel}
	}
	return response, err
}

func TestACallerWhoIsGoneRunsNothing(t *testing.T) {
	var all table
	readTable(t, "cases.json", &all)
	server := script(map[string][]step{
		"claims":  {{Answer: "granted"}},
		"release": {{Answer: "released", Expects: map[string]any{"certainty": "not_applied"}}},
	}, all.Answers)
	defer server.Close()
	client, _ := New(server.URL, "")
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	client.HTTP = &http.Client{Transport: cancelling{cancel}}
	never := func(context.Context, *Operation) (int, error) { t.Error("it ran"); return 0, nil }
	if _, err := Once(ctx, client, "charge", "k", never, nil); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if server.asked["release"] != 1 || len(server.faults) != 0 {
		t.Errorf("%v, %v", server.asked, server.faults)
	}
}

func TestAWarningNamesTheOperationAndTheKey(t *testing.T) {
	var all table
	readTable(t, "cases.json", &all)
	server := script(map[string][]step{"claims": {{Answer: "granted"}}, "release": {{Answer: "lost"}}}, all.Answers)
	defer server.Close()
	client, _ := New(server.URL, "")
	var warnings []string
	client.Warn = func(message string, err error) { warnings = append(warnings, message) }
	run := func(context.Context, *Operation) (int, error) { return 0, io.EOF }
	_, _ = Once(context.Background(), client, "charge", "payment-1", run, nil)
	if len(warnings) != 1 || !strings.HasPrefix(warnings[0], `charge "payment-1": `) {
		t.Error(warnings)
	}
}

func TestRetryAfter(t *testing.T) {
	if wait, ok := retryAfter("3"); !ok || wait != 3*time.Second {
		t.Error(wait)
	}
	if wait, ok := retryAfter("Thu, 01 Jan 1970 00:00:00 GMT"); !ok || wait != 0 {
		t.Error(wait)
	}
	if _, ok := retryAfter("soon"); ok {
		t.Error("soon is no time")
	}
}

func TestACallerWhoGoesAwayEndsTheAsking(t *testing.T) {
	client, err := New("http://127.0.0.1:1", "")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	never := func(context.Context, *Operation) (int, error) { t.Error("it ran"); return 0, nil }
	_, err = Once(ctx, client, "charge", "k", never, nil)
	var told *Error
	if !errors.As(err, &told) || told.Kind != ErrUnavailable || told.Certainty != SurelyNotApplied {
		t.Fatal(err)
	}
}

func TestAPanicIsAMaybeAndGoesOn(t *testing.T) {
	var all table
	readTable(t, "cases.json", &all)
	server := script(map[string][]step{
		"claims":  {{Answer: "granted"}},
		"release": {{Answer: "released", Expects: map[string]any{"certainty": "maybe_applied"}}},
	}, all.Answers)
	defer server.Close()
	client, _ := New(server.URL, "")
	func() {
		defer func() {
			if recover() != "broken" {
				t.Error("the panic is gone")
			}
		}()
		_, _ = Once(context.Background(), client, "charge", "k", func(context.Context, *Operation) (int, error) { panic("broken") }, nil)
	}()
	if server.asked["release"] != 1 || len(server.faults) != 0 {
		t.Errorf("%v, %v", server.asked, server.faults)
	}
}

func TestAHandlerThatWasCalledAndAServerThatWasNotTold(t *testing.T) {
	var cases table
	readTable(t, "cases.json", &cases)
	s := script(map[string][]step{"claims": {{Answer: "granted"}}, "complete": {{Answer: "away"}}}, cases.Answers)
	defer s.Close()
	client, _ := New(s.URL, "")
	client.RetryFor = 100 * time.Millisecond
	charged := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("charged")) })
	request := httptest.NewRequest(http.MethodPost, "/", nil)
	request.Header.Set("Idempotency-Key", "k")
	answer := httptest.NewRecorder()
	client.Middleware(Idempotency{})(charged).ServeHTTP(answer, request)
	var told struct{ Code, Certainty string }
	_ = json.Unmarshal(answer.Body.Bytes(), &told)
	if answer.Code != 500 || told.Code != "outcome-unrecorded" || told.Certainty != "maybe_applied" {
		t.Error(answer.Code, answer.Body.String())
	}
	if after := answer.Header().Get("Retry-After"); after != "1" {
		t.Error(after)
	}
}
