package page

import (
	"cmp"
	"context"
	"fmt"
	"html/template"
	"net/http"
	"strings"
	"sync"

	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/store"
)

// Page is an http.Handler. It may be used concurrently.
type Page struct {
	locks renewer.Store
	cfg   Config
	html  *template.Template

	history history

	ctx    context.Context // of all reading
	end    context.CancelFunc
	asking sync.WaitGroup // the loops of feeds, and leases that are being broken

	mu      sync.Mutex // also of what feeds have: with two, one could wait for the other
	closed  bool
	feeds   map[subject]*feed // those whose loops run
	loops   seats             // of single locks
	streams seats
}

// subject is what is looked at: a lock or a limit by itself, or all of them.
type subject struct {
	name  string
	limit bool
}

// compare orders subjects by their names.
func (s subject) compare(t subject) int {
	if c := cmp.Compare(s.name, t.name); c != 0 || s.limit == t.limit {
		return c
	}
	if s.limit {
		return 1
	}
	return -1
}

// all is the subject of the list. No lock is named "".
var all subject

// New returns a page of what locks keeps. An error is renewer.ErrConfig: a
// field of cfg is unusable, or locks can't be inspected (of a quorum, each
// node's can).
func New(locks renewer.Store, cfg Config) (*Page, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	if _, ok := locks.Engine().(store.Inspector); !ok {
		return nil, fmt.Errorf("%w: a %T can't be inspected; of a quorum, make a page of the "+
			"store of each node", renewer.ErrConfig, locks)
	}
	p := &Page{locks: locks, cfg: cfg, html: cfg.templates(), feeds: make(map[subject]*feed)}
	p.history = history{cfg: &p.cfg, held: make(map[subject]*follow)}
	p.ctx, p.end = context.WithCancel(context.Background())
	return p, nil
}

// Close ends all streams and all reading; from then on requests are answered
// with 503. It waits 10 s at most for a lease that is being broken. It may be
// called more than once. http.Server.Shutdown waits for streams: register Close
// with its RegisterOnShutdown.
func (p *Page) Close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.end()
	p.asking.Wait()
}

// ask runs f, which asks the store, and for which Close waits. It reports
// false, and runs nothing, once the page is closed.
func (p *Page) ask(f func()) bool {
	p.mu.Lock()
	closed := p.closed
	if !closed {
		p.asking.Add(1)
	}
	p.mu.Unlock()
	if closed {
		return false
	}
	defer p.asking.Done()
	f()
	return true
}

// ServeHTTP answers a request for the page, or for what belongs to it.
func (p *Page) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	secure(w.Header())
	path := strings.TrimPrefix(r.URL.Path, "/")
	switch {
	case p.ctx.Err() != nil:
		p.refuseClosed(w)
	case r.Method == http.MethodPost && path == "break":
		p.postBreak(w, r)
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		w.Header().Set("Allow", "GET, HEAD")
		p.refuse(w, http.StatusMethodNotAllowed, "This can only be read.", "Use GET.")
	case r.URL.Path == "" && !strings.HasSuffix(requested(r), "/"):
		redirectBelow(w, r)
	case path == "":
		p.getList(w, r)
	case path == "lock":
		p.getLock(w, r)
	case path == "break":
		p.getBreak(w, r)
	case path == "events":
		p.getEvents(w, r)
	default:
		p.getFile(w, r, path)
	}
}

func (p *Page) refuseClosed(w http.ResponseWriter) {
	p.refuse(w, http.StatusServiceUnavailable, "This page is closed.",
		"Its server is shutting down. Reload it in a moment.")
}

// named is the lock that a request names. It reports false, and the request is
// answered, if no lock can have the name: nothing is kept of such a name, which
// may be long.
func (p *Page) named(w http.ResponseWriter, r *http.Request) (s subject, ok bool) {
	s = subjectOf(r.URL.Query())
	if err := renewer.CheckName(s.name); err != nil {
		f := faultOf(err)
		p.show(w, f.status, "refused.html", refusal{fault: f})
		return subject{}, false
	}
	return s, true
}

// requested is the path that the browser has asked for, which a prefix may have
// been cut from.
func requested(r *http.Request) string {
	path, _, _ := strings.Cut(r.RequestURI, "?")
	return path
}

// redirectBelow adds the slash without which links lead to the folder above.
func redirectBelow(w http.ResponseWriter, r *http.Request) {
	path := requested(r)
	w.Header().Set("Location", "./"+path[strings.LastIndex(path, "/")+1:]+"/")
	w.WriteHeader(http.StatusMovedPermanently)
}
