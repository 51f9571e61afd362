package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lockbeat/lockbeat/renewer"
)

// figures are what was measured.
type figures struct {
	total, done int
	most        int // handlers of one user at once
	retries     int // that tasks have used up by their own account
	failed      int // runs that asynq has counted as failed
	archived    int // tasks that asynq has given up
	losses      []loss
	user        string    // whose lock was to be lost
	cut, saved  string    // the node that lost it, and the node that took over
	savedAt     time.Time // when it did
	stale       int       // pages refused for their fencing token
	held        []string  // locks left behind
	renewed     int
	contended   int
	unasked     int
	took        time.Duration
	faults      []string // why the story did not come to its end
}

// claim is a row of the table, and whether it is as it should be.
type claim struct {
	what, value string
	held        bool
}

// claims are what Lockbeat promises, beside what was measured.
func (f figures) claims() []claim {
	return []claim{
		{"tasks run", fmt.Sprintf("%d/%d", f.done, f.total), f.done == f.total},
		{"most at once per key", fmt.Sprint(f.most), f.most == 1},
		{"retries consumed", fmt.Sprint(f.consumed()), f.consumed() == 0},
		{"losses", fmt.Sprint(len(f.losses)), len(f.losses) > 0},
		{"handler told before the key could expire", f.notice(), f.toldInTime()},
		{"handler had returned before that", f.reserve(), f.stoppedInTime()},
		{"another node took over", f.rescue(), f.saved != "" && f.saved != f.cut},
		{"pages written by a former holder", fmt.Sprint(f.stale), f.stale == 0},
		{"locks left behind", strings.TrimSpace(fmt.Sprintf("%d %s", len(f.held),
			strings.Join(f.held, " "))), len(f.held) == 0},
		{"time", ms(f.took), f.took < mostTime},
	}
}

// consumed is by whoever has counted most: a retry is a failed run, and an archived task had one.
func (f figures) consumed() int { return max(f.retries, f.failed, f.archived) }

// notice is the shortest, by the server.
func (f figures) notice() string {
	if len(f.losses) == 0 {
		return "never"
	}
	l := slices.MinFunc(f.losses, func(a, b loss) int { return cmp.Compare(a.left, b.left) })
	return fmt.Sprintf("%s by Redis, %s by the lock", l.notice(), ms(l.promised))
}

func (f figures) toldInTime() bool {
	return len(f.losses) > 0 && !slices.ContainsFunc(f.losses, func(l loss) bool {
		return l.err != nil || l.reason != renewer.ReasonExpired || l.left <= 0
	})
}

// reserve is the shortest time between the handler's end and the key's.
func (f figures) reserve() string {
	if len(f.losses) == 0 {
		return "never"
	}
	l := slices.MinFunc(f.losses, func(a, b loss) int {
		return cmp.Compare(a.left-a.stopped, b.left-b.stopped)
	})
	if l.left <= l.stopped {
		return "too late"
	}
	return ms(l.left - l.stopped)
}

func (f figures) stoppedInTime() bool {
	return len(f.losses) > 0 && !slices.ContainsFunc(f.losses, func(l loss) bool {
		return l.stopped >= l.left
	})
}

// rescue is who took over, and how soon after it could.
func (f figures) rescue() string {
	for _, l := range f.losses {
		if l.user == f.user && l.left > 0 && f.saved != "" {
			return fmt.Sprintf("%s, %s after the key had ended", f.saved,
				ms(max(0, f.savedAt.Sub(l.at.Add(l.left)))))
		}
	}
	if f.saved == "" {
		return "nobody"
	}
	return f.saved
}

// close prints the table and the verdict, and tells whether everything held.
func (t *timeline) close(f figures) bool {
	t.print(plain, "")
	broken := slices.Clone(f.faults)
	for _, c := range f.claims() {
		style, mark := green, "ok"
		if !c.held {
			style, mark = red, "BROKEN"
			broken = append(broken, c.what+": "+c.value)
		}
		t.print(style, "  %-42s %-40s %s", c.what, c.value, mark)
	}
	t.print(dim, "  (%s prolonged; %s back to the queue for want of their lock, %s for want of "+
		"an answer, all uncounted)",
		locks(f.renewed), tasks(f.contended), tasks(f.unasked))
	t.print(plain, "")
	if len(broken) > 0 {
		t.print(bold+red, "It did not hold: %s.", strings.Join(broken, "; "))
		return false
	}
	t.print(bold+green, "All of it held, although %s lost its lock in the middle.", f.cut)
	return true
}

// locks, tasks and times count in words.
func locks(n int) string { return count(n, "lock") }
func tasks(n int) string { return count(n, "task") }
func times(n int) string { return count(n, "time") }

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
