package renewer

import (
	"time"

	"github.com/lockbeat/lockbeat/renewer/internal/timing"
)

// deadlines are when belief in each lease ends, and when a question to the store has taken long
// enough.
//
// What they hold true: a lease that is held, or asked for by a question with a limit, is in the
// heap at an instant no later than its own. So the end loop ends it in time.
//
// Guarded by Keeper.mu, other than the loop.
type deadlines struct {
	*timing.DeadlineHeap[*Lease]

	loop *timing.Loop
}

func newDeadlines(clock *timing.Clock) deadlines {
	return deadlines{timing.NewDeadlineHeap(deadlinePlace), timing.NewLoop(clock)}
}

// set enters a lease at an instant, or moves it there, and has the end loop come by then.
func (d deadlines) set(l *Lease, at instant) {
	d.Set(l, at)
	d.loop.WakeBy(at)
}

// lookAround is how often the end loop reads the clock although nothing is about to end: a machine
// that was suspended has lost that time without any timer having run.
const lookAround = time.Second

// endDue is a step of the end loop: it ends what is due. It asks neither the store nor an observer
// whether to: they hear of it afterwards. A heartbeat does not move its leases in the heap. They
// are moved when the old instant comes, which is once in a TTL rather than once in a heartbeat.
func (k *Keeper) endDue() (next instant) {
	var news losses
	k.mu.Lock()
	now := k.clock.Now()
	for l, due := k.deadlines.Due(now); due; l, due = k.deadlines.Due(now) {
		if l.state == asking { // the store has not answered its acquire in time
			k.deadlines.Remove(l)
			c := l.op.Load() // the asker may replace it once it sees that it is late
			news.after = append(news.after, func() { c.cancel(errNoAnswer) })
			continue
		}
		if until := instant(l.until.Load()); until > now {
			k.deadlines.Set(l, until)
			continue
		}
		k.expire(l, now, &news)
	}
	next = k.deadlines.First()
	k.mu.Unlock()
	news.deliver(k)
	if next == never {
		return never
	}
	return min(next, now.Add(lookAround))
}
