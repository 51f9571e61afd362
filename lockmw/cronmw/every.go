package cronmw

import (
	"fmt"
	"time"

	"github.com/lockbeat/lockbeat/renewer"
)

// Every returns a schedule with a tick at every multiple of d, by the clock: all
// nodes have the same ones, whenever they were started. Multiples are counted
// from a midnight, UTC, long past, so that durations which divide a day tick at
// its full hours, minutes or seconds. It panics if d is less than a millisecond.
func Every(d time.Duration) Schedule {
	if _, err := renewer.Millis(d); err != nil {
		panic(fmt.Sprintf("lockbeat: cronmw.Every(%v) can't be meant: give at least a "+
			"millisecond, such as a minute", d))
	}
	return every(d)
}

type every time.Duration

func (e every) Next(t time.Time) time.Time {
	d := time.Duration(e)
	return t.Truncate(d).Add(d)
}
