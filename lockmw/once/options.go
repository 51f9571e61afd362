package once

import (
	"encoding/json"
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
	defaultFirstRetry  = time.Second
	defaultLastRetry   = time.Minute

	maxInput = 128 // bytes
	// maxConflicts is how often in one attempt the function's transaction may
	// be in conflict with others.
	maxConflicts = 100
	// recordRoom is what a record takes beside its result, and more.
	recordRoom = 1 << 10
)

// Option is for [Do]: lockmw.AnyOption and WaitOption, and those of this
// package. All callers for the same work should give the same. An invalid one
// is refused with [renewer.ErrConfig].
//
// lockmw.Wait counts from the call, and anew after an attempt of its own.
// lockmw.MaxHold bounds an attempt: then another caller may begin the next.
type Option interface {
	ForOnce(option.Settings) option.Settings
}

// own is an option of this package.
type own func(*settings)

// ForOnce implements [Option].
func (own) ForOnce(s option.Settings) option.Settings { return s }

type settings struct {
	option.Settings // Wait is 0 for a call that does not wait

	attempts   int
	uncounted  bool
	keep       time.Duration
	maxResult  int
	firstRetry time.Duration
	lastRetry  time.Duration
	tellErrors bool
	noRetry    bool
	input      string
	recorder   Recorder
	recordIn   bool // it was given by RecordIn
	under      *option.Under
	marshal    func(any) ([]byte, error)
	unmarshal  func([]byte, any) error
}

// endless is a wait without a bound: longer than processes live, and short
// enough to count with.
const endless time.Duration = math.MaxInt64 / 4

// MaxAttempts bounds how often the work is tried, by all callers together,
// those that ended with their process or their lock included: then
// [ErrAttemptsExhausted]. Default 3.
//
// With lockmw.NoBound an attempt that fails leaves nothing in the store: for
// names that clients choose.
func MaxAttempts(n int64) Option {
	return own(func(s *settings) {
		if n < 1 {
			s.refuse("MaxAttempts(%d): give 1 or more, or NoBound", n)
		}
		s.attempts, s.uncounted = int(min(n, math.MaxInt32)), n == lockmw.NoBound
	})
}

// Keep is how long the record is kept: after that the name is as new. Longer
// than an attempt takes, and than renewer.Config.TTL; for work that comes again
// under its name, shorter than the time in between. In milliseconds. Default 24
// h.
func Keep(d time.Duration) Option {
	return own(func(s *settings) { s.keep = d.Truncate(time.Millisecond) })
}

// MaxResult bounds an encoded result, in bytes: beyond, the error is
// [ErrResult]. Default 64 KiB; at most what the recorder takes, less 1 KiB: 16
// MiB on redisstore.
func MaxResult(n int) Option {
	return own(func(s *settings) { s.maxResult = n })
}

// Retry is about how long after an attempt that failed the next may begin,
// whichever caller's it is: first, then twice as long each time, up to most, or
// a third of [Keep]; a random time between half of that and one and a half. A
// caller that may not wait so long gets [ErrNotYet]. An attempt that ended with
// its process, its lock or its caller delays none. Default 1 s, 1 min.
func Retry(first, most time.Duration) Option {
	return own(func(s *settings) {
		if first <= 0 || most < first {
			s.refuse("Retry(%v, %v): give more than 0, and at least as much for the last", first,
				most)
		}
		s.firstRetry, s.lastRetry = first, most
	})
}

// TellErrors puts the text of a function's error, which may carry personal
// data, into the record, cut to 300 bytes, for other callers and [Look].
// Default: it stays in its process.
func TellErrors() Option { return own(func(s *settings) { s.tellErrors = true }) }

// NoRetry ends a call whose attempt has failed, with the function's error, and
// one whose transaction was in conflict, with [ErrConflict]: for queues and
// requests, which come again by themselves.
func NoRetry() Option { return own(func(s *settings) { s.noRetry = true }) }

// Input ties the name to what the work is about, by a fingerprint such as a
// hash: a call with another one gets [ErrInput]. At most 128 bytes, none of
// them control bytes. Default: the name says it all.
func Input(fingerprint string) Option {
	return own(func(s *settings) {
		if len(fingerprint) > maxInput || strings.ContainsFunc(fingerprint, isControl) {
			s.refuse("Input has %d bytes, or control bytes: give at most %d, such as a hash in hex",
				len(fingerprint), maxInput)
		}
		s.input = fingerprint
	})
}

// Codec encodes results in place of JSON. marshal gets a T, unmarshal a pointer
// to one that is zero. They are called concurrently.
func Codec(marshal func(v any) ([]byte, error), unmarshal func(data []byte, v any) error) Option {
	return own(func(s *settings) {
		if marshal == nil || unmarshal == nil {
			s.refuse("Codec needs two functions, such as json.Marshal and json.Unmarshal")
		}
		s.marshal, s.unmarshal = marshal, unmarshal
	})
}

// RecordIn has r keep the record in place of the keeper's store: one of package
// sqlrecord in the transaction of the work itself.
func RecordIn(r Recorder) Option {
	return own(func(s *settings) { s.recorder, s.recordIn = r, true })
}

// Under runs each attempt under other locks or limits too, for work that
// changes what they protect. They are taken, as lockmw.Wait, MaxWaiters and
// MaxHold say, when the attempt is on record and before the transaction of a
// [Transactional] recorder begins, and freed when that has ended. If they are
// not to be had, the call gets that error, and the attempt does not count. Two
// works must not be under each other's names.
//
// Taken inside of the function they would be waited for in the transaction, and
// be free before it commits.
func Under[N lockmw.Name](name N) Option {
	return option.Under{Set: names.Set(lockmw.All(name))}
}

// refuse notes that an option is invalid.
func (s *settings) refuse(format string, args ...any) {
	s.Settings = s.Invalid("once."+format, args...)
}

// newSettings applies the options, and checks them.
func newSettings(k *renewer.Keeper, opts []Option) (settings, error) {
	s := settings{
		attempts: defaultMaxAttempts, keep: defaultKeep, maxResult: defaultMaxResult,
		firstRetry: defaultFirstRetry, lastRetry: defaultLastRetry,
		marshal: json.Marshal, unmarshal: json.Unmarshal,
	}
	for _, opt := range opts {
		switch o := opt.(type) {
		case nil:
		case own:
			o(&s)
		case option.Under:
			s.under = &o
		default:
			s.Settings = o.ForOnce(s.Settings)
		}
	}
	switch {
	case s.Contention != option.Waits:
		s.Wait = 0
	case s.Wait == 0, s.Wait > endless:
		s.Wait = endless
	}
	if !s.recordIn {
		beside := records.Of(k)
		if err := beside.Check(); err != nil {
			return s, err
		}
		s.recorder = beside
	} else if s.recorder == nil {
		s.refuse("RecordIn(nil): give a recorder such as that of sqlrecord.PostgreSQL")
	}
	if ttl := k.Config().TTL; s.keep < ttl {
		s.refuse("Keep(%v): it is less than the lock's TTL (%v), so that an attempt that dies "+
			"would be forgotten before another could take over: give more", s.keep, ttl)
	}
	if most := mostResult(s.recorder); s.maxResult < 1 || s.maxResult > most {
		s.refuse("MaxResult(%d): give 1 or more, and at most what the recorder takes (%d); store "+
			"a larger result elsewhere, and return a reference to it", s.maxResult, most)
	}
	return s, s.Check(k)
}

// checkUnder is the error for a name that no lock can have, before anything is
// asked for.
func (s *settings) checkUnder() error {
	if s.under == nil {
		return nil
	}
	for w := range s.under.Set.All() {
		if err := renewer.CheckName(w.Name); err != nil {
			return err
		}
	}
	return s.under.Set.Err()
}

// mostResult is how many bytes a result may have so that the recorder takes it,
// as far as that says: by a method MaxRecord.
func mostResult(r Recorder) int {
	limited, ok := r.(interface{ MaxRecord() int })
	if !ok || limited.MaxRecord() == 0 {
		return math.MaxInt
	}
	return limited.MaxRecord() - recordRoom
}

func isControl(c rune) bool { return c < ' ' || c == 0x7f }
