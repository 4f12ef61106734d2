// Package semel calls Semel's claim API: one business key, one effect, or a visible record that says why not.
//
//	client, err := semel.New("http://127.0.0.1:8181", "")
//	receipt, err := semel.Once(ctx, client, "charge", "payment-1",
//		func(ctx context.Context, op *semel.Operation) (Charge, error) { return charge(ctx, op.IdempotencyKey) }, nil)
//
// One file, the standard library alone, Go 1.19 and later. Numbers keep their digits in types that hold them; in an
// `any` they are a json.Number.
package semel

import (
	"bytes"
	"context"
	cryptorand "crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"math/rand"
	"net/http"
	"net/url"
	"os"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Certainty says whether an effect was applied.
type Certainty string

const (
	SurelyNotApplied Certainty = "not_applied"
	MaybeApplied     Certainty = "maybe_applied"
)

const (
	defaultLease = 30 * time.Second
	longestPause = 2 * time.Second
	// givingBack is the time for the release of a claim whose function was not called.
	givingBack = 2 * time.Second
	// unwritten is the content type of an outcome that stands for a value that is no JSON.
	unwritten = "application/vnd.semel.unwritten"
	// tooLarge is the content type of an outcome that stands for one that is too large to be sent.
	tooLarge = "application/vnd.semel.too-large"
	// largest is in bytes: a server keeps less, and takes more.
	largest = 2 << 20
)

// The kinds of an Error, for errors.Is.
var (
	// ErrBusy: another caller runs this key, or its next attempt is not due yet. Ask again after RetryAfter.
	ErrBusy = errors.New("busy")
	// ErrConflict: the key was used with another fingerprint. The outcome on record is not shown.
	ErrConflict = errors.New("conflict")
	// ErrStale: the entity has this version or a later one, Applied.
	ErrStale = errors.New("stale")
	// ErrIllegal: the entity's state does not allow this change.
	ErrIllegal = errors.New("illegal")
	// ErrTooOld: there is no record, and the request is older than the window.
	ErrTooOld = errors.New("too old")
	// ErrParked: nothing runs this key until a person decides; State says why. ErrInDoubt and ErrDead are parked, too.
	ErrParked = errors.New("parked")
	// ErrInDoubt: the effect was started, and nobody knows whether it happened.
	ErrInDoubt = errors.New("in doubt")
	// ErrDead: the effect failed for good, or is out of attempts.
	ErrDead = errors.New("dead")
	// ErrClaimLost: another caller owns the operation now, the effect outlived its lease.
	ErrClaimLost = errors.New("claim lost")
	// ErrUnrecorded: the function ran, and its result could not be recorded.
	ErrUnrecorded = errors.New("unrecorded")
	// ErrUnreadable: the effect happened, and its outcome is no JSON, or does not fit the type that was asked for.
	ErrUnreadable = errors.New("unreadable")
	// ErrUnavailable: Semel gave no answer for as long as this client asks again.
	ErrUnavailable = errors.New("unavailable")
	// ErrRefused: Semel does not accept the request, see Code and Status.
	ErrRefused = errors.New("refused")
)

// Error is the reason why a call has no outcome.
type Error struct {
	// Kind is one of the errors above.
	Kind   error
	Detail string
	// Certainty says whether the effect was applied.
	Certainty   Certainty
	Code        string
	Status      int
	OperationID string
	// Pointer is the member of the request that a refusal is about.
	Pointer string
	// Ran is true if this call ran the function to its end; then Result is what it returned.
	Ran        bool
	Result     any
	RetryAfter time.Duration
	Until      string
	Applied    uint64
	State      string
	Cause      error
}

func (e *Error) Error() string { return "semel: " + e.Kind.Error() + ": " + e.Detail }

func (e *Error) Unwrap() error { return e.Cause }

// Is tells whether the error is of that kind.
func (e *Error) Is(target error) bool {
	return e.Kind == target || (target == ErrParked && (e.Kind == ErrInDoubt || e.Kind == ErrDead))
}

// NotAppliedError says that the effect surely did not happen; another attempt may follow. To a function that calls Once
// itself, the error of that call is an error like any other.
type NotAppliedError struct {
	Err error
	// NotBefore, if set, keeps the key busy until then.
	NotBefore time.Time
}

func (e *NotAppliedError) Error() string { return said(e.Err, "not applied") }

func (e *NotAppliedError) Unwrap() error { return e.Err }

// NotApplied returns the error with which a function says that the effect surely did not happen.
func NotApplied(err error) error { return &NotAppliedError{Err: err} }

// FailedError fails the operation for good: it is dead, or in doubt if the effect may have happened.
type FailedError struct {
	Err error
	// Certainty is MaybeApplied unless it is set.
	Certainty Certainty
	// Decisive says that neither this attempt nor an earlier one was applied: only an answer from behind the provider's
	// own look-up of the idempotency key is. With MaybeApplied it contradicts itself, and counts as a maybe.
	Decisive bool
}

func (e *FailedError) Error() string { return said(e.Err, "failed") }

func (e *FailedError) Unwrap() error { return e.Err }

// Failed returns the error with which a function fails the operation for good.
func Failed(err error, certainty Certainty) error {
	return &FailedError{Err: err, Certainty: certainty}
}

func said(err error, otherwise string) string {
	if err == nil {
		return otherwise
	}
	return err.Error()
}

// reportedError is what an operation made of a NotAppliedError or FailedError: of an outer one it says nothing.
type reportedError struct{ err error }

func (e *reportedError) Error() string { return e.err.Error() }

func (e *reportedError) Unwrap() error { return e.err }

// declared finds the NotAppliedError or FailedError with which a function speaks for its own operation, not for an inner
// one. Of several joined errors none speaks for all.
func declared(err error) error {
	for err != nil {
		switch err.(type) {
		case *NotAppliedError, *FailedError:
			return err
		case *reportedError:
			return nil
		}
		inner, ok := err.(interface{ Unwrap() error })
		if !ok {
			return nil
		}
		err = inner.Unwrap()
	}
	return nil
}

// Operation is the operation as its function sees it.
type Operation struct {
	Claim string
	// IdempotencyKey is the same on every attempt: pass it on to whatever you call.
	IdempotencyKey string
	OperationID    string
	Attempt        int
	FencingToken   uint64
	// PossibleRepeat is true if an earlier attempt may have applied the effect.
	PossibleRepeat bool
	Takeover       bool

	lost     chan struct{}
	loseOnce sync.Once
}

// Lost is closed when another caller owns the operation: a function that can stop should.
func (o *Operation) Lost() <-chan struct{} { return o.lost }

// Receipt is the outcome of an operation, from this run or from the record.
type Receipt[T any] struct {
	Outcome T
	// Text is the outcome as the record has it, for a replay.
	Text json.RawMessage
	// Replayed is true if the outcome comes from the record; Duplicate is then own, redelivery, republish or unknown.
	Replayed       bool
	Duplicate      string
	OperationID    string
	CompletedAt    string
	Attempt        int
	PossibleRepeat bool
	ContentType    string
	// Kept is false if the outcome was too large to be kept: the effect happened, and a replay has no Outcome.
	Kept bool
}

// Options of a claim. What is empty is not sent, except that Once has a lease of 30 seconds and the class unkeyed, or
// keyed where there is a ProviderWindow; an unkeyed doubt is parked.
type Options struct {
	Fingerprint    any
	Tenant         string
	Transport      string
	Birth          time.Time
	Lease          time.Duration
	Window         time.Duration
	Wait           time.Duration
	Class          string
	ProviderWindow time.Duration
	OnDoubt        string
	Entity         any
	Version        uint64
	// ClaimID is made anew for each call if it is empty.
	ClaimID string
}

// ClaimRequest is one claim of a batch. The key is a string, an integer, a *big.Int or a json.Number.
type ClaimRequest struct {
	Operation string
	Key       any
	Options   Options
}

// Decision is the answer to a claim. In a batch it may be a problem, and then has a Code.
type Decision struct {
	Decision        string          `json:"decision"`
	Claim           string          `json:"claim"`
	IdempotencyKey  string          `json:"idempotency_key"`
	OperationID     string          `json:"operation_id"`
	Token           uint64          `json:"token"`
	Attempt         int             `json:"attempt"`
	LeaseUntil      string          `json:"lease_until"`
	Takeover        bool            `json:"takeover"`
	Resumed         bool            `json:"resumed"`
	PossibleRepeat  bool            `json:"possible_repeat"`
	Outcome         json.RawMessage `json:"outcome"`
	OutcomeBytes    []byte          `json:"outcome_base64"`
	ContentType     string          `json:"content_type"`
	OutcomeTooLarge bool            `json:"outcome_too_large"`
	CompletedAt     string          `json:"completed_at"`
	Duplicate       string          `json:"duplicate"`
	Until           string          `json:"until"`
	RetryAfterMS    int64           `json:"retry_after_ms"`
	Applied         uint64          `json:"applied"`
	State           string          `json:"state"`
	Certainty       Certainty       `json:"certainty"`
	Code            string          `json:"code"`
	Status          int             `json:"status"`
	Detail          string          `json:"detail"`
}

// Settlement is one step of a batch: renew, start, complete, release or fail.
type Settlement struct {
	Claim        string          `json:"claim,omitempty"`
	Step         string          `json:"step,omitempty"`
	Lease        string          `json:"lease,omitempty"`
	Outcome      json.RawMessage `json:"outcome,omitempty"`
	OutcomeBytes *[]byte         `json:"outcome_base64,omitempty"`
	ContentType  string          `json:"content_type,omitempty"`
	Window       string          `json:"window,omitempty"`
	Error        string          `json:"error,omitempty"`
	NotBefore    *time.Time      `json:"not_before,omitempty"`
	Certainty    Certainty       `json:"certainty,omitempty"`
	Decisive     bool            `json:"decisive,omitempty"`
}

// Settled is the answer to a step. In a batch it may be a problem, and then has a Code.
type Settled struct {
	State      string `json:"state"`
	LeaseUntil string `json:"lease_until"`
	Code       string `json:"code"`
	Status     int    `json:"status"`
	Detail     string `json:"detail"`
}

// Semel is a client of one server. It is safe for concurrent use.
type Semel struct {
	// Timeout is the time to wait for one answer, RetryFor the time for which a lost one is asked for again. Set them,
	// and HTTP, before the first call.
	Timeout  time.Duration
	RetryFor time.Duration
	HTTP     *http.Client
	// Warn is told about renewals and releases that failed; it is empty unless it is set.
	Warn func(message string, err error)

	url, token string
}

// New returns a client. The address defaults to the variable SEMEL_URL, the token to SEMEL_TOKEN.
func New(address, token string) (*Semel, error) {
	if address == "" {
		address = os.Getenv("SEMEL_URL")
	}
	if token == "" {
		token = os.Getenv("SEMEL_TOKEN")
	}
	// What is refused is not printed: it may have a secret in it.
	address, token = strings.TrimSpace(address), strings.TrimSpace(token)
	parsed, err := url.Parse(address)
	isHTTP := err == nil && (parsed.Scheme == "http" || parsed.Scheme == "https") && parsed.Host != ""
	if !isHTTP || !isVisible(address) {
		return nil, errors.New("semel: the URL is missing or is not http(s): pass it, or set SEMEL_URL")
	}
	if parsed.User != nil {
		return nil, errors.New("semel: the URL has credentials in it: pass the token by itself")
	}
	if !isVisible(token) {
		return nil, errors.New("semel: the token has a character that is no visible ASCII")
	}
	transport := http.DefaultTransport
	if shared, ok := transport.(*http.Transport); ok {
		own := shared.Clone()
		own.MaxIdleConnsPerHost = 64
		transport = own
	}
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &Semel{
		Timeout:  10 * time.Second,
		RetryFor: 30 * time.Second,
		HTTP:     &http.Client{Transport: transport, CheckRedirect: stay},
		url:      strings.TrimRight(address, "/"),
		token:    token,
	}, nil
}

func isVisible(text string) bool {
	return strings.IndexFunc(text, func(it rune) bool { return it <= ' ' || it > '~' }) < 0
}

// Once runs the function unless the effect of the key happened before, and returns its outcome.
//
// The key is a string, an integer, a *big.Int or a json.Number. An error of the function releases the key, as "maybe
// applied" unless it is NotApplied, and is returned as it is, or wrapped where it is NotApplied or Failed; every other
// error is an *Error. The claim ends with the function, whether or not ctx does.
func Once[T any](
	ctx context.Context, s *Semel, operation string, key any,
	function func(ctx context.Context, op *Operation) (T, error), options *Options,
) (Receipt[T], error) {
	begun, replay, err := s.begin(ctx, operation, key, options)
	if err != nil {
		return Receipt[T]{}, err
	}
	if replay != nil {
		return replayed[T](replay)
	}
	ended := false
	defer func() {
		if !ended {
			begun.failed(errors.New("the function panicked"))
		}
	}()
	value, err := function(context.WithValue(ctx, operationKey{}, begun.operation), begun.operation)
	ended = true
	if err != nil {
		begun.failed(err)
		if declared(err) != nil {
			err = &reportedError{err}
		}
		return Receipt[T]{}, err
	}
	kept, err := begun.done(value)
	if err != nil {
		return Receipt[T]{}, err
	}
	op := begun.operation
	return Receipt[T]{
		Outcome: value, OperationID: op.OperationID, Attempt: op.Attempt, PossibleRepeat: op.PossibleRepeat, Kept: kept,
	}, nil
}

type operationKey struct{}

// OperationOf returns the operation that ctx belongs to, or nil.
func OperationOf(ctx context.Context) *Operation {
	op, _ := ctx.Value(operationKey{}).(*Operation)
	return op
}

// Claim asks for a claim. No class in the options means none.
func (s *Semel) Claim(ctx context.Context, operation string, key any, options *Options) (*Decision, error) {
	body, wait, err := claimed(operation, key, options)
	if err != nil {
		return nil, err
	}
	decision, _, err := s.claim(ctx, body, wait, 0)
	return decision, err
}

// ClaimBatch asks for at most 1,000 claims; the answers come in their order.
func (s *Semel) ClaimBatch(ctx context.Context, claims []ClaimRequest) ([]Decision, error) {
	requests := make([]map[string]any, len(claims))
	for index, claim := range claims {
		request, err := requested(claim.Operation, claim.Key, &claim.Options)
		if err != nil {
			return nil, err
		}
		requests[index] = request
	}
	var answers struct{ Answers []Decision }
	err := s.accepted(ctx, "/v1/claims/batch", map[string]any{"claims": requests}, 0, 0, &answers)
	return answers.Answers, err
}

// Renew extends the lease of a claim, counted from now.
func (s *Semel) Renew(ctx context.Context, claim string, lease time.Duration) (*Settled, error) {
	return s.step(ctx, claim, "renew", Settlement{Lease: wire(lease)}, 0)
}

// Start marks the effect of a claim without a class as about to be sent.
func (s *Semel) Start(ctx context.Context, claim string) (*Settled, error) {
	return s.step(ctx, claim, "start", Settlement{}, 0)
}

// Complete reports that the effect happened. The outcome is JSON, or a []byte. A window of 0 is that of the claim.
func (s *Semel) Complete(ctx context.Context, claim string, outcome any, window time.Duration) (*Settled, error) {
	step, err := outcomeOf(outcome)
	if err != nil {
		return nil, err
	}
	if window > 0 {
		step.Window = wire(window)
	}
	return s.step(ctx, claim, "complete", step, 0)
}

// Release reports an attempt that ended without a result; another may follow, not before an instant if one is given.
func (s *Semel) Release(
	ctx context.Context, claim, reason string, certainty Certainty, notBefore time.Time,
) (*Settled, error) {
	return s.step(ctx, claim, "release", released(reason, certainty, notBefore, false), 0)
}

// Fail reports that no other attempt shall follow. An empty certainty is MaybeApplied, or SurelyNotApplied if it is
// decisive.
func (s *Semel) Fail(
	ctx context.Context, claim, reason string, certainty Certainty, decisive bool,
) (*Settled, error) {
	certainty, err := certaintyOf(certainty, decisive)
	if err != nil {
		return nil, err
	}
	return s.step(ctx, claim, "fail", released(reason, certainty, time.Time{}, decisive), 0)
}

// SettleBatch reports at most 1,000 steps; the answers come in their order.
func (s *Semel) SettleBatch(ctx context.Context, settlements []Settlement) ([]Settled, error) {
	var answers struct{ Answers []Settled }
	body := map[string]any{"settlements": settlements}
	err := s.accepted(ctx, "/v1/settle/batch", body, 0, 0, &answers)
	return answers.Answers, err
}

// Operation returns the record of a key, or nil if there is none. The tenant may be empty.
func (s *Semel) Operation(ctx context.Context, operation string, key any, tenant string) (map[string]any, error) {
	text, err := spelled(key)
	if err != nil {
		return nil, err
	}
	query := url.Values{"operation": {operation}, "key": {text}}
	if tenant != "" {
		query.Set("tenant", tenant)
	}
	answer, err := s.ask(ctx, http.MethodGet, "/v1/operations?"+query.Encode(), nil, 0, 0)
	if err != nil {
		return nil, err
	}
	if answer.status == http.StatusNotFound && answer.problem.Code == "key-unknown" {
		return nil, nil
	}
	var record map[string]any
	return record, answer.into(&record)
}

func (s *Semel) begin(
	ctx context.Context, operation string, key any, options *Options,
) (*attempt, *Decision, error) {
	asked := Options{}
	if options != nil {
		asked = *options
	}
	if asked.Lease == 0 {
		asked.Lease = defaultLease
	}
	if asked.Class == "" {
		asked.Class = "unkeyed"
		if asked.ProviderWindow > 0 {
			asked.Class = "keyed"
		}
	}
	if asked.Class == "unkeyed" && asked.OnDoubt == "" {
		asked.OnDoubt = "park"
	}
	body, wait, err := claimed(operation, key, &asked)
	if err != nil {
		return nil, nil, err
	}
	spelled, _ := written(key)
	name := operation + " " + string(spelled)
	if ctx.Err() != nil {
		return nil, nil, cancelled(ctx)
	}
	decision, answer, err := s.claim(ctx, body, wait, 0)
	if err != nil {
		if ctx.Err() != nil {
			// The claim may be granted, and nobody would run it.
			go s.giveBack(name, body, wait)
		}
		return nil, nil, err
	}
	if decision.Decision == "replay" {
		return nil, decision, nil
	}
	if decision.Decision != "granted" {
		return nil, nil, refusal(decision)
	}
	begun := &attempt{
		client: s,
		name:   name,
		lease:  asked.Lease,
		// A claim that is resumed was granted to an earlier request, and so was its lease.
		askedAt: answer.sentAt,
		ended:   make(chan struct{}),
		operation: &Operation{
			Claim: decision.Claim, IdempotencyKey: decision.IdempotencyKey, OperationID: decision.OperationID,
			Attempt: decision.Attempt, FencingToken: decision.Token, PossibleRepeat: decision.PossibleRepeat,
			Takeover: decision.Takeover, lost: make(chan struct{}),
		},
	}
	if decision.Resumed {
		begun.askedAt = answer.firstSentAt
	}
	if err := begun.begin(); err != nil {
		return nil, nil, err
	}
	if ctx.Err() != nil {
		begun.giveUp("release", nothingRan, givingBack)
		return nil, nil, cancelled(ctx)
	}
	return begun, nil, nil
}

func cancelled(ctx context.Context) *Error {
	return &Error{Kind: ErrUnavailable, Certainty: SurelyNotApplied, Cause: ctx.Err(), Detail: "cancelled before it ran"}
}

// nothingRan releases a claim whose function was not called.
var nothingRan = released("nothing ran", SurelyNotApplied, time.Time{}, false)

// giveBack asks for a claim again whose answer nobody waited for, and releases it.
func (s *Semel) giveBack(name string, body []byte, wait time.Duration) {
	within := s.RetryFor
	if within < givingBack {
		within = givingBack
	}
	decision, _, err := s.claim(context.Background(), body, wait, within)
	if err == nil && decision.Decision == "granted" {
		_, err = s.step(context.Background(), decision.Claim, "release", nothingRan, within)
	}
	if err != nil {
		s.warn(name+": a claim that nobody waits for is not released", err)
	}
}

// claimed returns the body of a claim, and the time that the server may wait.
func claimed(operation string, key any, options *Options) ([]byte, time.Duration, error) {
	request, err := requested(operation, key, options)
	if err != nil {
		return nil, 0, err
	}
	body, err := written(request)
	if options == nil {
		return body, 0, err
	}
	return body, options.Wait, err
}

func (s *Semel) claim(
	ctx context.Context, body []byte, wait, within time.Duration,
) (*Decision, *answer, error) {
	answer, err := s.ask(ctx, http.MethodPost, "/v1/claims", body, wait, within)
	if err != nil {
		return nil, nil, err
	}
	decision := &Decision{}
	return decision, answer, answer.into(decision)
}

func (s *Semel) step(
	ctx context.Context, claim, step string, body Settlement, within time.Duration,
) (*Settled, error) {
	settled := &Settled{}
	path := "/v1/claims/" + url.PathEscape(claim) + "/" + step
	return settled, s.accepted(ctx, path, body, 0, within, settled)
}

func (s *Semel) accepted(
	ctx context.Context, path string, body any, extra, within time.Duration, into any,
) error {
	text, err := written(body)
	if err != nil {
		return err
	}
	answer, err := s.ask(ctx, http.MethodPost, path, text, extra, within)
	if err != nil {
		return err
	}
	return answer.into(into)
}

// ask asks until there is an answer, or until the time for asking again is over. Every call may be repeated. Extra is
// what the server may wait; a call that has to end within a time has no more for one answer, and 0 is no such time.
func (s *Semel) ask(
	ctx context.Context, method, path string, body []byte, extra, within time.Duration,
) (*answer, error) {
	// A request that cannot be built is a fault of the caller, and is not asked again.
	if _, err := http.NewRequest(method, s.url+path, nil); err != nil {
		return nil, err
	}
	firstSentAt := time.Now()
	timeout, until := s.Timeout, time.Time{}
	if within > 0 {
		timeout, until = min(s.Timeout, within), firstSentAt.Add(within)
	}
	pause := 50 * time.Millisecond
	for {
		found, err := s.askOnce(ctx, method, path, body, timeout+extra)
		if err == nil && !found.isPassing() {
			found.firstSentAt = firstSentAt
			return found, nil
		}
		unavailable := &Error{Kind: ErrUnavailable, Certainty: SurelyNotApplied, Cause: err, Detail: "no answer"}
		hint, hinted := time.Duration(0), false
		if err == nil {
			hint, hinted = retryAfter(found.header.Get("Retry-After"))
			unavailable.Status, unavailable.Code, unavailable.Detail = found.status, found.problem.Code, found.why()
			unavailable.RetryAfter = hint
		} else {
			unavailable.Detail = err.Error()
		}
		wait := hint + upTo(min(hint/8, time.Second))
		if !hinted {
			wait = pause/2 + upTo(pause/2)
			pause = min(2*pause, longestPause)
		}
		if until.IsZero() {
			until = time.Now().Add(s.RetryFor)
		}
		if time.Now().Add(wait).After(until) || ctx.Err() != nil {
			return nil, unavailable
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			unavailable.Cause = ctx.Err()
			return nil, unavailable
		}
	}
}

func (s *Semel) askOnce(
	ctx context.Context, method, path string, body []byte, timeout time.Duration,
) (*answer, error) {
	sentAt := time.Now()
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, s.url+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Accept", "application/json")
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	if s.token != "" {
		request.Header.Set("Authorization", "Bearer "+s.token)
	}
	response, err := s.HTTP.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	found := &answer{status: response.StatusCode, header: response.Header, text: text, sentAt: sentAt}
	// Who refuses without JSON is not Semel, and refuses all the same.
	if err := json.Unmarshal(text, &found.problem); err != nil && found.status == http.StatusOK {
		return nil, fmt.Errorf("the answer is no JSON: %w", err)
	}
	return found, nil
}

func (s *Semel) warn(message string, err error) {
	if s.Warn != nil {
		s.Warn(message, err)
	}
}

type answer struct {
	status              int
	header              http.Header
	text                []byte
	firstSentAt, sentAt time.Time
	problem             struct {
		Code        string `json:"code"`
		Detail      string `json:"detail"`
		OperationID string `json:"operation_id"`
		Pointer     string `json:"pointer"`
	}
}

// isPassing tells whether the same request may get another answer soon. A problem with status 500 stays.
func (a *answer) isPassing() bool {
	switch a.status {
	case http.StatusRequestTimeout, http.StatusTooManyRequests:
		return true
	case http.StatusNotImplemented:
		return false
	case http.StatusInternalServerError:
		return a.problem.Code == ""
	}
	return a.status >= 500
}

func (a *answer) why() string {
	why := strings.TrimSpace(fmt.Sprintf("%d %s %s", a.status, a.problem.Code, a.problem.Detail))
	if a.problem.Pointer != "" {
		why += " (at " + a.problem.Pointer + ")"
	}
	return why
}

func (a *answer) into(value any) error {
	if a.status == http.StatusOK {
		decoder := json.NewDecoder(bytes.NewReader(a.text))
		decoder.UseNumber()
		return decoder.Decode(value)
	}
	told := &Error{
		Kind: ErrRefused, Certainty: SurelyNotApplied, Detail: a.why(), Code: a.problem.Code, Status: a.status,
		OperationID: a.problem.OperationID, Pointer: a.problem.Pointer,
	}
	if a.status == http.StatusInternalServerError {
		// What a record that cannot be read would say, nobody knows.
		told.Certainty = MaybeApplied
	}
	if told.Code == "claim-lost" {
		told.Kind, told.Certainty = ErrClaimLost, MaybeApplied
	}
	return told
}

// attempt is a claim that was granted: its lease is renewed until it is settled.
type attempt struct {
	client    *Semel
	name      string
	operation *Operation
	lease     time.Duration
	askedAt   time.Time
	ended     chan struct{}
	endOnce   sync.Once
}

// begin renews first if a third of the lease is over, so that the effect does not begin at its end.
func (a *attempt) begin() error {
	if time.Since(a.askedAt) >= a.lease/3 {
		if err := a.renew(a.lease); err != nil {
			if !errors.Is(err, ErrClaimLost) {
				a.giveUp("release", nothingRan, givingBack)
			}
			var told *Error
			if errors.As(err, &told) {
				told.Certainty = SurelyNotApplied
			}
			return err
		}
	}
	go a.keep()
	return nil
}

func (a *attempt) keep() {
	wait := time.Until(a.askedAt.Add(a.lease / 3))
	for {
		timer := time.NewTimer(wait)
		select {
		case <-a.ended:
			timer.Stop()
			return
		case <-timer.C:
		}
		err := a.renew(a.lease / 3)
		wait = time.Until(a.askedAt.Add(a.lease / 3))
		if errors.Is(err, ErrClaimLost) {
			return
		}
		if err != nil {
			a.client.warn(a.name+": a lease is not renewed", err)
			wait = min(a.lease/10, longestPause)
		}
	}
}

func (a *attempt) renew(within time.Duration) error {
	sentAt := time.Now()
	lease := Settlement{Lease: wire(a.lease)}
	_, err := a.client.step(context.Background(), a.operation.Claim, "renew", lease, within)
	if errors.Is(err, ErrClaimLost) {
		a.operation.loseOnce.Do(func() { close(a.operation.lost) })
	}
	if err == nil {
		a.askedAt = sentAt
	}
	return err
}

func (a *attempt) end() { a.endOnce.Do(func() { close(a.ended) }) }

// done completes with the value of the function, and tells whether it is kept.
func (a *attempt) done(value any) (bool, error) {
	a.end()
	var step Settlement
	var fault error
	kept := true
	if panicked := safely(func() { step, fault = outcomeOf(value) }); panicked != nil {
		fault = panicked
	}
	if fault != nil {
		step = marked(unwritten, textOf(fault))
	} else if len(step.Outcome) > largest || (step.OutcomeBytes != nil && len(*step.OutcomeBytes) > largest/4*3) {
		step, kept = marked(tooLarge, "too large"), false
	}
	err := a.complete(step, value)
	var told *Error
	if errors.As(err, &told) && told.Kind == ErrUnrecorded {
		// The effect happened: that is recorded even if its outcome cannot be.
		switch told.Status {
		case http.StatusRequestEntityTooLarge:
			kept, err = false, a.complete(marked(tooLarge, "too large"), value)
		case http.StatusBadRequest:
			fault, err = told, a.complete(marked(unwritten, told.Error()), value)
		}
	}
	if err == nil && fault != nil {
		err = &Error{
			Kind: ErrUnreadable, Certainty: MaybeApplied, Detail: "the outcome is no JSON", Cause: fault, Ran: true,
			Result: value, OperationID: a.operation.OperationID,
		}
	}
	return kept, err
}

// marked returns the outcome that stands for one that cannot be recorded.
func marked(contentType, said string) Settlement {
	raw := []byte(said)
	return Settlement{OutcomeBytes: &raw, ContentType: contentType}
}

// complete reports an effect that happened; an error carries the value.
func (a *attempt) complete(step Settlement, value any) error {
	a.end()
	_, err := a.client.step(context.Background(), a.operation.Claim, "complete", step, 0)
	if err == nil {
		return nil
	}
	told := &Error{
		Kind: ErrUnrecorded, Certainty: MaybeApplied, Cause: err, OperationID: a.operation.OperationID,
		Detail: "the effect ran, and its outcome is not recorded: " + err.Error(), Ran: true, Result: value,
	}
	var why *Error
	if errors.As(err, &why) {
		told.Code, told.Status, told.Pointer = why.Code, why.Status, why.Pointer
		if why.Kind == ErrClaimLost {
			told.Kind, told.Detail = ErrClaimLost, why.Detail
		}
	}
	return told
}

// failed releases or fails the operation; the caller returns the error itself.
func (a *attempt) failed(err error) {
	a.end()
	reason := textOf(err)
	step, body := "release", released(reason, MaybeApplied, time.Time{}, false)
	switch said := declared(err).(type) {
	case *NotAppliedError:
		body = released(reason, SurelyNotApplied, said.NotBefore, false)
		if _, fault := written(body); fault != nil {
			a.client.warn(a.name+": a time is not reported", fault)
			body.NotBefore = nil
		}
	case *FailedError:
		certainty, fault := certaintyOf(said.Certainty, said.Decisive)
		if fault != nil {
			a.client.warn(a.name+": a failure is not reported as it was said", fault)
		}
		step, body = "fail", released(reason, certainty, time.Time{}, said.Decisive && fault == nil)
	}
	a.giveUp(step, body, 0)
}

// giveUp reports an attempt without an outcome. What cannot be reported is left to the end of the lease.
func (a *attempt) giveUp(step string, body Settlement, within time.Duration) {
	a.end()
	if _, err := a.client.step(context.Background(), a.operation.Claim, step, body, within); err != nil {
		a.client.warn(a.name+": the end of an attempt is not recorded", err)
	}
}

// certaintyOf returns the certainty of a failure; one that contradicts itself is a maybe, and an error.
func certaintyOf(certainty Certainty, decisive bool) (Certainty, error) {
	switch {
	case certainty == "" && decisive:
		return SurelyNotApplied, nil
	case certainty == "":
		return MaybeApplied, nil
	case certainty != SurelyNotApplied && certainty != MaybeApplied:
		return MaybeApplied, errors.New("semel: a certainty is not_applied or maybe_applied")
	case decisive && certainty != SurelyNotApplied:
		return MaybeApplied, errors.New("semel: what is decisive was not applied")
	}
	return certainty, nil
}

// safely runs code of the caller's, whose panic is an error.
func safely(run func()) (err error) {
	defer func() {
		if panicked := recover(); panicked != nil {
			err = errors.New("it panicked")
		}
	}()
	run()
	return nil
}

func textOf(err error) string {
	text := "an error without a text"
	_ = safely(func() { text = err.Error() })
	return text
}

func replayed[T any](decision *Decision) (Receipt[T], error) {
	receipt := Receipt[T]{
		Text: decision.Outcome, Replayed: true, Duplicate: decision.Duplicate, OperationID: decision.OperationID,
		CompletedAt: decision.CompletedAt, ContentType: decision.ContentType,
		Kept: !decision.OutcomeTooLarge && decision.ContentType != tooLarge,
	}
	unreadable := func(detail string, cause error) (Receipt[T], error) {
		return receipt, &Error{
			Kind: ErrUnreadable, Certainty: MaybeApplied, Detail: detail, Cause: cause, OperationID: decision.OperationID,
		}
	}
	if receipt.Kept && decision.OutcomeBytes != nil {
		if decision.ContentType == unwritten {
			return unreadable("the outcome is no JSON: "+string(decision.OutcomeBytes), nil)
		}
		switch into := any(&receipt.Outcome).(type) {
		case *[]byte:
			*into = decision.OutcomeBytes
		case *any:
			*into = decision.OutcomeBytes
		default:
			return unreadable("the outcome is bytes of the type "+decision.ContentType, nil)
		}
		return receipt, nil
	}
	if decision.Outcome == nil {
		return receipt, nil
	}
	decoder := json.NewDecoder(bytes.NewReader(decision.Outcome))
	decoder.UseNumber()
	if err := decoder.Decode(&receipt.Outcome); err != nil {
		return unreadable("the outcome does not fit the type that was asked for", err)
	}
	return receipt, nil
}

func refusal(decision *Decision) *Error {
	told := &Error{Certainty: SurelyNotApplied, Code: decision.Decision, OperationID: decision.OperationID}
	certainty := MaybeApplied
	if decision.Certainty == SurelyNotApplied {
		certainty = SurelyNotApplied
	}
	switch decision.Decision {
	case "busy":
		told.Kind, told.Detail = ErrBusy, "another caller runs this key"
		told.RetryAfter, told.Until = time.Duration(decision.RetryAfterMS)*time.Millisecond, decision.Until
	case "conflict":
		told.Kind, told.Detail = ErrConflict, "the key was used with another fingerprint"
	case "stale":
		told.Kind, told.Detail = ErrStale, "the entity has this version or a later one"
		told.Applied = decision.Applied
	case "illegal":
		told.Kind, told.Detail = ErrIllegal, "the entity's state does not allow this change"
	case "too_old":
		told.Kind, told.Detail, told.Certainty = ErrTooOld, "the request is older than the window", certainty
	case "parked":
		told.Kind, told.Detail, told.State = ErrParked, "the operation is parked: "+decision.State, decision.State
		told.Certainty = certainty
		switch decision.State {
		case "in_doubt":
			told.Kind, told.Code, told.Detail = ErrInDoubt, "in-doubt", "nobody knows whether the effect happened"
		case "dead":
			told.Kind, told.Code, told.Detail = ErrDead, "dead", "the effect failed for good, or is out of attempts"
		}
	default:
		told.Kind, told.Detail = ErrRefused, "this client does not know the decision "+decision.Decision
	}
	return told
}

func requested(operation string, key any, options *Options) (map[string]any, error) {
	number, err := keyOf(key)
	if err != nil {
		return nil, err
	}
	if options == nil {
		options = &Options{}
	}
	request := map[string]any{"operation": operation, "key": number, "claim_id": options.ClaimID}
	if options.ClaimID == "" {
		id := make([]byte, 16)
		if _, err := cryptorand.Read(id); err != nil {
			return nil, err
		}
		request["claim_id"] = hex.EncodeToString(id)
	}
	set := func(name string, isSet bool, value any) {
		if isSet {
			request[name] = value
		}
	}
	set("fingerprint", options.Fingerprint != nil, options.Fingerprint)
	set("tenant", options.Tenant != "", options.Tenant)
	set("transport", options.Transport != "", options.Transport)
	set("birth", !options.Birth.IsZero(), options.Birth.UTC())
	set("lease", options.Lease != 0, wire(options.Lease))
	set("window", options.Window != 0, wire(options.Window))
	set("wait", options.Wait != 0, wire(options.Wait))
	set("class", options.Class != "", options.Class)
	set("provider_window", options.ProviderWindow != 0, wire(options.ProviderWindow))
	set("on_doubt", options.OnDoubt != "", options.OnDoubt)
	set("entity", options.Entity != nil, options.Entity)
	set("version", options.Entity != nil, options.Version)
	return request, nil
}

// keyOf returns the key as JSON has it, a string or a number.
func keyOf(key any) (any, error) {
	switch key := key.(type) {
	case string, int, int8, int16, int32, int64, uint, uint8, uint16, uint32, uint64, json.Number:
		return key, nil
	case *big.Int:
		return json.Number(key.String()), nil
	}
	return nil, fmt.Errorf("semel: a key is a string, an integer, a *big.Int or a json.Number, not a %T", key)
}

// spelled returns the key as the command line has it: a number is `json:1`, and a string that begins so is quoted.
func spelled(key any) (string, error) {
	value, err := keyOf(key)
	if err != nil {
		return "", err
	}
	if text, ok := value.(string); ok && !strings.HasPrefix(text, "json:") {
		return text, nil
	}
	text, err := written(value)
	return "json:" + string(text), err
}

func outcomeOf(value any) (Settlement, error) {
	if raw, ok := value.([]byte); ok {
		return Settlement{OutcomeBytes: &raw, ContentType: "application/octet-stream"}, nil
	}
	text, err := written(value)
	return Settlement{Outcome: text}, err
}

func released(reason string, certainty Certainty, notBefore time.Time, decisive bool) Settlement {
	line := []rune(strings.Join(strings.Fields(reason), " "))
	if len(line) > 500 {
		line = line[:500]
	}
	if len(line) == 0 {
		line = []rune("no reason was given")
	}
	step := Settlement{Error: string(line), Certainty: certainty, Decisive: decisive}
	if !notBefore.IsZero() {
		notBefore = notBefore.UTC()
		step.NotBefore = &notBefore
	}
	return step
}

// written returns JSON without the escapes that Go adds for HTML.
func written(value any) ([]byte, error) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return nil, err
	}
	return bytes.TrimRight(text.Bytes(), "\n"), nil
}

func wire(duration time.Duration) string {
	return strconv.FormatInt(duration.Milliseconds(), 10) + "ms"
}

func retryAfter(header string) (time.Duration, bool) {
	if seconds, err := strconv.ParseUint(strings.TrimSpace(header), 10, 31); err == nil {
		return time.Duration(seconds) * time.Second, true
	}
	if at, err := http.ParseTime(header); err == nil {
		if wait := time.Until(at); wait > 0 {
			return wait, true
		}
		return 0, true
	}
	return 0, false
}

var (
	chanceLock sync.Mutex
	chance     = rand.New(rand.NewSource(time.Now().UnixNano() ^ int64(os.Getpid())))
)

func upTo(most time.Duration) time.Duration {
	chanceLock.Lock()
	defer chanceLock.Unlock()
	return time.Duration(chance.Int63n(int64(most) + 1))
}

func min(one, other time.Duration) time.Duration {
	if one < other {
		return one
	}
	return other
}

// Idempotency is what middleware for net/http needs to know. What is empty has the default beside it.
type Idempotency struct {
	// Operation is the name of the operation, "http".
	Operation string
	// Methods are those that need a key to be safe: POST and PATCH.
	Methods []string
	// RequireKey refuses requests without a key.
	RequireKey bool
	// Tenant finds the tenant of a request; it answers 400 where that is empty.
	Tenant func(*http.Request) string
	// Options of the claim. Wait is 5 seconds.
	Options Options
	// Decisive are the status codes that speak for earlier attempts, too, beside 2xx.
	Decisive []int
	// MaxBody and MaxAnswer are in bytes: 1 MiB and 512 KiB.
	MaxBody, MaxAnswer int
}

type storedAnswer struct {
	Status   int         `json:"status"`
	TooLarge bool        `json:"too_large,omitempty"`
	Headers  [][2]string `json:"headers,omitempty"`
	Body     []byte      `json:"body,omitempty"`
}

var kept = map[string]bool{
	"Content-Type": true, "Content-Encoding": true, "Content-Language": true, "Content-Disposition": true,
	"Location": true, "Etag": true, "Last-Modified": true, "Link": true, "Vary": true,
}

var notAppliedStatus = map[int]bool{401: true, 403: true, 407: true, 408: true, 425: true, 429: true, 503: true}

// Middleware returns middleware for net/http: one effect for each Idempotency-Key, with the stored answer for every
// retry. Answers are held until they are recorded. A handler runs on if its client has hung up; OperationOf finds its
// operation.
func (s *Semel) Middleware(settings Idempotency) func(http.Handler) http.Handler {
	if settings.Operation == "" {
		settings.Operation = "http"
	}
	if settings.Methods == nil {
		settings.Methods = []string{http.MethodPost, http.MethodPatch}
	}
	if settings.Options.Wait == 0 {
		settings.Options.Wait = 5 * time.Second
	}
	if settings.MaxBody == 0 {
		settings.MaxBody = 1 << 20
	}
	if settings.MaxAnswer == 0 {
		settings.MaxAnswer = 512 << 10
	}
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			key, refused := settings.key(r)
			switch {
			case refused != nil:
				refused.send(w)
			case key == "":
				next.ServeHTTP(w, r)
			default:
				s.serve(w, r, next, &settings, key)
			}
		})
	}
}

func (s *Semel) serve(w http.ResponseWriter, r *http.Request, next http.Handler, settings *Idempotency, key string) {
	begun, answer := s.admit(r, settings, key)
	if begun == nil {
		answer.send(w)
		return
	}
	ended := false
	defer func() {
		if !ended {
			begun.failed(errors.New("the handler panicked"))
		}
	}()
	held := &heldAnswer{header: http.Header{}}
	ctx := context.WithValue(detached{r.Context()}, operationKey{}, begun.operation)
	next.ServeHTTP(held, r.WithContext(ctx))
	ended = true
	if held.status == 0 {
		held.status = http.StatusOK
	}
	settings.finish(begun, held).send(w)
}

// key returns the key of a request; an empty one lets it pass as it is.
func (i *Idempotency) key(r *http.Request) (string, *heldAnswer) {
	isAsked := false
	for _, method := range i.Methods {
		isAsked = isAsked || method == r.Method
	}
	if !isAsked {
		return "", nil
	}
	sent := r.Header.Values("Idempotency-Key")
	if len(sent) == 0 {
		if i.RequireKey {
			return "", problem(400, "key-missing", "the header Idempotency-Key is required", nil)
		}
		return "", nil
	}
	if len(sent) > 1 {
		return "", problem(400, "key-invalid", "the header Idempotency-Key was sent twice", nil)
	}
	key := strings.Trim(sent[0], " \t")
	if strings.HasPrefix(key, `"`) {
		unquoted, ok := unquoted(key)
		if !ok {
			return "", problem(400, "key-invalid", "the quotes of the key do not match", nil)
		}
		key = unquoted
	}
	isPrintable := strings.IndexFunc(key, func(it rune) bool { return it < ' ' || it > '~' }) < 0
	if strings.TrimSpace(key) == "" || len(key) > 255 || !isPrintable {
		return "", problem(400, "key-invalid", "a key has 1 to 255 printable ASCII characters", nil)
	}
	return key, nil
}

func unquoted(key string) (string, bool) {
	var text strings.Builder
	for at := 1; at < len(key); at++ {
		switch key[at] {
		case '"':
			return text.String(), at == len(key)-1
		case '\\':
			at++
			if at == len(key) || (key[at] != '"' && key[at] != '\\') {
				return "", false
			}
		}
		text.WriteByte(key[at])
	}
	return "", false
}

func (s *Semel) admit(r *http.Request, settings *Idempotency, key string) (*attempt, *heldAnswer) {
	options := settings.Options
	if settings.Tenant != nil {
		options.Tenant = settings.Tenant(r)
		if options.Tenant == "" {
			return nil, problem(400, "tenant-missing", "the request names no tenant", nil)
		}
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, int64(settings.MaxBody)+1))
	if err != nil {
		return nil, problem(400, "key-invalid", "the request broke off", nil)
	}
	if len(body) > settings.MaxBody {
		detail := fmt.Sprintf("a body has at most %d bytes", settings.MaxBody)
		return nil, problem(413, "body-too-large", detail, nil)
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	fingerprint := map[string]string{
		"method": r.Method, "path": r.URL.EscapedPath(), "query": r.URL.RawQuery, "body": digest(body),
	}
	if authorization := r.Header.Get("Authorization"); options.Tenant == "" && authorization != "" {
		fingerprint["authorization"] = digest([]byte(authorization))
	}
	options.Fingerprint = fingerprint
	begun, replay, err := s.begin(r.Context(), settings.Operation, key, &options)
	if err != nil {
		return nil, problemOf(err)
	}
	if begun != nil {
		return begun, nil
	}
	receipt, err := replayed[storedAnswer](replay)
	about := map[string]any{"operation_id": receipt.OperationID}
	stored := receipt.Outcome
	switch {
	case !receipt.Kept || stored.TooLarge:
		if stored.Status != 0 {
			about["original_status"] = stored.Status
		}
		return nil, problem(410, "answer-too-large", "the answer was not kept", about)
	case err != nil || stored.Status < 200 || stored.Status > 599:
		return nil, unreadable(receipt.OperationID)
	}
	again := &heldAnswer{status: stored.Status, header: http.Header{}}
	for _, pair := range stored.Headers {
		again.header.Add(pair[0], pair[1])
	}
	again.header.Set("Idempotency-Replayed", "true")
	again.body.Write(stored.Body)
	return nil, again
}

// finish records the answer before its first byte leaves, or releases the key.
func (i *Idempotency) finish(begun *attempt, held *heldAnswer) *heldAnswer {
	status := held.status
	isKeyed := i.Options.Class == "keyed" || i.Options.ProviderWindow > 0
	isNotApplied := notAppliedStatus[status] || (isKeyed && status == http.StatusConflict)
	speaksForAll := status >= 200 && status < 300
	for _, decisive := range i.Decisive {
		speaksForAll = speaksForAll || decisive == status
	}
	isOutcome := status >= 200 && status < 500 && !isNotApplied
	if !isOutcome || (begun.operation.PossibleRepeat && !speaksForAll) {
		certainty := MaybeApplied
		if isNotApplied {
			certainty = SurelyNotApplied
		}
		begun.giveUp("release", released(fmt.Sprintf("answered %d", status), certainty, time.Time{}, false), 0)
		return held
	}
	stored := storedAnswer{Status: status}
	if held.body.Len() > i.MaxAnswer {
		stored.TooLarge = true
	} else {
		stored.Body = held.body.Bytes()
		for name, values := range held.header {
			for _, value := range values {
				if kept[name] {
					stored.Headers = append(stored.Headers, [2]string{strings.ToLower(name), value})
				}
			}
		}
		sort.SliceStable(stored.Headers, func(a, b int) bool { return stored.Headers[a][0] < stored.Headers[b][0] })
	}
	text, err := written(stored)
	if err == nil {
		err = begun.complete(Settlement{Outcome: text}, nil)
	}
	if err != nil {
		return problemOf(err)
	}
	return held
}

func unreadable(operationID string) *heldAnswer {
	about := map[string]any{"certainty": MaybeApplied}
	if operationID != "" {
		about["operation_id"] = operationID
	}
	return problem(500, "outcome-unreadable", "the record of this key is no answer of HTTP", about)
}

func problemOf(err error) *heldAnswer {
	var told *Error
	if !errors.As(err, &told) {
		return problem(500, "internal", err.Error(), nil)
	}
	about := map[string]any{}
	if told.OperationID != "" {
		about["operation_id"] = told.OperationID
	}
	switch told.Kind {
	case ErrBusy:
		about["retry_after"] = told.RetryAfter
		return problem(409, "in-progress", "the first request still runs", about)
	case ErrConflict:
		return problem(422, "key-reused", "the key was used for another request", about)
	case ErrInDoubt, ErrDead, ErrParked:
		about["certainty"] = told.Certainty
		return problem(409, strings.ReplaceAll(told.State, "_", "-"), told.Detail, about)
	case ErrTooOld:
		about["certainty"] = told.Certainty
		return problem(409, "too-old", told.Detail, about)
	case ErrClaimLost:
		about["certainty"] = told.Certainty
		return problem(409, "claim-lost", told.Detail, about)
	case ErrUnrecorded:
		// 503 would say that nothing was applied.
		about["certainty"], about["retry_after"] = told.Certainty, time.Second
		return problem(500, "outcome-unrecorded", told.Detail, about)
	}
	if told.Kind == ErrUnreadable || told.Code == "outcome-unreadable" {
		return unreadable(told.OperationID)
	}
	if told.Kind == ErrRefused && told.Code == "invalid-input" {
		return problem(400, "key-invalid", told.Detail, nil)
	}
	about["certainty"], about["retry_after"] = told.Certainty, told.RetryAfter
	return problem(503, "store-unavailable", told.Detail, about)
}

func problem(status int, code, detail string, more map[string]any) *heldAnswer {
	held := &heldAnswer{status: status, header: http.Header{}}
	held.header.Set("Content-Type", "application/problem+json")
	members := map[string]any{"type": "urn:semel:problem:" + code, "code": code, "status": status, "detail": detail}
	for name, value := range more {
		if after, ok := value.(time.Duration); ok {
			seconds := int64((after + time.Second - 1) / time.Second)
			if seconds < 1 {
				seconds = 1
			}
			held.header.Set("Retry-After", strconv.FormatInt(seconds, 10))
		} else {
			members[name] = value
		}
	}
	text, err := written(members)
	if err != nil {
		held.status = http.StatusInternalServerError
	}
	held.body.Write(text)
	return held
}

// heldAnswer is an answer that waits to be recorded.
type heldAnswer struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (h *heldAnswer) Header() http.Header { return h.header }

func (h *heldAnswer) WriteHeader(status int) {
	if h.status == 0 && status >= 200 {
		h.status = status
	}
}

func (h *heldAnswer) Write(part []byte) (int, error) {
	h.WriteHeader(http.StatusOK)
	return h.body.Write(part)
}

func (h *heldAnswer) send(w http.ResponseWriter) {
	for name, values := range h.header {
		w.Header()[name] = values
	}
	w.WriteHeader(h.status)
	// A client that hung up gets its answer with the next try.
	_, _ = w.Write(h.body.Bytes())
}

func digest(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// detached has the values of a context, and does not end with it.
type detached struct{ context.Context }

func (detached) Deadline() (time.Time, bool) { return time.Time{}, false }
func (detached) Done() <-chan struct{}       { return nil }
func (detached) Err() error                  { return nil }
