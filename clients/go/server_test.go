package semel

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"
)

const (
	raceKeys      = 20
	raceProcesses = 3
	raceLanes     = 3
	raceEach      = 200 * time.Millisecond
)

// A real is `semel run` with the claim API over an embedded store in a folder of its own.
type real struct {
	t       *testing.T
	folder  string
	url     string
	process *exec.Cmd
}

func startReal(t *testing.T) *real {
	t.Helper()
	if os.Getenv("SEMEL_BIN") == "" {
		t.Fatal("SEMEL_BIN names no binary; `cargo xtask clients` builds one")
	}
	socket, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := socket.Addr().String()
	_ = socket.Close()
	server := &real{t: t, folder: t.TempDir(), url: "http://" + address}
	config := fmt.Sprintf("[store]\nurl = \"embedded:./data\"\n\n[claims]\nlisten = %q\n", address)
	if err := os.WriteFile(filepath.Join(server.folder, "semel.toml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	server.start()
	t.Cleanup(server.kill)
	return server
}

func (r *real) start() {
	r.t.Helper()
	log, err := os.OpenFile(filepath.Join(r.folder, "log"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		r.t.Fatal(err)
	}
	defer log.Close()
	r.process = exec.Command(os.Getenv("SEMEL_BIN"), "run", filepath.Join(r.folder, "semel.toml"))
	r.process.Stdout, r.process.Stderr = log, log
	if err := r.process.Start(); err != nil {
		r.t.Fatal(err)
	}
	for until := time.Now().Add(15 * time.Second); time.Now().Before(until); time.Sleep(20 * time.Millisecond) {
		answer, err := http.Get(r.url + "/v1/openapi.json")
		if err == nil {
			_ = answer.Body.Close()
			return
		}
	}
	said, _ := os.ReadFile(log.Name())
	r.t.Fatalf("semel does not come up: %s", said)
}

func (r *real) kill() {
	_ = r.process.Process.Kill()
	_ = r.process.Wait()
}

func (r *real) client() *Semel {
	client, err := New(r.url, "")
	if err != nil {
		r.t.Fatal(err)
	}
	return client
}

func TestTheRealServer(t *testing.T) {
	t.Parallel()
	server := startReal(t)
	client := server.client()
	for name, test := range map[string]func(*testing.T, *Semel){
		"a duplicate gets the outcome": testDuplicate, "keys": testKeys, "bytes and no JSON": testBytes, "ends": testEnds,
		"large and deep":  testLarge,
		"a lease is kept": testLease, "calls": testCalls, "outlived": testOutlived, "middleware": testMiddleware,
		"middleware waits": testMiddlewareWaits, "middleware refuses": testMiddlewareRefuses, "readme": testReadme,
	} {
		test := test
		t.Run(name, func(t *testing.T) { test(t, client) })
	}
}

func once[T any](t *testing.T, client *Semel, operation string, key any, value T, options *Options) Receipt[T] {
	t.Helper()
	run := func(context.Context, *Operation) (T, error) { return value, nil }
	receipt, err := Once(context.Background(), client, operation, key, run, options)
	if err != nil {
		t.Fatal(err)
	}
	return receipt
}

// refusedWith calls once with a function that must not run.
func refusedWith(t *testing.T, client *Semel, operation string, key any, options *Options) *Error {
	t.Helper()
	run := func(context.Context, *Operation) (any, error) { t.Error("it ran"); return nil, nil }
	_, err := Once(context.Background(), client, operation, key, run, options)
	var told *Error
	if !errors.As(err, &told) {
		t.Fatalf("no refusal: %v", err)
	}
	return told
}

type charged struct {
	ID     json.Number
	Text   string
	Amount float64
}

func testDuplicate(t *testing.T, client *Semel) {
	outcome := charged{ID: "12345678901234567890123", Text: "é😀\n<&>", Amount: 1.5}
	options := &Options{Fingerprint: map[string]int{"amount": 1}, Transport: "t1", Birth: time.Now(), Window: 168 * time.Hour}
	first := once(t, client, "charge", "a", outcome, options)
	options.Transport = "t2"
	again := once(t, client, "charge", "a", charged{}, options)
	if first.Replayed || first.Outcome != outcome || first.Attempt != 1 {
		t.Errorf("%+v", first)
	}
	if !again.Replayed || again.Outcome != outcome || again.Duplicate != "republish" || again.CompletedAt == "" {
		t.Errorf("%+v", again)
	}
	options.Fingerprint = map[string]int{"amount": 2}
	if told := refusedWith(t, client, "charge", "a", options); told.Kind != ErrConflict {
		t.Error(told)
	}
}

func testKeys(t *testing.T, client *Semel) {
	for _, key := range []any{1, "1", json.Number("12345678901234567890123"), json.Number("12345678901234567890124")} {
		if once(t, client, "types", key, fmt.Sprint(key), nil).Replayed {
			t.Errorf("%v is another key", key)
		}
	}
	if again := once(t, client, "types", uint64(1), "", nil); !again.Replayed || again.Outcome != "1" {
		t.Errorf("%+v", again)
	}
}

func testBytes(t *testing.T, client *Semel) {
	raw := []byte{0, 255}
	once(t, client, "bytes", "a", raw, nil)
	if again := once(t, client, "bytes", "a", []byte(nil), nil); !again.Replayed || !reflect.DeepEqual(again.Outcome, raw) {
		t.Errorf("%+v", again)
	}
	run := func(context.Context, *Operation) (any, error) { return func() {}, nil }
	_, err := Once(context.Background(), client, "bytes", "b", run, nil)
	var told *Error
	if !errors.As(err, &told) || told.Kind != ErrUnreadable || told.Result == nil {
		t.Error(err)
	}
	if told := refusedWith(t, client, "bytes", "b", nil); told.Kind != ErrUnreadable {
		t.Error(told)
	}
}

func testLarge(t *testing.T, client *Semel) {
	for length, isKept := range map[int]bool{900 << 10: true, 3 << 19: false, 3 << 20: false, 20 << 20: false} {
		text := strings.Repeat("x", length-20)
		once(t, client, "large", length, text, nil)
		again := once(t, client, "large", length, "", nil)
		if again.Kept != isKept || !again.Replayed || (again.Outcome == text) != isKept {
			t.Errorf("%d: %v, %v", length, again.Kept, len(again.Outcome))
		}
	}
	var deep any
	for depth := 0; depth < 300; depth++ {
		deep = []any{deep}
	}
	run := func(context.Context, *Operation) (any, error) { return deep, nil }
	if _, err := Once(context.Background(), client, "large", "deep", run, nil); !errors.Is(err, ErrUnreadable) {
		t.Error(err)
	}
	if told := refusedWith(t, client, "large", "deep", nil); told.Kind != ErrUnreadable {
		t.Error(told)
	}
}

func testEnds(t *testing.T, client *Semel) {
	ends := func(key string, with error, options *Options) {
		t.Helper()
		run := func(context.Context, *Operation) (int, error) { return 0, with }
		if _, err := Once(context.Background(), client, "ends", key, run, options); !errors.Is(err, with) {
			t.Errorf("%v is not %v", err, with)
		}
	}
	ends("n", NotApplied(errors.New("no route")), nil)
	attempt := func(_ context.Context, op *Operation) (int, error) { return op.Attempt, nil }
	if receipt, err := Once(context.Background(), client, "ends", "n", attempt, &Options{Wait: 5 * time.Second}); err != nil || receipt.Outcome != 2 {
		t.Error(receipt, err)
	}
	ends("f", Failed(errors.New("card expired"), SurelyNotApplied), nil)
	if told := refusedWith(t, client, "ends", "f", nil); told.Kind != ErrDead || !errors.Is(told, ErrParked) {
		t.Error(told)
	}
	ends("b", io.ErrUnexpectedEOF, nil)
	if told := refusedWith(t, client, "ends", "b", nil); told.Kind != ErrInDoubt || told.Certainty != MaybeApplied {
		t.Error(told)
	}
	repeat := &Options{OnDoubt: "repeat", Wait: 5 * time.Second}
	ends("r", io.ErrUnexpectedEOF, repeat)
	repeated := func(_ context.Context, op *Operation) (bool, error) { return op.PossibleRepeat, nil }
	if receipt, err := Once(context.Background(), client, "ends", "r", repeated, repeat); err != nil || !receipt.Outcome {
		t.Error(receipt, err)
	}
}

func testLease(t *testing.T, client *Semel) {
	short := &Options{Lease: 2 * time.Second}
	done := make(chan Receipt[string])
	go func() {
		slow := func(context.Context, *Operation) (string, error) {
			time.Sleep(4500 * time.Millisecond)
			return "slow", nil
		}
		receipt, _ := Once(context.Background(), client, "slow", "a", slow, short)
		done <- receipt
	}()
	time.Sleep(2500 * time.Millisecond)
	if told := refusedWith(t, client, "slow", "a", short); told.Kind != ErrBusy || told.RetryAfter > 2100*time.Millisecond {
		t.Error(told, told.RetryAfter)
	}
	again := once(t, client, "slow", "a", "", &Options{Wait: 20 * time.Second})
	if first := <-done; first.Outcome != "slow" || again.Outcome != "slow" || !again.Replayed {
		t.Error(first, again)
	}
}

func testCalls(t *testing.T, client *Semel) {
	ctx := context.Background()
	must := func(settled *Settled, err error) string {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return settled.State
	}
	claim, err := client.Claim(ctx, "low", "a", &Options{Lease: 30 * time.Second, Class: "unkeyed", OnDoubt: "park"})
	if err != nil || claim.Decision != "granted" {
		t.Fatal(claim, err)
	}
	must(client.Renew(ctx, claim.Claim, 30*time.Second))
	for range []int{1, 2} {
		if state := must(client.Complete(ctx, claim.Claim, map[string]int{"n": 1}, 24*time.Hour)); state != "completed" {
			t.Error(state)
		}
	}
	if again, err := client.Claim(ctx, "low", "a", nil); err != nil || string(again.Outcome) != `{"n":1}` {
		t.Error(again, err)
	}
	if record, err := client.Operation(ctx, "low", "a", ""); err != nil || record["state"] != "completed" {
		t.Error(record, err)
	}
	if record, err := client.Operation(ctx, "low", "unknown", ""); err != nil || record != nil {
		t.Error(record, err)
	}
	var batch []ClaimRequest
	for _, key := range []any{"a", 1, 2, 3} {
		batch = append(batch, ClaimRequest{Operation: "low", Key: key})
	}
	claims, err := client.ClaimBatch(ctx, batch)
	if err != nil || claims[0].Decision != "replay" || claims[3].Decision != "granted" {
		t.Fatal(claims, err)
	}
	must(client.Start(ctx, claims[3].Claim))
	digits := json.RawMessage("[0.12345678901234567890123, 1e400]")
	settled, err := client.SettleBatch(ctx, []Settlement{
		{Claim: claims[1].Claim, Step: "complete", Outcome: digits},
		{Claim: claims[2].Claim, Step: "release", Error: "no", Certainty: SurelyNotApplied},
	})
	if err != nil || settled[0].State != "completed" || settled[1].State != "released" {
		t.Error(settled, err)
	}
	compact := "[0.12345678901234567890123,1e400]"
	if again, err := client.Claim(ctx, "low", 1, nil); err != nil || string(again.Outcome) != compact {
		t.Error(string(again.Outcome), err)
	}
	must(client.Fail(ctx, claims[3].Claim, "no", SurelyNotApplied, false))
	if _, err := client.Complete(ctx, claims[2].Claim, 1, 0); !errors.Is(err, ErrClaimLost) {
		t.Error(err)
	}
	_, err = client.Claim(ctx, "low", "", nil)
	var told *Error
	if !errors.As(err, &told) || told.Code != "invalid-input" || told.Status != 400 {
		t.Error(err)
	}
}

// A process that stood still: its lease went by, and another one took over.
func testOutlived(t *testing.T, client *Semel) {
	begun, _, err := client.begin(context.Background(), "late", "a", &Options{Lease: 150 * time.Millisecond, OnDoubt: "repeat"})
	if err != nil {
		t.Fatal(err)
	}
	begun.end()
	time.Sleep(300 * time.Millisecond)
	other := once(t, client, "late", "a", "other", &Options{OnDoubt: "repeat", Wait: 10 * time.Second})
	if !other.PossibleRepeat {
		t.Errorf("%+v", other)
	}
	var told *Error
	if _, err := begun.done("late"); !errors.As(err, &told) || told.Kind != ErrClaimLost || told.Result != "late" || !told.Ran {
		t.Error(err)
	}
	if again := once(t, client, "late", "a", "", nil); again.Outcome != "other" {
		t.Errorf("%+v", again)
	}
}

// The example prints what the README shows.
func testReadme(t *testing.T, client *Semel) {
	example, _ := os.ReadFile("example/main.go")
	text, _ := os.ReadFile("README.md")
	readme := string(text)
	if !strings.Contains(readme, "```go\n"+string(example)+"```") {
		t.Error("the README has another example")
	}
	command := exec.Command("go", "run", "./example")
	command.Env = append(os.Environ(), "SEMEL_URL="+client.url)
	said, err := command.CombinedOutput()
	if err != nil || !strings.Contains(readme, "$ go run ./example\n"+string(said)+"```") {
		t.Errorf("%s, %v", said, err)
	}
}

type httpCase struct {
	Name     string
	Settings struct {
		Class      string
		OnDoubt    string `json:"on_doubt"`
		RequireKey bool   `json:"require_key"`
		MaxBody    int    `json:"max_body"`
		MaxAnswer  int    `json:"max_answer"`
	}
	Requests []httpRequest
	Recorded json.RawMessage
	// RecordedText is an outcome that is no JSON.
	RecordedText string `json:"recorded_text"`
	Verbatim     bool
	Runs         int
}

type httpRequest struct {
	Method, Path, Query, Body, Authorization string
	Key                                      *string
	Handler                                  struct {
		Status  int
		Headers map[string]string
		Body    string
		Raises  bool
	}
	Gets struct {
		Status         int
		Headers        map[string]*string
		Body           *string
		Code           string
		OriginalStatus int `json:"original_status"`
	}
}

func testMiddleware(t *testing.T, client *Semel) {
	var all struct{ Cases []httpCase }
	readTable(t, "http.json", &all)
	if len(all.Cases) < 10 {
		t.Fatal("cases are missing")
	}
	for _, one := range all.Cases {
		one := one
		t.Run(one.Name, func(t *testing.T) { playHTTP(t, client, one) })
	}
}

func playHTTP(t *testing.T, client *Semel, one httpCase) {
	settings := Idempotency{
		RequireKey: one.Settings.RequireKey, MaxBody: one.Settings.MaxBody, MaxAnswer: one.Settings.MaxAnswer,
		Options: Options{Class: one.Settings.Class, OnDoubt: one.Settings.OnDoubt},
	}
	runs := 0
	var current httpRequest
	handler := client.Middleware(settings)(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		runs++
		if body, _ := io.ReadAll(r.Body); string(body) != current.Body {
			t.Errorf("the handler reads %q", body)
		}
		if current.Handler.Raises {
			panic("broken")
		}
		for name, value := range current.Handler.Headers {
			w.Header().Set(name, value)
		}
		w.WriteHeader(current.Handler.Status)
		_, _ = io.WriteString(w, current.Handler.Body)
	}))
	unique := fmt.Sprintf("go-%d-", time.Now().UnixNano())
	var recorded any = one.Recorded
	if one.RecordedText != "" {
		recorded = []byte(one.RecordedText)
	}
	if one.Recorded != nil || one.RecordedText != "" {
		key := strings.Replace(*one.Requests[0].Key, "K", unique, 1)
		claim, err := client.Claim(context.Background(), "http", key, nil)
		if err == nil {
			_, err = client.Complete(context.Background(), claim.Claim, recorded, 0)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, current = range one.Requests {
		answer := askHandler(handler, current, one.Verbatim, unique)
		body := answer.Body.String()
		if answer.Code != current.Gets.Status {
			t.Fatalf("answered %d %s, not %d", answer.Code, body, current.Gets.Status)
		}
		for name, value := range current.Gets.Headers {
			found := answer.Header().Values(name)
			if (value == nil && len(found) > 0) || (value != nil && !reflect.DeepEqual(found, []string{*value})) {
				t.Errorf("%s is %v", name, found)
			}
		}
		if current.Gets.Body != nil && *current.Gets.Body != body {
			t.Errorf("answered %q", body)
		}
		if current.Gets.Code != "" {
			code, original := problemIn(body)
			if code != current.Gets.Code || original != current.Gets.OriginalStatus {
				t.Errorf("answered %s", body)
			}
		}
	}
	if runs != one.Runs {
		t.Errorf("ran %d times, not %d", runs, one.Runs)
	}
}

func askHandler(handler http.Handler, asked httpRequest, verbatim bool, unique string) *httptest.ResponseRecorder {
	method, path := asked.Method, asked.Path
	if method == "" {
		method = http.MethodPost
	}
	if path == "" {
		path = "/charges"
	}
	if asked.Query != "" {
		path += "?" + asked.Query
	}
	request := httptest.NewRequest(method, path, strings.NewReader(asked.Body))
	if asked.Key != nil {
		key := *asked.Key
		if !verbatim {
			key = strings.Replace(key, "K", unique, 1)
		}
		request.Header["Idempotency-Key"] = []string{key}
	}
	if asked.Authorization != "" {
		request.Header.Set("Authorization", asked.Authorization)
	}
	answer := httptest.NewRecorder()
	func() {
		defer func() {
			if recover() != nil {
				answer.WriteHeader(http.StatusInternalServerError)
			}
		}()
		handler.ServeHTTP(answer, request)
	}()
	return answer
}

func problemIn(body string) (string, int) {
	var found struct {
		Code           string
		OriginalStatus int `json:"original_status"`
	}
	_ = json.Unmarshal([]byte(body), &found)
	return found.Code, found.OriginalStatus
}

func testMiddlewareWaits(t *testing.T, client *Semel) {
	slow := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(4 * time.Second)
		if r.Context().Err() != nil {
			t.Error("the handler ends with its client")
		}
		_, _ = io.WriteString(w, "slow")
	})
	unique := fmt.Sprintf("go-%d", time.Now().UnixNano())
	ask := func(ctx context.Context, wait time.Duration) *httptest.ResponseRecorder {
		request := httptest.NewRequest(http.MethodPost, "/", nil).WithContext(ctx)
		request.Header.Set("Idempotency-Key", unique)
		answer := httptest.NewRecorder()
		client.Middleware(Idempotency{Options: Options{Wait: wait}})(slow).ServeHTTP(answer, request)
		return answer
	}
	hangsUp, hangUp := context.WithCancel(context.Background())
	first := make(chan struct{})
	go func() {
		ask(hangsUp, time.Second)
		close(first)
	}()
	time.Sleep(time.Second)
	hangUp()
	told := ask(context.Background(), time.Millisecond)
	if code, _ := problemIn(told.Body.String()); told.Code != 409 || code != "in-progress" || told.Header().Get("Retry-After") == "" {
		t.Error(told)
	}
	again := ask(context.Background(), 20*time.Second)
	if again.Code != 200 || again.Body.String() != "slow" || again.Header().Get("Idempotency-Replayed") != "true" {
		t.Error(again)
	}
	<-first
}

func testMiddlewareRefuses(t *testing.T, client *Semel) {
	never := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("it ran") })
	ask := func(over *Semel, settings Idempotency, keys ...string) (int, string) {
		request := httptest.NewRequest(http.MethodPost, "/", nil)
		request.Header["Idempotency-Key"] = keys
		answer := httptest.NewRecorder()
		over.Middleware(settings)(never).ServeHTTP(answer, request)
		code, _ := problemIn(answer.Body.String())
		return answer.Code, code
	}
	noTenant := Idempotency{Tenant: func(*http.Request) string { return "" }}
	if status, code := ask(client, noTenant, "k"); status != 400 || code != "tenant-missing" {
		t.Error(status, code)
	}
	if status, code := ask(client, Idempotency{}, "a", "b"); status != 400 || code != "key-invalid" {
		t.Error(status, code)
	}
	gone, _ := New("http://127.0.0.1:1", "")
	gone.RetryFor = 100 * time.Millisecond
	if status, code := ask(gone, Idempotency{}, "k"); status != 503 || code != "store-unavailable" {
		t.Error(status, code)
	}
}

// An end is what a caller of the race got for a key.
type end struct {
	Key, End, By string
	Replayed     bool
}

type race struct {
	URL, Booked string
	BeginsAt    time.Time
}

// TestMain is a racer if the variable says so: this program starts itself.
func TestMain(m *testing.M) {
	if told := os.Getenv("SEMEL_TEST_RACE"); told != "" {
		var run race
		if err := json.Unmarshal([]byte(told), &run); err != nil {
			panic(err)
		}
		run.racer()
		return
	}
	os.Exit(m.Run())
}

func (r race) racer() {
	client, err := New(r.URL, "")
	if err != nil {
		panic(err)
	}
	client.Timeout, client.RetryFor = 3*time.Second, 8*time.Second
	chance := rand.New(rand.NewSource(int64(os.Getpid())))
	var mutex sync.Mutex
	var lanes sync.WaitGroup
	for lane := 0; lane < raceLanes; lane++ {
		lanes.Add(1)
		go func(lane int) {
			defer lanes.Done()
			for index := 0; index < raceKeys; index++ {
				time.Sleep(time.Until(r.BeginsAt.Add(time.Duration(index) * raceEach)))
				mutex.Lock()
				takes := time.Duration(chance.Intn(300)) * time.Millisecond
				mutex.Unlock()
				text, _ := json.Marshal(r.untilItEnds(client, index, lane, takes))
				mutex.Lock()
				fmt.Println(string(text))
				mutex.Unlock()
			}
		}(lane)
	}
	lanes.Wait()
}

// untilItEnds asks until there is the one answer, or a doubt.
func (r race) untilItEnds(client *Semel, index, lane int, takes time.Duration) end {
	key := fmt.Sprintf("key-%d", index)
	nonce := fmt.Sprintf("%d-%d-%d", os.Getpid(), lane, time.Now().UnixNano())
	effect := func(context.Context, *Operation) (map[string]string, error) {
		file, err := os.OpenFile(r.Booked, os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			return nil, err
		}
		defer file.Close()
		if _, err := fmt.Fprintf(file, "%s %s\n", key, nonce); err != nil {
			return nil, err
		}
		time.Sleep(takes)
		if index%7 == 0 {
			return nil, errors.New("the answer of the provider was lost")
		}
		return map[string]string{"by": nonce}, nil
	}
	options := &Options{Lease: 2 * time.Second, Wait: time.Second, Class: "unkeyed", OnDoubt: "park"}
	for {
		receipt, err := Once(context.Background(), client, "race", key, effect, options)
		if err == nil {
			return end{Key: key, End: "done", By: receipt.Outcome["by"], Replayed: receipt.Replayed}
		}
		if errors.Is(err, ErrInDoubt) {
			return end{Key: key, End: "in doubt"}
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func TestRacingProcessesWhileTheServerIsKilled(t *testing.T) {
	t.Parallel()
	server := startReal(t)
	run := race{URL: server.url, Booked: filepath.Join(server.folder, "booked"), BeginsAt: time.Now().Add(500 * time.Millisecond)}
	if err := os.WriteFile(run.Booked, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	told, _ := json.Marshal(run)
	ends := make(chan end, raceKeys*raceProcesses*raceLanes)
	var racers sync.WaitGroup
	for process := 0; process < raceProcesses; process++ {
		racer := exec.Command(os.Args[0])
		racer.Env = append(os.Environ(), "SEMEL_TEST_RACE="+string(told))
		racer.Stderr = os.Stderr
		output, err := racer.StdoutPipe()
		if err == nil {
			err = racer.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		late := time.AfterFunc(18*time.Second, func() { _ = racer.Process.Kill() })
		racers.Add(1)
		go func() {
			defer racers.Done()
			for lines := bufio.NewScanner(output); lines.Scan(); {
				var one end
				if json.Unmarshal(lines.Bytes(), &one) == nil {
					ends <- one
				}
			}
			_ = racer.Wait()
			late.Stop()
		}()
	}
	kills := 0
	time.Sleep(time.Until(run.BeginsAt.Add(450 * time.Millisecond)))
	for time.Now().Before(run.BeginsAt.Add(raceKeys * raceEach)) {
		server.kill()
		kills++
		time.Sleep(100 * time.Millisecond)
		server.start()
		time.Sleep(500 * time.Millisecond)
	}
	racers.Wait()
	close(ends)
	if kills < 3 {
		t.Errorf("%d kills", kills)
	}
	judge(t, run.Booked, ends)
}

// judge compares what the callers were told with the effects that are booked.
func judge(t *testing.T, booked string, ends <-chan end) {
	text, err := os.ReadFile(booked)
	if err != nil {
		t.Fatal(err)
	}
	effects := map[string][]string{}
	for _, line := range strings.Fields(strings.ReplaceAll(string(text), " ", "=")) {
		key, nonce, _ := strings.Cut(line, "=")
		effects[key] = append(effects[key], nonce)
	}
	told := map[string][]end{}
	count, replays := 0, 0
	for one := range ends {
		told[one.Key] = append(told[one.Key], one)
		count++
		if one.Replayed {
			replays++
		}
	}
	if count != raceKeys*raceProcesses*raceLanes || replays <= 4*raceKeys {
		t.Errorf("%d ends, %d replays", count, replays)
	}
	for index := 0; index < raceKeys; index++ {
		key := fmt.Sprintf("key-%d", index)
		if len(effects[key]) > 1 {
			t.Errorf("%s has the effects %v", key, effects[key])
		}
		for _, one := range told[key] {
			// A caller may be told a doubt that the late report of the first one ends.
			if one.End == "done" && (index%7 == 0 || len(effects[key]) == 0 || one.By != effects[key][0]) {
				t.Errorf("%s with the effects %v ended as %+v", key, effects[key], one)
			}
		}
	}
}
