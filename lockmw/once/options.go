package once

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/internal/maxhold"
	"github.com/lockbeat/lockbeat/lockmw/internal/records"
	"github.com/lockbeat/lockbeat/renewer"
)

const (
	defaultMaxAttempts = 3
	defaultKeep        = 24 * time.Hour
	defaultMaxResult   = 64 << 10
	defaultRetryIn     = time.Second
	defaultRetryUpTo   = time.Minute

	maxInput = 128 // bytes
	// maxConflicts is how often in one attempt the function's transaction may be in conflict with
	// others.
	maxConflicts = 100
)

// Option says what one [Do] does. Of two that contradict each other the later one counts. What
// can't be meant makes an error, [renewer.ErrConfig], that names the option. All callers for the
// same work should give the same.
type Option func(settings) settings

type settings struct {
	attempts   int
	keep       time.Duration
	maxResult  int
	wait       time.Duration
	retryIn    time.Duration
	retryUpTo  time.Duration
	tellErrors bool
	noRetry    bool
	uncounted  bool
	operation  string
	waiters    int
	maxHold    maxhold.Setting
	input      string
	recorder   Recorder
	recordIn   bool // it was given by RecordIn
	under      string
	isUnder    bool // even if the name is empty, which is an error
	underOpts  []lockmw.Option
	marshal    func(any) ([]byte, error)
	unmarshal  func([]byte, any) error
}

// endless is a wait without a bound: longer than processes live, and short enough to count with.
const endless = math.MaxInt64 / 4

// MaxAttempts bounds how often the work is tried, by all callers together: n,
// at least 1. Attempts that ended with their process or their lock count. Then
// everybody gets [ErrAttemptsExhausted]. Default 3.
func MaxAttempts(n int) Option {
	return func(s settings) settings { s.attempts, s.uncounted = n, false; return s }
}

// Keep is how long the record of the work is kept: its result, or that no caller is to try
// any more. After d the name is as new. For work that comes again under the same name let it
// be shorter than the time in between, and longer than an attempt takes; it can't be below
// renewer.Config.TTL. Default 24 h. Milliseconds; fractions are cut off.
func Keep(d time.Duration) Option {
	return func(s settings) settings { s.keep = d.Truncate(time.Millisecond); return s }
}

// MaxResult bounds an encoded result to n bytes, at least 1 and at most what the recorder takes in
// a record, less 1 KiB: on redisstore that is 16 MiB less 1 KiB. Work whose result is larger is
// done all the same: see [ErrResult]. Default 64 KiB.
func MaxResult(n int) Option {
	return func(s settings) settings { s.maxResult = n; return s }
}

// Wait bounds how long a call waits for others, and for a store that is down:
// then [renewer.ErrBusy] or [renewer.ErrUnavailable]. It counts from the call,
// and anew after an attempt of its own. Zero or less does not wait. Default:
// for as long as the context lives, since a caller that waits takes over.
func Wait(d time.Duration) Option {
	return func(s settings) settings { s.wait = max(d, 0); return s }
}

// MaxWaiters bounds how many callers of this process wait for the
// same work: see [lockmw.MaxWaiters]. Default: no limit.
func MaxWaiters(n int) Option {
	return func(s settings) settings { s.waiters = n; return s }
}

// MaxHold bounds how long an attempt may take, in place of renewer.Config.MaxHold: then its lock is
// lost, and another caller may begin the next attempt. Zero or less: no bound. It can't be less
// than one renewer.Config.Heartbeat. See [lockmw.MaxHold]. Default: the keeper's bound.
func MaxHold(d time.Duration) Option {
	return func(s settings) settings { s.maxHold = maxhold.Of(d); return s }
}

// RetryIn is about how long after the first attempt, if that fails, the next may begin, whichever
// caller's it is. After each further one it is twice as long, up to [RetryUpTo]. Callers that wait,
// wait for it; one that may not wait so long gets [ErrNotYet]. An attempt that ended with its
// process or its lock, or whose caller has left, makes no one wait; nor does one with [Uncounted].
// It must be positive. Default 1 s.
//
// About d means a random duration between half of d and one and a half times d, as by
// ExponentialBackOff of Google's HTTP client for Java (randomized_interval):
// https://googleapis.dev/java/google-http-client/latest/
func RetryIn(d time.Duration) Option {
	return func(s settings) settings { s.retryIn = d; return s }
}

// RetryUpTo bounds what [RetryIn] grows to: about d, and no more than a third of [Keep]. With no
// more than RetryIn it does not grow. It must be positive. Default 1 min.
func RetryUpTo(d time.Duration) Option {
	return func(s settings) settings { s.retryUpTo = d; return s }
}

// TellErrors puts the text of a function's error into the record, cut to 300 bytes: other callers
// get it in the [Error] of work that has failed, and [Look] shows it. Default: it stays in its
// process, since it may carry personal data.
func TellErrors() Option {
	return func(s settings) settings { s.tellErrors = true; return s }
}

// NoRetry ends a call whose attempt has failed, with the function's error: the caller, or what
// calls it, tries again by itself. The attempt counts. A conflict of transactions ends the call
// too, with [ErrConflict], and does not count. It is for task queues and for requests.
func NoRetry() Option {
	return func(s settings) settings { s.noRetry = true; return s }
}

// Uncounted lets the work be tried without end, and has an attempt that fails or panics leave
// nothing in the store: the next one is the first again, and may be with another [Input]. It is for
// names that clients choose, so that failures take no space. Only an attempt that ended with its
// process leaves a record, for [Keep]. Without it: [MaxAttempts].
func Uncounted() Option {
	return func(s settings) settings { s.attempts, s.uncounted = math.MaxInt32, true; return s }
}

// Operation names the work: a static name such as "invoice". Callers
// that wait read it, and telemetry shows it.
func Operation(name string) Option {
	return func(s settings) settings { s.operation = name; return s }
}

// Input ties the name to what the work is about: a call with another fingerprint than that of
// the first gets [ErrInput] instead of a result that is not its own. A hash will do: at most
// 128 bytes, without control bytes. Default: none, and then the name says it all.
func Input(fingerprint string) Option {
	return func(s settings) settings { s.input = fingerprint; return s }
}

// Codec encodes results by marshal and decodes them by unmarshal, in place of JSON. marshal
// gets a T, unmarshal a pointer to one that is zero. They may be called concurrently.
func Codec(marshal func(v any) ([]byte, error), unmarshal func(data []byte, v any) error) Option {
	return func(s settings) settings { s.marshal, s.unmarshal = marshal, unmarshal; return s }
}

// RecordIn has r keep the record of the work, in the place of the lock's own store,
// which need not keep records then. With a [Transactional] one, such as package
// sqlrecord's, the function's effects and its record are written together or not at
// all. All callers for the same work must give the same. Default: the keeper's
// store.
func RecordIn(r Recorder) Option {
	return func(s settings) settings { s.recorder, s.recordIn = r, true; return s }
}

// Under runs each attempt under the lock on another name, too, or under several: lockmw.Keys, and
// limits by lockmw.Limit. It is for work that changes what another lock protects. The lock is taken
// when the attempt is on record and before the transaction of a [Transactional] recorder begins,
// and is free when that has ended; work that is done does not wait for it. (Taken inside of the
// function it would be waited for with a connection of the database and the rows that are written,
// and be free before these are committed.)
//
// If the lock is not to be had, the call gets its error, and the attempt does not count. It is
// waited for as long as [Wait] allows, which opts may change; [MaxHold] bounds it, too. What it
// means to lose it is said in package lockmw. Two works must not be under each other's names: they
// would wait for each other. Default: none.
func Under(name string, opts ...lockmw.Option) Option {
	return func(s settings) settings {
		s.under, s.isUnder, s.underOpts = name, true, opts
		return s
	}
}

// newSettings applies the options, and names every fault in one error.
func newSettings(k *renewer.Keeper, opts []Option) (settings, error) {
	s := settings{
		attempts: defaultMaxAttempts, keep: defaultKeep, maxResult: defaultMaxResult, wait: endless,
		retryIn: defaultRetryIn, retryUpTo: defaultRetryUpTo,
		marshal: json.Marshal, unmarshal: json.Unmarshal,
	}
	for _, opt := range opts {
		s = opt(s)
	}
	var faults []error
	fault := func(format string, args ...any) {
		faults = append(faults,
			fmt.Errorf("%w: once."+format, append([]any{renewer.ErrConfig}, args...)...))
	}
	if !s.recordIn {
		beside := records.Of(k)
		if err := beside.Check(); err != nil {
			faults = append(faults, err)
		}
		s.recorder = beside
	} else if s.recorder == nil {
		fault("RecordIn has no recorder: give one such as that of sqlrecord.PostgreSQL, or leave " +
			"it out for the keeper's store")
	}
	if s.attempts < 1 {
		fault("MaxAttempts is %d: give at least 1, or leave it out for %d", s.attempts,
			defaultMaxAttempts)
	}
	if ttl := k.Config().TTL; s.keep < ttl {
		fault("Keep is %v, less than the lock's TTL (%v): an attempt that dies would be "+
			"forgotten before anybody could take over; "+
			"give more, or leave it out for %v", s.keep, ttl, defaultKeep)
	}
	if err := s.maxHold.Check(k); err != nil {
		faults = append(faults, err)
	}
	if s.maxResult < 1 {
		fault("MaxResult is %d: give a number of bytes, or leave it out for %d", s.maxResult,
			defaultMaxResult)
	}
	if most := mostResult(s.recorder); s.maxResult > most {
		fault("MaxResult is %d, more than the recorder takes (%d): store a large result "+
			"elsewhere, and return a reference to it", s.maxResult, most)
	}
	if s.retryIn <= 0 {
		fault("RetryIn is %v: give a positive duration, or leave it out for %v", s.retryIn,
			defaultRetryIn)
	}
	if s.retryUpTo <= 0 {
		fault("RetryUpTo is %v: give a positive duration, or leave it out for %v", s.retryUpTo,
			defaultRetryUpTo)
	}
	if s.marshal == nil || s.unmarshal == nil {
		fault("Codec has a nil function: give both, such as json.Marshal and json.Unmarshal, or " +
			"leave it out for these")
	}
	if len(s.input) > maxInput || strings.ContainsFunc(s.input, isControl) {
		fault("Input has %d bytes, or control bytes: give at most %d, such as a hash in hex",
			len(s.input), maxInput)
	}
	return s, errors.Join(faults...)
}

// checkUnder is the error for a name that no lock can have, before anything is asked for.
func (s settings) checkUnder() error {
	if !s.isUnder {
		return nil
	}
	for _, name := range lockmw.NamesOf(s.under) {
		if err := renewer.CheckName(name); err != nil {
			return err
		}
	}
	return nil
}

// recordRoom is what a record takes beside its result, and more.
const recordRoom = 1 << 10

// mostResult is how many bytes a result may have so that the recorder takes it, as far as that
// says: by a method MaxRecord.
func mostResult(r Recorder) int {
	limited, ok := r.(interface{ MaxRecord() int })
	if !ok || limited.MaxRecord() == 0 {
		return math.MaxInt
	}
	return limited.MaxRecord() - recordRoom
}

func isControl(c rune) bool { return c < ' ' || c == 0x7f }
