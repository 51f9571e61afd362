package page

import (
	"context"
	"html/template"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// lockPage is what the templates read of one lock.
type lockPage struct {
	Query    template.URL
	Name     string
	Hash     string
	Odd      bool
	Limit    bool
	MayBreak bool
	Fault    *fault
	Loading  bool
	Lock     *lock
	Slots    []slotText
	Places   []placeText
	Former   []formerRow
	Seen     string // for how long this page has looked for these
	Ended    string // the token of a lease that was broken by the page, and its state now
	EndedIs  string
	Ages     string
}

// slotText is a slot in words.
type slotText struct {
	Break        template.URL // the query of the form that breaks it
	Holder, Op   string
	Fence, Trace string
	Held, Left   string
	Heat         int
	Broken       string
	MayBreak     bool
}

type placeText struct {
	Number                   int
	Holder, Op, Version, For string
}

// BlankSlot and BlankPlace are rows that the script fills in.
func (d *lockPage) BlankSlot() slotText   { return slotText{MayBreak: d.MayBreak} }
func (d *lockPage) BlankPlace() placeText { return placeText{} }

// BlankFormer is one more.
func (d *lockPage) BlankFormer() formerRow { return formerRow{} }

// newLockPage is what is known of a lock before the store is asked.
func (p *Page) newLockPage(r *http.Request, s subject) *lockPage {
	d := &lockPage{
		Query: template.URL(s.query()), //nolint:gosec // of letters that need no escape
		Limit: s.limit, MayBreak: p.breaker(r) != "", Ages: agesText(),
	}
	d.Name, d.Odd = visible(s.name)
	d.Hash = p.cfg.hash(s.name)
	return d
}

func (p *Page) getLock(w http.ResponseWriter, r *http.Request) {
	if q := r.URL.Query(); q.Has("hash") {
		p.getHash(w, r, strings.ToLower(q.Get("hash")))
		return
	}
	s, ok := p.named(w, r)
	if !ok {
		return
	}
	d := p.newLockPage(r, s)
	ctx, cancel := context.WithTimeout(r.Context(), firstWithin)
	defer cancel()
	switch read := p.once(ctx, s, clientOf(r)); {
	case read == nil:
		d.Loading = true
	case read.fault == crowded:
		p.fail(w, s, crowded)
		return
	case read.fault != nil:
		d.Fault = read.fault
	default:
		d.fill(read.lock)
		d.ended(r.URL.Query())
	}
	p.show(w, http.StatusOK, "lock.html", d)
}

func (d *lockPage) fill(l *lock) {
	now := time.Now()
	d.Lock = l
	for i := range l.Slots {
		slot := l.Slots[i].text(now, d.Query)
		slot.MayBreak = d.MayBreak
		d.Slots = append(d.Slots, slot)
	}
	for i, at := range l.Places {
		d.Places = append(d.Places, placeText{
			i + 1, at.String(), at.Op, at.Version, spell(now.Sub(time.UnixMilli(at.Since))),
		})
	}
	for i := range l.Former {
		d.Former = append(d.Former, l.Former[i].row(now))
	}
	d.Seen = spell(min(now.Sub(time.UnixMilli(l.Began)), pastFor))
}

func (s *slot) text(now time.Time, lock template.URL) slotText {
	held := now.Sub(time.UnixMilli(s.Since))
	t := slotText{
		Break:  lock + template.URL("&fence="+url.QueryEscape(s.Fence)), //nolint:gosec // escaped
		Holder: s.String(), Op: s.Op, Fence: s.Fence, Trace: s.Trace,
		Held: spell(held), Heat: heat(held), Left: spell(time.UnixMilli(s.Until).Sub(now)),
	}
	if s.Broken != nil {
		t.Broken = s.Broken.String()
	}
	return t
}

// String says who it is, without what it does; lock.js does the same.
func (w who) String() string {
	switch {
	case w.Node == "" && w.PID == 0:
		return "unknown"
	case w.PID == 0:
		return w.Node
	case w.Node == "":
		return "pid " + strconv.Itoa(w.PID)
	default:
		return w.Node + " · " + strconv.Itoa(w.PID)
	}
}

// String says who broke it, and why; lock.js does the same.
func (b *broken) String() string {
	if b.Replaced {
		return "replaced by a newer call"
	}
	s := "broken by " + b.By
	if b.Force {
		s = "broken by force by " + b.By
	}
	if b.Why != "" {
		s += ": " + b.Why
	}
	return s
}

// ended notes what became of the lease that the browser has had broken: it
// comes here from there.
func (d *lockPage) ended(q url.Values) {
	fence, err := strconv.ParseInt(q.Get("ended"), 10, 64)
	if err != nil {
		return
	}
	d.Ended, d.EndedIs = strconv.FormatInt(fence, 10), "has ended."
	for _, s := range d.Lock.Slots {
		switch {
		case s.Fence != d.Ended:
		case s.Broken == nil:
			d.EndedIs = "is not broken."
		default:
			d.EndedIs = "is broken: its process is told. The name is free when the operation has " +
				"returned, and at the end of the TTL at the latest."
		}
	}
}
