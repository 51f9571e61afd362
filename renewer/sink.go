package renewer

import (
	"context"
	"log/slog"
	"maps"
	"sync"
	"time"
)

// Silent is a logger that writes nothing: for [Config.Log], and the Log of a
// store.
var Silent = slog.New(slog.DiscardHandler)

const (
	// toldEvery is how long the sink says nothing of the same again.
	toldEvery = time.Minute
	// mostTold bounds the names for which the sink knows that, of each kind of
	// line.
	mostTold = 256
)

// sink tells [Config.Log] of what needs a person. It is an Observer, but not
// the keeper's: that is told of every acquire, which costs a lone caller three
// allocations, and this one is not.
//
// What it holds true: a log that blocks keeps no lease from ending in time.
// What the loops of the engine tell is written by a goroutine of the sink's
// own.
type sink struct {
	NopObserver
	lines *logObserver

	mu    sync.Mutex
	told  map[string]*lately // by kind of line
	queue []func()           // lines that are being written, in this order
}

// observersOf are those who hear of what is not an everyday event: o, and the
// sink, unless o writes to a log what that would.
func observersOf(o Observer, log *slog.Logger) Observer {
	if logs(o) {
		return o
	}
	return Observers(o, &sink{lines: &logObserver{log: log}, told: make(map[string]*lately)})
}

// logs reports whether an Observer is one of [NewLogObserver], or has one in
// it.
func logs(o Observer) bool {
	switch o := o.(type) {
	case *logObserver:
		return true
	case observers:
		return logs(o.first) || logs(o.second)
	default:
		return false
	}
}

// Lost tells of a loss that is none by intent.
func (s *sink) Lost(ctx context.Context, e Lost) {
	if e.Err.Reason != ReasonReplaced && s.first("lost", e.Name) {
		s.later(func() { s.lines.Lost(ctx, e) })
	}
}

// StillRuns tells of an operation that runs on without its lock.
func (s *sink) StillRuns(ctx context.Context, e StillRuns) {
	if e.Lost != nil && s.first("still runs", e.Name) {
		s.later(func() { s.lines.StillRuns(ctx, e) })
	}
}

// Unlocked tells of an operation that runs without its lock: its caller gets no
// error.
func (s *sink) Unlocked(ctx context.Context, e Unlocked) {
	if s.first("unlocked", e.Name) {
		s.lines.Unlocked(ctx, e)
	}
}

// Ran tells of a tick that was missed, or whose run failed. Of work without a
// schedule its caller gets the error.
func (s *sink) Ran(ctx context.Context, e Run) {
	scheduled := e.Outcome != OutcomeRan || !e.DueBy.IsZero()
	if scheduled && e.level() >= slog.LevelWarn && s.first(string(e.Outcome), e.Job) {
		s.lines.Ran(ctx, e)
	}
}

// Fault tells of trouble: of a lock's once a name, of other trouble once for
// each error.
func (s *sink) Fault(e Fault) {
	about := e.Name
	if about == "" {
		about = ErrorText(e.Err)
	}
	if s.first(e.Doing, about) {
		s.lines.Fault(e)
	}
}

// lately are the names of which a kind of line was written within toldEvery,
// and when.
type lately struct {
	last    map[string]time.Time
	cleared time.Time // of those that were written before
}

// full reports whether there is no room for one more name.
func (l *lately) full(now time.Time) bool {
	if len(l.last) < mostTold {
		return false
	}
	if now.Sub(l.cleared) >= time.Second { // not at each of very many losses
		l.cleared = now
		maps.DeleteFunc(l.last, func(_ string, last time.Time) bool {
			return now.Sub(last) >= toldEvery
		})
	}
	return len(l.last) >= mostTold
}

// first reports whether a line about a name is to be written: none of its kind
// was, of late.
func (s *sink) first(kind, name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	now, told := time.Now(), s.told[kind]
	if told == nil { // there are few kinds
		told = &lately{last: make(map[string]time.Time)}
		s.told[kind] = told
	}
	last, ok := told.last[name]
	if ok && now.Sub(last) < toldEvery || !ok && told.full(now) || len(s.queue) >= mostTold {
		return false
	}
	told.last[name] = now
	return true
}

// later has a line written behind those before it, and does not wait for that.
func (s *sink) later(write func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.queue = append(s.queue, write); len(s.queue) == 1 {
		go s.write()
	}
}

// write writes lines until there is none left.
func (s *sink) write() {
	for more := true; more; {
		s.mu.Lock()
		line := s.queue[0]
		s.mu.Unlock()
		line()
		s.mu.Lock()
		s.queue = s.queue[1:]
		more = len(s.queue) > 0
		s.mu.Unlock()
	}
}
