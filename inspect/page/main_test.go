package page_test

import (
	"bytes"
	"cmp"
	"context"
	"iter"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/lockbeat/lockbeat/inspect/page"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fake is a store that shows what a test says. The TTLs count from when it is
// read first.
type fake struct {
	store.Inspector

	mu     sync.Mutex
	start  time.Time
	locks  []store.Lock
	err    error
	takes  time.Duration // what a list takes
	deaf   time.Duration // until it ends with its context
	lists  int
	shows  []string
	broke  []store.Breaking
	answer store.Answer
	breaks chan struct{} // what breaks a lease waits for it; nil for none
}

func (f *fake) Engine() store.Store { return f }

// now is a lock as it is now.
func (f *fake) now(l store.Lock) store.Lock {
	l.At = time.Now()
	if f.start.IsZero() {
		f.start = l.At
	}
	l.Slots = slices.Clone(l.Slots)
	for i := range l.Slots {
		l.Slots[i].TTL -= l.At.Sub(f.start)
	}
	return l
}

func (f *fake) List(
	ctx context.Context, _ func(string, bool) bool,
) iter.Seq2[store.Lock, error] {
	return func(yield func(store.Lock, error) bool) {
		f.mu.Lock()
		f.lists++
		locks, err, takes := slices.Clone(f.locks), f.err, f.takes
		for i := range locks {
			locks[i] = f.now(locks[i])
		}
		f.mu.Unlock()
		if takes > 0 {
			select {
			case <-time.After(takes):
			case <-ctx.Done():
				<-time.After(f.deaf)
				err = ctx.Err()
			}
		}
		for _, l := range locks {
			if !yield(l, nil) {
				return
			}
		}
		if err != nil {
			yield(store.Lock{}, err)
		}
	}
}

func (f *fake) Show(_ context.Context, name string, limit bool) (store.Lock, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.shows = append(f.shows, name)
	for _, l := range f.locks {
		if l.Name == name && l.Limit == limit {
			return f.now(l), f.err
		}
	}
	return store.Lock{Name: name, Limit: limit, At: time.Now()}, f.err
}

func (f *fake) Break(_ context.Context, b store.Breaking) store.Answer {
	if f.breaks != nil {
		<-f.breaks
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.broke = append(f.broke, b)
	return f.answer
}

func (f *fake) change(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

// asked is how often the store was read: all of it, and single locks.
func (f *fake) asked() (lists, shows int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.lists, len(f.shows)
}

// held is a lock that was taken a while ago.
func held(name string, fence int64, ago time.Duration) store.Lock {
	return store.Lock{Name: name, Slots: []store.Slot{{
		Holder: store.Holder{Node: "web-1", PID: 42, Operation: "charge"},
		Fence:  fence, Since: time.Now().Add(-ago), TTL: 15 * time.Second,
	}}}
}

func alice(*http.Request) string { return "alice" }

// newPage is a page that is closed when the test ends.
func newPage(t *testing.T, f *fake, cfg page.Config) *page.Page {
	t.Helper()
	cfg.Log = cmp.Or(cfg.Log, renewer.Silent)
	p, err := page.New(f, cfg)
	require.NoError(t, err)
	t.Cleanup(p.Close)
	return p
}

// get asks a page for a path.
func get(path string) *http.Request {
	return httptest.NewRequest(http.MethodGet, path, http.NoBody)
}

func getFrom(client, path string) *http.Request {
	r := get(path)
	r.RemoteAddr = client + ":1234"
	return r
}

// lockPath is the path of a lock's page.
func lockPath(name string) string { return "/lock?name=" + url.QueryEscape(name) }

// looker is a browser that looks at a stream. Its events are those that it was
// sent.
type looker struct {
	http.ResponseWriter

	mu     sync.Mutex
	sent   bytes.Buffer
	stuck  chan struct{} // what is written waits for it; nil for none
	leave  context.CancelFunc
	Status *httptest.ResponseRecorder
	done   chan struct{}
}

// lookAt opens a stream until the test ends, or leave is called.
func lookAt(t *testing.T, h http.Handler, path string, stuck chan struct{}) *looker {
	t.Helper()
	return lookFrom(t, "192.0.2.1", h, path, stuck)
}

// lookFrom is lookAt for the browser of a client.
func lookFrom(
	t *testing.T, client string, h http.Handler, path string, stuck chan struct{},
) *looker {
	t.Helper()
	w := httptest.NewRecorder()
	ctx, leave := context.WithCancel(t.Context())
	l := &looker{ResponseWriter: w, Status: w, stuck: stuck, leave: leave, done: make(chan struct{})}
	go func() {
		defer close(l.done)
		h.ServeHTTP(l, getFrom(client, path).WithContext(ctx))
	}()
	t.Cleanup(func() { leave(); <-l.done })
	return l
}

func (l *looker) Write(p []byte) (int, error) {
	if l.stuck != nil {
		<-l.stuck
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.sent.Write(p)
}

func (l *looker) Flush() {}

// events are what was sent since the last call, without the greeting.
func (l *looker) events() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var all []string
	for e := range bytes.SplitSeq(l.sent.Bytes(), []byte("\n\n")) {
		if len(e) > 1 {
			all = append(all, string(e))
		}
	}
	l.sent.Reset()
	return all
}

func (l *looker) ended() bool {
	select {
	case <-l.done:
		return true
	default:
		return false
	}
}
