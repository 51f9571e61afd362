package jobs

import (
	"strings"
	"time"

	"github.com/lockbeat/lockbeat/lockmw/internal/option"
)

// setPolicy says what to do when another caller has the lock, of a job that has
// so much time left. A job is refused first, and waits after that: so those
// whose locks are free take no room from it. One that may replace others waits
// from the first, as the newest. Who is refused waits after that, or comes
// back: that is nothing unusual.
func (a *attempt) setPolicy(opt *option.Settings, left time.Duration) {
	opt.Within, opt.Expected = left, !a.waits() || !a.mustWait()
	switch {
	case opt.Contention == option.Skips:
	case a.waits() && a.mustWait():
		opt.Contention, opt.Wait = option.Waits, left
	case a.waits():
		opt.Contention, opt.Wait = option.Waits, min(a.moment, left)
	default:
		opt.Contention = option.Refuses
	}
}

// waits reports whether the job waits in its slot if it does not get the lock.
func (a *attempt) waits() bool { return a.inSlot || a.isNewest() }

// mustWait reports whether the framework drops the job unless it waits.
func (a *attempt) mustWait() bool { return a.Last && a.Copy == nil }

// mayWait reports whether a job that was refused waits now. One that is Last
// goes back at once if a copy of it can: if its process were killed meanwhile,
// the framework would drop it, unrun.
func (a *attempt) mayWait() bool {
	again := a.mustWait() && !a.crowded
	if a.isNewest() || a.waited && !again || time.Until(a.until) <= 0 {
		return false
	}
	a.waited = true
	return (a.mustWait() || a.Wait > 0 && !a.Last) && a.takeSlot()
}

// takeSlot reports whether the job may wait in its worker's slot. Where the
// number of workers is not known, all jobs may.
func (a *attempt) takeSlot() bool {
	a.inSlot = a.Slots == nil || a.Slots.take(a.waitingFor())
	a.crowded = !a.inSlot
	a.inRoom = a.inSlot && a.Slots != nil
	return a.inSlot
}

// leaveSlot is for a job that waits no longer.
func (a *attempt) leaveSlot() {
	if a.inRoom {
		a.Slots.leave(a.waitingFor())
	}
	a.inSlot, a.inRoom = false, false
}

func (a *attempt) waitingFor() waitingFor {
	return waitingFor{a.keeper, strings.Join(a.set.Texts(), "\n"), a.mustWait()}
}
