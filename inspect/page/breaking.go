package page

import (
	"context"
	"errors"
	"html/template"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lockbeat/lockbeat/inspect"
	"github.com/lockbeat/lockbeat/renewer/store"
)

const (
	// mostForm is how many bytes a form may have.
	mostForm = 16 << 10
	// breakWithin bounds the order to the store.
	breakWithin = 10 * time.Second
)

// breakPage is the form that breaks a lease.
type breakPage struct {
	*lockPage

	Slot  slotText
	By    string
	Token string
	Why   string
	Force bool
	Wrong string // what is wrong with what was filled in
}

// breaker is who breaks leases by r; "" if it may not.
func (p *Page) breaker(r *http.Request) string {
	if p.cfg.BreakAs == nil {
		return ""
	}
	return p.cfg.BreakAs(r)
}

// getBreak shows the form. It changes nothing.
func (p *Page) getBreak(w http.ResponseWriter, r *http.Request) {
	if by := p.mayBreak(w, r); by != "" {
		p.showForm(w, r, http.StatusOK, &breakPage{By: text(by)})
	}
}

// mayBreak is who asks, or else "", and the request is answered.
func (p *Page) mayBreak(w http.ResponseWriter, r *http.Request) string {
	by := p.breaker(r)
	switch {
	case p.cfg.BreakAs == nil:
		p.refuse(w, http.StatusForbidden, "This page is read-only.",
			"Its server must set page.Config.BreakAs for leases to be broken here.")
	case by == "":
		p.refuse(w, http.StatusForbidden, "You may not break leases.",
			"Ask those who run this page.")
	}
	return by
}

// showForm shows the form for the lease that the address names, if it is still
// current.
func (p *Page) showForm(w http.ResponseWriter, r *http.Request, status int, d *breakPage) {
	s, ok := p.named(w, r)
	if !ok {
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), firstWithin)
	defer cancel()
	read := p.once(ctx, s, clientOf(r))
	switch {
	case read == nil:
		p.fail(w, s, faultOf(context.DeadlineExceeded))
		return
	case read.fault != nil:
		p.fail(w, s, read.fault)
		return
	}
	fence := r.URL.Query().Get("fence")
	i := slices.IndexFunc(read.lock.Slots, func(s slot) bool { return s.Fence == fence })
	if i < 0 {
		p.fail(w, s, faultOf(inspect.ErrFree))
		return
	}
	d.lockPage = p.newLockPage(r, s)
	d.Slot = read.lock.Slots[i].text(time.Now(), d.Query)
	d.Token = formToken(w, r)
	// By no-referrer a browser would hide from a form's own server where it
	// comes from.
	w.Header().Set("Referrer-Policy", "same-origin")
	p.show(w, status, "break.html", d)
}

// fail answers with what went wrong, and a way back to the lock.
func (p *Page) fail(w http.ResponseWriter, s subject, f *fault) {
	back := template.URL(s.query()) //nolint:gosec // of letters that need no escape
	p.show(w, f.status, "refused.html", refusal{f, back})
}

// postBreak breaks the lease that the address names.
func (p *Page) postBreak(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, mostForm)
	by := p.mayBreak(w, r)
	if by == "" {
		return
	}
	if err := r.ParseForm(); err != nil {
		p.refuse(w, http.StatusBadRequest, "The form can't be read.", "Send it again.")
		return
	}
	if !ownForm(r) {
		p.refuse(w, http.StatusForbidden, "This form is not the page's own.",
			"Nothing was broken. Open the lock's page, and allow cookies for it. Behind a proxy, "+
				"the header Host must be what the browser sent.")
		return
	}
	why, force := strings.TrimFunc(r.PostForm.Get("why"), blank), r.PostForm.Get("force") != ""
	if why == "" {
		p.showForm(w, r, http.StatusUnprocessableEntity, &breakPage{
			By: text(by), Force: force, Wrong: "Say why: the holder's error and its log tell.",
		})
		return
	}
	s, ok := p.named(w, r)
	if !ok {
		return
	}
	o := inspect.Order{Name: s.name, Limit: s.limit, By: by, Why: why, Force: force}
	p.breakIt(w, r, s, o)
}

// breakIt carries out an order about the lease that the address names.
func (p *Page) breakIt(w http.ResponseWriter, r *http.Request, s subject, o inspect.Order) {
	fence := r.URL.Query().Get("fence")
	var err error
	if o.Fence, err = strconv.ParseInt(fence, 10, 64); err != nil {
		p.fail(w, s, faultOf(errors.Join(inspect.ErrStale, err)))
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), breakWithin)
	defer cancel()
	var first *store.Broken
	if !p.ask(func() { first, err = p.order(ctx, o) }) {
		p.refuseClosed(w)
		return
	}
	switch {
	case err != nil:
		p.fail(w, s, faultOf(err))
		return
	case first != nil:
		p.forget(s)
		p.fail(w, s, &fault{
			Title: "This lease is broken already.", status: http.StatusConflict,
			Advice: "It was " + brokenOf(first).String() + ". That is what its holder is told.",
		})
		return
	}
	p.cfg.Log.LogAttrs(ctx, slog.LevelWarn, "lease broken",
		slog.String("lock_hash", p.cfg.hash(o.Name)), slog.Bool("limit", o.Limit),
		slog.Int64("fence", o.Fence), slog.String("by", o.By), slog.String("why", o.Why),
		slog.Bool("force", o.Force))
	if o.Force {
		p.history.forced(s, o.Fence, brokenOf(&store.Broken{By: o.By, Why: o.Why, Force: true}))
	}
	p.forget(s)
	w.Header().Set("Location", "lock?"+s.query()+"&ended="+fence)
	w.WriteHeader(http.StatusSeeOther)
}

// order breaks a lease, unless another has broken it already: then it returns
// by whom. The store keeps who was first, so to ask for a second time would do
// nothing, and say otherwise.
func (p *Page) order(ctx context.Context, o inspect.Order) (first *store.Broken, err error) {
	l, err := inspect.Show(ctx, p.locks, o.Name, o.Limit)
	if err != nil {
		return nil, err
	}
	for _, s := range l.Slots {
		if s.Fence == o.Fence && s.Broken != nil && (!o.Force || s.Broken.Force) {
			return s.Broken, nil
		}
	}
	return nil, inspect.Break(ctx, p.locks, o)
}
