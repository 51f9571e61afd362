package locks

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/lockbeat/lockbeat/cmd/lockbeat/internal/out"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/store"
)

// lines are labelled lines.
type lines struct{ strings.Builder }

func (l *lines) line(label, text string) {
	_, _ = fmt.Fprintf(l, "%-10s %s\n", label, text)
}

// print writes all that is known of a lock as labelled lines. Whether it is
// renewed comes last, since that takes a while to see.
func (s *showing) print(
	ctx context.Context, w io.Writer, locks renewer.Store, lock *store.Lock, secret []byte,
) error {
	text := describe(lock, secret)
	if err := write(w, text.String()); err != nil {
		return err
	}
	if err := tables(w, lock); err != nil {
		return err
	}
	seen, err := s.lookTwice(ctx, locks, lock)
	if err != nil {
		return err
	}
	text.Reset()
	if len(lock.Slots) > 1 || len(lock.Places) > 0 {
		text.WriteString("\n")
	}
	text.renewals(lock, seen)
	return write(w, text.String())
}

// renewals says which leases are renewed: those of a limit that are, in one
// line.
func (l *lines) renewals(lock *store.Lock, seen map[int64]renewal) {
	renewed, last := 0, time.Duration(0)
	for _, slot := range lock.Slots {
		r, ok := seen[slot.Fence]
		switch {
		case !ok: // it is broken, or was not looked at
		case r.seen:
			renewed++
			last = max(last, r.after)
		case len(lock.Slots) == 1:
			l.line("renewed", r.String())
		default:
			l.line("renewed", strconv.FormatInt(slot.Fence, 10)+": "+r.String())
		}
	}
	switch r := (renewal{seen: true, after: last}); {
	case renewed == 0:
	case len(lock.Slots) == 1:
		l.line("renewed", r.String())
	default:
		l.line("renewed", fmt.Sprintf("%d of %d: %s", renewed, len(lock.Slots), r))
	}
}

func write(w io.Writer, text string) error {
	_, err := io.WriteString(w, text)
	return err
}

// String says what was seen.
func (r renewal) String() string {
	after := out.Duration(r.after)
	switch {
	case r.seen:
		return "yes, seen after " + after
	case r.gone:
		return "its lease has ended while it was looked at, after " + after
	default:
		return "not within " + after + "; if its heartbeat is slower than that, look for longer: " +
			"--look 30s"
	}
}

// describe is a lock without its tables.
func describe(lock *store.Lock, secret []byte) *lines {
	var l lines
	label := "lock"
	if lock.Limit {
		label = "limit"
	}
	l.line(label, out.Safe(lock.Name))
	l.line("hash", renewer.HashName(lock.Name, secret))
	l.line("state", sentence(lock))
	if len(lock.Slots) == 1 {
		l.slot(lock, &lock.Slots[0])
	}
	l.line("waiting", waiters(lock))
	return &l
}

// waiters says how many wait for a lock, and where.
func waiters(lock *store.Lock) string {
	var parts []string
	add := func(n int, one, many string) {
		if n > 0 {
			parts = append(parts, plural(n, one, many))
		}
	}
	add(lock.Waiting, "process in line", "processes in line")
	add(lock.Callers(), "caller in the holder's process", "callers in the holder's process")
	add(lock.Tasks, "task in line", "tasks in line")
	switch {
	case len(parts) > 1:
		return strconv.Itoa(lock.WaitingInAll()) + ": " + strings.Join(parts, ", ")
	case len(parts) == 1:
		return parts[0]
	case len(lock.Slots) == 0:
		return "nobody"
	default:
		return "nobody, by the holder's last heartbeat"
	}
}

// sentence is a lock's state for people.
func sentence(lock *store.Lock) string {
	turn := "it is kept for a moment for the waiter whose turn it is"
	switch stateOf(lock) {
	case stateForeign:
		return "foreign: another program has written its key; delete that, and let that program " +
			"take another prefix"
	case stateBroken:
		return "broken, and not free until its operation has returned, or its TTL is over"
	case stateTurn:
		return "turn: " + turn
	case stateFree:
		if lock.Tasks > 0 {
			return "free, and tasks wait: they come by themselves, within minutes"
		}
		return "free, and waited for"
	}
	if !lock.Limit {
		return "held"
	}
	text := "held by " + strconv.Itoa(len(lock.Slots))
	if lock.Turns > 0 {
		text += fmt.Sprintf(", and %s kept for waiters whose turn it is",
			plural(lock.Turns, "slot", "slots"))
	}
	return text
}

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.Itoa(n) + " " + many
}

// slot describes who has one.
func (l *lines) slot(lock *store.Lock, s *store.Slot) {
	l.line("host", out.Or(s.Node))
	l.line("pid", strconv.Itoa(s.PID))
	l.line("operation", out.Or(s.Operation))
	l.line("trace", out.Or(s.Trace))
	l.line("since", fmt.Sprintf("%s, for %s", out.Instant(s.Since),
		out.Duration(lock.At.Sub(s.Since))))
	l.line("ttl", out.Duration(s.TTL)+" left")
	l.line("token", strconv.FormatInt(s.Fence, 10))
	if s.Broken != nil {
		l.line("broken", brokenBy(s))
	}
}

// brokenBy is who broke a lease, and why.
func brokenBy(s *store.Slot) string {
	b, how := s.Broken, "by "
	switch {
	case b.Force:
		how = "by force, by "
	case b.Replaced:
		how = "replaced by a newer call, of "
	}
	text := how + out.Or(b.By) + ": " + out.Or(b.Why)
	if !s.Told {
		text += " (its process has not heard so yet)"
	}
	return text
}

// tables writes the slots of a limit, if they are several, and the line.
func tables(w io.Writer, lock *store.Lock) error {
	columns := out.Columns(w)
	if len(lock.Slots) > 1 {
		if err := write(w, "\n"); err != nil {
			return err
		}
		if err := slots(lock).Write(w, columns); err != nil {
			return err
		}
	}
	if len(lock.Places) == 0 {
		return nil
	}
	if err := write(w, "\n"); err != nil {
		return err
	}
	return places(lock).Write(w, columns)
}

// slots is the table of those who have a limit, by which one can be broken.
func slots(lock *store.Lock) *out.Table {
	t := &out.Table{Columns: []out.Column{
		{Title: "TOKEN", Right: true},
		{Title: "HOLDER", Least: 10},
		{Title: "AGE", Right: true},
		{Title: "TTL", Right: true, Drop: 2},
		{Title: "BROKEN", Least: 6, Drop: 1, Rare: true},
	}}
	for i := range lock.Slots {
		s := &lock.Slots[i]
		broken := ""
		if s.Broken != nil {
			broken = brokenBy(s)
		}
		t.Rows = append(t.Rows, []string{
			strconv.FormatInt(s.Fence, 10), out.Safe(s.String()),
			out.Duration(lock.At.Sub(s.Since)), out.Duration(s.TTL), broken,
		})
	}
	return t
}

// places is the table of those who wait.
func places(lock *store.Lock) *out.Table {
	t := &out.Table{Columns: []out.Column{
		{Title: "#", Right: true},
		{Title: "WAITS", Least: 14},
		{Title: "FOR", Right: true},
		{Title: "SINCE", Drop: 1},
		{Title: "VERSION", Drop: 2, Rare: true},
	}}
	for i := range lock.Places {
		p := &lock.Places[i]
		who, version := "not known yet", ""
		if p.Holder != (store.Holder{}) {
			who = out.Safe(p.String())
		}
		if p.Version != "" {
			version = out.Safe(p.Version)
		}
		t.Rows = append(t.Rows, []string{
			strconv.Itoa(i + 1), who, out.Duration(lock.At.Sub(p.Since)), out.Instant(p.Since),
			version,
		})
	}
	if len(lock.Places) < lock.Waiting {
		t.Rows = append(t.Rows, []string{
			"", fmt.Sprintf("and %d more", lock.Waiting-len(lock.Places)), "", "", "",
		})
	}
	return t
}
