package page

import (
	"context"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/lockbeat/lockbeat/inspect"
	"github.com/lockbeat/lockbeat/renewer/store"
)

// mostShown is how many slots, and how many places, the page of one lock shows.
// It says how many more there are.
const mostShown = 250

// lock is what one reading of one lock has shown, as its page reads it. Its
// times are Unix milliseconds by the clock of this process.
type lock struct {
	Slots   []slot  `json:"slots"`   // those held for the longest time first
	Held    int     `json:"held"`    // how many slots there are
	Places  []place `json:"places"`  // the first in line first
	Waiting int     `json:"waiting"` // how many places there are
	Turns   int     `json:"turns"`
	Tasks   int     `json:"tasks"`
	Callers int     `json:"callers"` // who wait in the holders' processes
	Foreign bool    `json:"foreign"`

	Former []formerText `json:"former"` // of the last hour, the last one first
	Began  int64        `json:"began"`  // since when this page looks for them
}

// Waits is how many wait for it, wherever.
func (v *lock) Waits() int { return v.Waiting + v.Tasks + v.Callers }

// WhoWait says who they are.
func (v *lock) WhoWait() string { return whoWait(v.Waiting, v.Tasks, v.Callers) }

type slot struct {
	who

	Trace string `json:"trace"`
	// Fence is in decimal: scripts have no whole numbers of 64 bits.
	Fence  string  `json:"fence"`
	Since  int64   `json:"since"`
	Until  int64   `json:"until"`
	Broken *broken `json:"broken,omitempty"`
}

type place struct {
	who

	Version string `json:"version"`
	Since   int64  `json:"since"`
}

type who struct {
	Node string `json:"node"`
	PID  int    `json:"pid"`
	Op   string `json:"op"`
}

type broken struct {
	By       string `json:"by"`
	Why      string `json:"why"`
	Force    bool   `json:"force"`
	Replaced bool   `json:"replaced"`
}

func brokenOf(b *store.Broken) *broken {
	return &broken{text(b.By), text(b.Why), b.Force, b.Replaced}
}

func whoOf(h store.Holder) who { return who{text(h.Node), h.PID, text(h.Operation)} }

func lockOf(l store.Lock, now time.Time) *lock {
	v := &lock{
		Slots: []slot{}, Held: len(l.Slots), Places: []place{}, Waiting: l.Waiting,
		Turns: l.Turns, Tasks: l.Tasks, Callers: l.Callers(), Foreign: l.Foreign,
	}
	for _, s := range l.Slots {
		since, until := clock(l, s, now)
		shown := slot{
			who: whoOf(s.Holder), Trace: traceID(s.Trace),
			Fence: strconv.FormatInt(s.Fence, 10), Since: since, Until: until,
		}
		if s.Broken != nil {
			shown.Broken = brokenOf(s.Broken)
		}
		v.Slots = append(v.Slots, shown)
	}
	slices.SortStableFunc(v.Slots, func(a, b slot) int { return int(a.Since - b.Since) })
	v.Slots = v.Slots[:min(len(v.Slots), mostShown)]
	for _, p := range l.Places[:min(len(l.Places), mostShown)] {
		v.Places = append(v.Places, place{
			whoOf(p.Holder), text(p.Version), now.Add(-l.At.Sub(p.Since)).UnixMilli(),
		})
	}
	return v
}

var traceparent = regexp.MustCompile(`^[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}$`)

// traceID is that of a W3C traceparent, which comes from elsewhere; "" if it is
// none.
func traceID(parent string) string {
	if m := traceparent.FindStringSubmatch(parent); m != nil {
		return m[1]
	}
	return ""
}

// settle gives v the times of the reading before where they have not moved, and
// reports whether nothing else is new.
func (v *lock) settle(before *lock) bool {
	slots := make(map[string]slot, len(before.Slots))
	for _, s := range before.Slots {
		slots[s.Fence] = s
	}
	for i := range v.Slots {
		s := &v.Slots[i]
		if old, known := slots[s.Fence]; known {
			s.Since, s.Until = steady(old.Since, s.Since), steady(old.Until, s.Until)
		}
	}
	// A place is where it was, or has moved up: the search goes on from where
	// the last one was.
	from := 0
	for i := range v.Places {
		p := &v.Places[i]
		for j := from; j < len(before.Places); j++ {
			old := before.Places[j]
			if old.who == p.who && steady(old.Since, p.Since) == old.Since {
				p.Since, from = old.Since, j+1
				break
			}
		}
	}
	return reflect.DeepEqual(v, before)
}

// lockEvent is what is sent of a lock: all of it, or that nothing is new.
type lockEvent struct {
	Now  int64 `json:"now"`
	Lock *lock `json:"lock,omitempty"`
}

// readLock reads one lock.
func (f *feed) readLock(ctx context.Context, before *reading) *reading {
	p, s := f.page, f.of
	l, err := inspect.Show(ctx, p.locks, s.name, s.limit)
	if err != nil {
		return faulty(err)
	}
	now := time.Now()
	p.history.saw(s, &l, now)
	r := &reading{lock: lockOf(l, now)}
	r.lock.Former, r.lock.Began = p.history.former(s, f.began.UnixMilli(), now)
	r.whole = sync.OnceValue(func() []byte {
		return event("lock", lockEvent{now.UnixMilli(), r.lock})
	})
	r.change = r.whole
	if before != nil && before.lock != nil && r.lock.settle(before.lock) {
		same := event("lock", lockEvent{Now: now.UnixMilli()})
		r.change = func() []byte { return same }
	}
	return r
}
