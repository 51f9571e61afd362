package renewer

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/lockbeat/lockbeat/renewer/internal/lease"
	"github.com/lockbeat/lockbeat/renewer/store"
)

const (
	// DefaultTTL lets leases survive about 8 s without the store.
	DefaultTTL = 15 * time.Second
	// defaultClockDrift is the bound on how much faster or slower than real
	// time a clock may run: 1 %, some hundred times what quartz does, since
	// virtual machines and slewed clocks are worse.
	defaultClockDrift = 0.01
	// defaultPoll is how often a waiter looks for itself, should every wake-up
	// be lost.
	defaultPoll = 5 * time.Second
	// defaultFailOver is longer than a fail-over takes if Sentinels wait for 1
	// or 2 s before they begin it. A client of package redisstore may take
	// 11/24 of the TTL to give up a connection that has gone silent: with a TTL
	// above 10 s callers may be refused for the rest of that.
	defaultFailOver = 5 * time.Second
	// defaultHoldWarning is longer than most work takes, and shorter than it
	// takes a user to call.
	defaultHoldWarning = 5 * time.Minute
	// defaultHandOffs is how often a lock may pass from hand to hand
	// inside a process. At a microsecond each that takes a millisecond.
	defaultHandOffs = 1000
	// defaultHandOffFor is for how long it may: few enough
	// milliseconds that other processes' turns come soon.
	defaultHandOffFor = 10 * time.Millisecond
)

// leastDuration is the shortest of every duration in a Config. Less makes no
// sense for any of them, and is what a number without a unit comes to: a
// heartbeat of 5 would be one in 5 ns.
const leastDuration = time.Millisecond

// longer is what to do about a duration that is too short.
func longer(d time.Duration) string {
	if d >= 100*time.Microsecond { // a larger number than anybody writes of seconds or milliseconds
		return "take a longer one"
	}
	return fmt.Sprintf("give it a unit, such as %d*time.Second or %d*time.Millisecond",
		d.Nanoseconds(), d.Nanoseconds())
}

// Config says how a [Keeper] keeps leases. The zero value of each field is its
// default. [New] validates them together. No duration can be below 1 ms.
type Config struct {
	// TTL is how long others wait for a process that died. Choose twice the
	// outage that leases must survive. Whole milliseconds. Default
	// [DefaultTTL].
	TTL time.Duration

	Heartbeat time.Duration // between two renewals of a lease. Default TTL/3

	// Margin is how long before its deadline a lease that could not be renewed
	// is given up: the time that the operation has to stop. It should exceed
	// the longest pause of the process. Default TTL/10.
	Margin time.Duration

	// RequestTimeout bounds one question to the store. A heartbeat without an
	// answer by then is sent again, and either answer counts. Two must fit
	// between a missed heartbeat and Margin. Default a third of that.
	RequestTimeout time.Duration

	// FailOver is how long callers wait for a store, or a shard, that answers
	// nothing. Then those who wait get [ErrUnavailable], and others at once,
	// until it answers; those with [Request].LongRunning or StandBy wait on.
	// Give more than your Sentinels take. Default 5 s.
	FailOver time.Duration

	ClockDrift float64 // between store and client, as a rate. Default 0.01 (1 %)

	// MaxHold ends a lease this long after it was acquired, whatever the
	// operation does. [Request].MaxHold and LongRunning take its place. Default
	// 0: no bound.
	MaxHold time.Duration

	// CancelGrace ends a lease whose operation runs on so long after its
	// caller's context has ended. Default 0: no bound.
	CancelGrace time.Duration

	// HoldWarning is how long an operation runs until observers are told
	// (StillRuns), and again after twice that, and so on. Default 5 min;
	// negative: never.
	HoldWarning time.Duration

	// Poll is how often a waiter asks the store though nothing has woken it,
	// ±20 %. Default 5 s.
	Poll time.Duration

	// HandOffs is how often in a row a lock may go to the next caller of this
	// process before it is freed. Default 1000; negative: never.
	HandOffs int

	HandOffFor time.Duration // for all of these, since the store was last asked. Default 10 ms

	Node string // what refused callers read of this process. Default the host name

	// ProfileLabels has profiles (runtime/pprof) show the lock that a goroutine
	// runs under, in labels "lock" and "operation". It takes 0.5 µs a call.
	// Default false.
	ProfileLabels bool

	Observer Observer // default nil: none, at no cost

	// Log is told of what needs a person, whatever the Observer: a wrong
	// set-up, trouble in the background, a loss, an operation that runs on
	// after it or without its lock, a scheduled run that failed; a line a
	// minute at most of each kind and name, which it shows by [HashName].
	// Beside an Observer of [NewLogObserver], which tells all this itself, it
	// is not used. A panic of its handler ends the process. Default
	// slog.Default(); [Silent] is for none.
	Log *slog.Logger
}

// resolve fills in the defaults and returns every fault found, each with its
// field's name.
func (c Config) resolve() (Config, error) {
	var faults []error
	fault := func(format string, args ...any) {
		faults = append(faults,
			fmt.Errorf("%w: Config."+format, append([]any{ErrConfig}, args...)...))
	}

	c.TTL = orDefault(c.TTL, DefaultTTL)
	ms, err := store.Millis(c.TTL)
	if err != nil {
		fault("TTL is %v: it must be at least 1ms, and long enough for two heartbeats to be lost "+
			"on your network", c.TTL)
		return c, errors.Join(faults...)
	}
	c.TTL = time.Duration(ms) * time.Millisecond

	for _, f := range []struct {
		name  string
		value time.Duration
	}{
		{"Heartbeat", c.Heartbeat},
		{"Margin", c.Margin},
		{"RequestTimeout", c.RequestTimeout},
		{"FailOver", c.FailOver},
		{"MaxHold", c.MaxHold},
		{"CancelGrace", c.CancelGrace},
		{"HoldWarning", max(c.HoldWarning, 0)},
		{"Poll", c.Poll},
		{"HandOffFor", c.HandOffFor},
	} {
		switch {
		case f.value < 0:
			fault("%s is %v: it can't be negative; leave it 0 for the default", f.name, f.value)
		case 0 < f.value && f.value < leastDuration:
			fault("%s is %v, which is below %v: %s, or leave it 0 for the default", f.name, f.value,
				leastDuration, longer(f.value))
		}
	}
	if c.ClockDrift < 0 || c.ClockDrift > 0.2 || c.ClockDrift != c.ClockDrift {
		fault("ClockDrift is %v: it must lie between 0 and 0.2; leave it 0 for the default (%v)",
			c.ClockDrift, defaultClockDrift)
	}
	if len(faults) > 0 {
		return c, errors.Join(faults...)
	}

	c.ClockDrift = orDefault(c.ClockDrift, defaultClockDrift)
	c.Heartbeat = orDefault(c.Heartbeat, c.TTL/3)
	c.Margin = orDefault(c.Margin, c.TTL/10)
	c.Poll = orDefault(c.Poll, defaultPoll)
	c.FailOver = orDefault(c.FailOver, defaultFailOver)
	c.HoldWarning = orDefault(c.HoldWarning, defaultHoldWarning)
	c.HandOffs = orDefault(c.HandOffs, defaultHandOffs)
	c.HandOffFor = orDefault(c.HandOffFor, defaultHandOffFor)
	c.Log = cmp.Or(c.Log, slog.Default())
	if c.Node == "" {
		c.Node, _ = os.Hostname() // a host without a name is shown by its process number alone
	}

	c = c.fit(fault)
	return c, errors.Join(faults...)
}

// fit sets the request timeout and reports the fields that don't fit each
// other.
func (c Config) fit(fault func(format string, args ...any)) Config {
	v := c.validity()
	usable := v - c.Margin
	if usable <= 0 {
		fault("Margin is %v, but a TTL of %v is only good for %v after its request was sent (TTL "+
			"less clock drift, less 1ms): take a Margin well below that, "+
			"such as TTL/10, or a longer TTL", c.Margin, c.TTL, v)
		return c
	}
	switch {
	case c.Heartbeat < usable:
	case c.Heartbeat <= c.TTL/3:
		fault("Margin is %v, so a lease not renewed is given up after %v, before a Heartbeat of "+
			"%v: take a smaller Margin, such as TTL/10 (%v), or a longer TTL",
			c.Margin, usable, c.Heartbeat, c.TTL/10)
		return c
	default:
		fault("Heartbeat is %v, but a lease not renewed is given up after %v: take TTL/3 (%v)",
			c.Heartbeat, usable, c.TTL/3)
		return c
	}
	c.RequestTimeout = orDefault(c.RequestTimeout, (usable-c.Heartbeat)/3)
	if c.Heartbeat+2*c.RequestTimeout+c.retryPause() > usable {
		fault("RequestTimeout is %v: after a missed heartbeat (%v) two requests and a pause must "+
			"fit in what is left of %v; take at most %v, or a longer TTL",
			c.RequestTimeout, c.Heartbeat, usable, (usable-c.Heartbeat)*8/17)
	}
	if c.RequestTimeout < time.Millisecond {
		fault("TTL of %v leaves %v for a request, which is below 1ms: take a longer TTL", c.TTL,
			c.RequestTimeout)
	}
	if err := c.checkMaxHold(c.MaxHold); err != nil {
		fault("%w", err)
	}
	return c
}

// checkMaxHold refuses a bound within which no heartbeat comes.
func (c Config) checkMaxHold(d time.Duration) error {
	if d > 0 && d < c.Heartbeat {
		return fmt.Errorf("MaxHold is %v, which is less than one Heartbeat (%v): take a longer "+
			"MaxHold, or a shorter TTL", d, c.Heartbeat)
	}
	return nil
}

func orDefault[T time.Duration | float64 | int](v, def T) T {
	if v == 0 {
		return def
	}
	return v
}

// validity is how long a lease may be believed in, from the instant before its
// request was sent. The store starts to count the TTL when the request arrives,
// later than that instant; its clock may run fast by the drift ρ and ours slow
// by it, so the TTL is over after T(1−ρ)/(1+ρ) of ours at the earliest. One
// more millisecond pays for the rounding of clocks.
func (c Config) validity() time.Duration { return lease.Validity(c.TTL, c.ClockDrift) }

// rules are what leases go by.
func (c Config) rules() lease.Rules {
	r := lease.Rules{
		TTL: c.TTL, Margin: c.Margin, Drift: c.ClockDrift, MaxHold: c.MaxHold,
		HoldWarning: c.HoldWarning,
	}
	if c.Observer == nil {
		r.HoldWarning = -1 // there is no one to warn
	}
	return r
}

// retryPause is the longest pause before a failed heartbeat is sent again.
func (c Config) retryPause() time.Duration { return c.RequestTimeout / 8 }

// beatPatience is for how long the answer to a heartbeat may count, which is
// sent again beside it after RequestTimeout. By default belief ends a little
// later, and can say why.
func (c Config) beatPatience() time.Duration { return 3*c.RequestTimeout - c.retryPause() }
