package once

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/internal/names"
	"github.com/lockbeat/lockbeat/lockmw/internal/option"
	"github.com/lockbeat/lockbeat/lockmw/internal/records"
	"github.com/lockbeat/lockbeat/renewer"
)

const (
	defaultMaxAttempts = 3
	defaultKeep        = 24 * time.Hour
	defaultMaxResult   = 64 << 10
	defaultRetryFirst  = time.Second
	defaultRetryMost   = time.Minute

	maxInput = 128 // bytes
	// maxConflicts is how often in one attempt the function's transaction may be in conflict with
	// others.
	maxConflicts = 100
)

// Option is for [Do], [Look] and [Forget]: those of package lockmw that fit (lockmw.AnyOption and
// lockmw.WaitOption) and this package's. Of two that contradict each other the later one counts. One
// that is invalid makes an error, [renewer.ErrConfig], that names it. All callers for the same work
// should give the same.
//
//   - lockmw.Wait bounds how long a call waits for others, and for a store that is away. It counts
//     from the call, and anew after an attempt of its own. By default a call waits for as long as its
//     context lives, since a caller that waits takes over.
//   - lockmw.MaxHold bounds how long an attempt may take: then its lock is lost, and another caller
//     may begin the next attempt.
type Option interface {
	ForOnce(option.Settings) option.Settings
}

// own is an option of this package.
type own func(*settings)

// ForOnce implements [Option].
func (own) ForOnce(s option.Settings) option.Settings { return s }

type settings struct {
	option.Settings

	wait       time.Duration
	attempts   int64
	keep       time.Duration
	maxResult  int
	retryFirst time.Duration
	retryMost  time.Duration
	tellErrors bool
	noRetry    bool
	uncounted  bool
	input      string
	recorder   Recorder
	recordIn   bool // it was given by RecordIn
	under      *names.Set
	underOpts  []lockmw.Option
	marshal    func(any) ([]byte, error)
	unmarshal  func([]byte, any) error
}

// endless is a wait without a bound: longer than processes live, and short enough to count with.
const endless = math.MaxInt64 / 4

// MaxAttempts bounds how often the work is tried, by all callers together: n, at least 1. Attempts
// that ended with their process or their lock count. Then everybody gets [ErrAttemptsExhausted].
// Default 3.
//
// With lockmw.NoBound an attempt that fails or panics leaves nothing in the store: the next one is
// the first again, and may be with another [Input]. It is for names that clients choose, so that
// failures take no space. Only an attempt that ended with its process leaves a record, for [Keep].
func MaxAttempts(n int64) Option {
	return own(func(s *settings) {
		s.attempts, s.uncounted = min(n, math.MaxInt32), n == lockmw.NoBound
	})
}

// Retry is about how long after the first attempt, if that fails, the next may begin, whichever
// caller's it is. After each further one it is twice as long, up to most, and no more than a third of
// [Keep]. Callers that wait, wait for it; one that may not wait so long gets [ErrNotYet]. An attempt
// that ended with its process or its lock, or whose caller has left, makes no one wait; nor does one
// without a bound of attempts. Both must be positive. Default 1 s, 1 min.
//
// About d means a random duration between half of d and one and a half times d, as by
// ExponentialBackOff of Google's HTTP client for Java (randomized_interval):
// https://googleapis.dev/java/google-http-client/latest/
func Retry(first, most time.Duration) Option {
	return own(func(s *settings) { s.retryFirst, s.retryMost = first, most })
}

// Keep is how long the record of the work is kept: its result, or that no caller is to try
// any more. After d the name is as new. For work that comes again under the same name let it
// be shorter than the time in between, and longer than an attempt takes; it can't be below
// renewer.Config.TTL. Default 24 h. Milliseconds; fractions are cut off.
func Keep(d time.Duration) Option {
	return own(func(s *settings) { s.keep = d.Truncate(time.Millisecond) })
}

// MaxResult bounds an encoded result to n bytes, at least 1 and at most what the recorder takes in
// a record, less 1 KiB: on redisstore that is 16 MiB less 1 KiB. Work whose result is larger is
// done all the same: see [ErrResult]. Default 64 KiB.
func MaxResult(n int) Option {
	return own(func(s *settings) { s.maxResult = n })
}

// TellErrors puts the text of a function's error into the record, cut to 300 bytes: other callers
// get it in the [Error] of work that has failed, and [Look] shows it. Default: it stays in its
// process, since it may carry personal data.
func TellErrors() Option {
	return own(func(s *settings) { s.tellErrors = true })
}

// NoRetry ends a call whose attempt has failed, with the function's error: the caller, or what
// calls it, tries again by itself. The attempt counts. A conflict of transactions ends the call
// too, with [ErrConflict], and does not count. It is for task queues and for requests.
func NoRetry() Option {
	return own(func(s *settings) { s.noRetry = true })
}

// Input ties the name to what the work is about: a call with another fingerprint than that of
// the first gets [ErrInput] instead of a result that is not its own. A hash will do: at most
// 128 bytes, without control bytes. Default: none, and then the name says it all.
func Input(fingerprint string) Option {
	return own(func(s *settings) { s.input = fingerprint })
}

// Codec encodes results by marshal and decodes them by unmarshal, in place of JSON. marshal
// gets a T, unmarshal a pointer to one that is zero. They may be called concurrently.
func Codec(marshal func(v any) ([]byte, error), unmarshal func(data []byte, v any) error) Option {
	return own(func(s *settings) { s.marshal, s.unmarshal = marshal, unmarshal })
}

// RecordIn has r keep the record of the work, in the place of the lock's own store,
// which need not keep records then. With a [Transactional] one, such as package
// sqlrecord's, the function's effects and its record are written together or not at
// all. All callers for the same work must give the same. Default: the keeper's
// store.
func RecordIn(r Recorder) Option {
	return own(func(s *settings) { s.recorder, s.recordIn = r, true })
}

// Under runs each attempt under the lock on another name, too, or under several. It is for work that changes what another lock protects. The lock is taken
// when the attempt is on record and before the transaction of a [Transactional] recorder begins,
// and is free when that has ended; work that is done does not wait for it. (Taken inside of the
// function it would be waited for with a connection of the database and the rows that are written,
// and be free before these are committed.)
//
// If the lock is not to be had, the call gets its error, and the attempt does not count. It is
// waited for as long as the call may wait, which opts may change; lockmw.MaxHold bounds it, too. What it
// means to lose it is said in package lockmw. Two works must not be under each other's names: they
// would wait for each other. Default: none.
func Under[N lockmw.Name](name N, opts ...lockmw.Option) Option {
	set := names.Set(lockmw.All(name))
	return own(func(s *settings) { s.under, s.underOpts = &set, opts })
}

// newSettings applies the options, and names every fault in one error.
func newSettings(k *renewer.Keeper, opts []Option) (settings, error) {
	s := settings{
		attempts: defaultMaxAttempts, keep: defaultKeep, maxResult: defaultMaxResult,
		retryFirst: defaultRetryFirst, retryMost: defaultRetryMost,
		marshal: json.Marshal, unmarshal: json.Unmarshal,
	}
	for _, o := range opts {
		if mine, ok := o.(own); ok {
			mine(&s)
		} else {
			s.Settings = o.ForOnce(s.Settings)
		}
	}
	switch {
	case s.Contention != option.Waits:
	case s.Wait == 0:
		s.wait = endless
	default:
		s.wait = min(s.Wait, endless)
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
	if err := s.Check(k); err != nil {
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
	if s.retryFirst <= 0 || s.retryMost <= 0 {
		fault("Retry is %v, %v: give positive durations, or leave it out for %v, %v", s.retryFirst,
			s.retryMost, defaultRetryFirst, defaultRetryMost)
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
func (s *settings) checkUnder() error {
	if s.under == nil {
		return nil
	}
	if err := s.under.Err(); err != nil {
		return err
	}
	for w := range s.under.All() {
		if err := renewer.CheckName(w.Name); err != nil {
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
