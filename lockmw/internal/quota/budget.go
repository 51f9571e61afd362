package quota

import (
	"sync"
	"time"
)

const (
	// mostCallers is how many callers a [Budget] keeps in mind.
	mostCallers = 1 << 16
	// sweepMin is the number of callers from which a [Budget] looks for those
	// that it can forget.
	sweepMin = 64
)

// Budget bounds what each of many callers uses over time: so much at once, and
// as much again in each period, evenly. What a caller has used is forgotten at
// that rate; a caller with nothing left is forgotten too. If there are more
// than [mostCallers], any one is forgotten. It may be used concurrently.
type Budget struct {
	most   float64
	period time.Duration

	mu      sync.Mutex
	callers map[string]usage
	sweepAt int // the number of callers at which to look for those that have nothing left
}

// usage is what a caller had used at a time.
type usage struct {
	amount float64
	at     time.Time
}

// NewBudget returns a Budget by which a caller may use most, at least 1, in
// each period.
func NewBudget(most int64, period time.Duration) *Budget {
	return &Budget{
		most: float64(most), period: period, callers: make(map[string]usage),
		sweepAt: sweepMin,
	}
}

// Take is [Budget.Use] if the caller may use more now. Otherwise it
// returns how long the caller has to wait, and counts nothing.
func (b *Budget) Take(caller string, amount int) (wait time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	if over := b.left(b.callers[caller], now) - b.most; over >= 0 {
		return max(time.Duration(over/b.most*float64(b.period)), 1)
	}
	b.use(caller, amount, now)
	return 0
}

// Use counts an amount that a caller has used, which may be more than it had,
// or gives back what it has not used, if that is negative.
func (b *Budget) Use(caller string, amount int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.use(caller, amount, time.Now())
}

func (b *Budget) use(caller string, amount int, now time.Time) {
	used, known := b.callers[caller]
	if !known {
		b.makeRoom(now)
	}
	b.callers[caller] = usage{max(b.left(used, now)+float64(amount), 0), now}
}

// left is what is left of a caller's use by now.
func (b *Budget) left(u usage, now time.Time) float64 {
	return max(u.amount-b.most*(float64(now.Sub(u.at))/float64(b.period)), 0)
}

// makeRoom forgets callers, before a new one is added.
func (b *Budget) makeRoom(now time.Time) {
	if len(b.callers) >= b.sweepAt {
		for caller, u := range b.callers {
			if b.left(u, now) == 0 {
				delete(b.callers, caller)
			}
		}
		b.sweepAt = max(2*len(b.callers), sweepMin)
	}
	if len(b.callers) < mostCallers {
		return
	}
	for caller := range b.callers { // in an order of its own each time
		delete(b.callers, caller)
		break
	}
}
