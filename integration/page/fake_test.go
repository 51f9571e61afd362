package page_test

import (
	"context"
	"fmt"
	"iter"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/lockbeat/lockbeat/inspect/page"
	"github.com/lockbeat/lockbeat/renewer/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fake is a store with locks that are what a test says. It can be broken into.
type fake struct {
	store.Inspector

	mu    sync.Mutex
	locks []store.Lock
	err   error
	broke []store.Breaking
	start time.Time // when all were renewed last
	close func()    // the page
}

func (f *fake) Engine() store.Store { return f }

// restart has all leases last for as long as at first.
func (f *fake) restart() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.start = time.Now()
}

// renew has all leases last for ttl from now.
func (f *fake) renew(ttl time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.start = time.Now()
	for i := range f.locks {
		f.locks[i].Slots[0].TTL = ttl
	}
}

func (f *fake) set(locks []store.Lock, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.locks, f.err, f.start = locks, err, time.Now()
}

func (f *fake) all() ([]store.Lock, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	locks := slices.Clone(f.locks)
	for i := range locks {
		locks[i].At = time.Now()
		locks[i].Slots = slices.Clone(locks[i].Slots)
		for j := range locks[i].Slots {
			locks[i].Slots[j].TTL -= time.Since(f.start)
		}
	}
	return locks, f.err
}

func (f *fake) List(
	_ context.Context, _ func(string, bool) bool,
) iter.Seq2[store.Lock, error] {
	return func(yield func(store.Lock, error) bool) {
		locks, err := f.all()
		for _, l := range locks {
			l.Places = nil
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
	locks, err := f.all()
	for _, l := range locks {
		if l.Name == name && l.Limit == limit {
			return l, err
		}
	}
	return store.Lock{Name: name, Limit: limit, At: time.Now()}, err
}

func (f *fake) Break(_ context.Context, b store.Breaking) store.Answer {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.broke = append(f.broke, b)
	for i := range f.locks {
		for j := range f.locks[i].Slots {
			if s := &f.locks[i].Slots[j]; f.locks[i].Name == b.Name && s.Fence == b.Fence {
				s.Broken = &b.Broken
				return store.Answer{Status: store.StatusHeld}
			}
		}
	}
	return store.Answer{Status: store.StatusGone}
}

// serve has a page of a fake below a path, where alice may break leases.
func serve(t *testing.T, locks ...store.Lock) (*fake, string) {
	t.Helper()
	return serveAs(t, page.Config{}, locks...)
}

func serveAs(t *testing.T, cfg page.Config, locks ...store.Lock) (*fake, string) {
	t.Helper()
	f := &fake{locks: locks, start: time.Now()}
	cfg.BreakAs = func(*http.Request) string { return "alice" }
	cfg.TraceURL = "https://traces.example/trace/{trace}"
	p, err := page.New(f, cfg)
	require.NoError(t, err)
	mux := http.NewServeMux()
	mux.Handle("/ops/locks/", http.StripPrefix("/ops/locks", p))
	s := httptest.NewServer(mux)
	f.close = sync.OnceFunc(func() { p.Close(); s.Close() })
	t.Cleanup(f.close)
	return f, s.URL + "/ops/locks/"
}

// held is a lock that has been held for a while, by a process that does op.
func held(name, node string, pid int, op string, since, ttl time.Duration, waiting int) store.Lock {
	start := time.Now().Add(-since)
	l := store.Lock{Name: name, Waiting: waiting, Slots: []store.Slot{{
		Holder: store.Holder{Node: node, PID: pid, Operation: op},
		Fence:  start.UnixMicro(), Since: start, TTL: ttl,
	}}}
	for i := range min(waiting, 1000) {
		l.Places = append(l.Places, store.Place{
			Holder:  store.Holder{Node: fmt.Sprint("worker-", 2+i%7), PID: 3000 + 17*i, Operation: op},
			Version: "v0.1.0", Since: start.Add(since * time.Duration(i+1) / time.Duration(waiting+2)),
		})
	}
	return l
}

// office are the locks of a company on a weekday.
func office() []store.Lock {
	const minute, hour = time.Minute, time.Hour
	locks := []store.Lock{
		held("leader:scheduler", "worker-1", 811, "lead", 31*hour+12*minute, 11*time.Second, 4),
		held("import:customers:eu", "batch-2", 4402, "import", 3*hour+7*minute+12*time.Second,
			9*time.Second, 2),
		held("report:2026-11", "batch-1", 3917, "report:monthly", 41*minute+33*time.Second,
			13*time.Second, 1),
		held("reindex:products", "search-1", 2250, "reindex", 12*minute+48*time.Second,
			12*time.Second, 0),
		held("account:7", "web-3", 22092, "transfer", 184*time.Second, 8*time.Second, 14),
		held("export:orders", "worker-4", 1208, "export", 94*time.Second, 14*time.Second, 0),
		held("invoice:88121", "worker-2", 977, "invoice:send", 38*time.Second, 10*time.Second, 0),
		held("sync:warehouse:3", "worker-3", 4711, "sync", 22*time.Second, 9*time.Second, 3),
		held("order:42", "web-1", 22071, "charge", 3*time.Second, 14*time.Second, 1),
		held("order:57", "web-2", 21984, "charge", 2*time.Second, 14*time.Second, 0),
		held("order:58", "web-1", 22071, "charge", time.Second, 15*time.Second, 0),
		held("user:alice@example.com", "web-2", 21984, "profile", 400*time.Millisecond,
			15*time.Second, 0),
	}
	chat := held("llm:chat", "gateway-1", 5120, "chat", 6*time.Second, 12*time.Second, 8)
	chat.Limit = true
	for i := range 3 {
		s := chat.Slots[0]
		s.PID += i + 1
		s.Fence += int64(i + 1)
		chat.Slots = append(chat.Slots, s)
	}
	broken := held("upload:tenant-12", "worker-5", 1377, "upload", 26*minute, 7*time.Second, 2)
	broken.Slots[0].Broken = &store.Broken{By: "alice", Why: "hangs since the deploy"}
	locks[4].Tasks, locks[4].Slots[0].Callers = 640, 3
	return append(locks, chat, broken)
}

// hostile are names that try to be something else.
var hostile = []string{
	`<script>document.title="pwned"</script>`,
	`"><img src=x onerror="document.title='pwned'">`,
	`' onmouseover='document.title="pwned"`,
	`</td></tr></table><script>document.title='pwned'</script>`,
	`javascript:document.title="pwned"//`,
	`{{.}}${document.title="pwned"}`,
	"gro.elpmaxe:\u202emoc.knab",
	"\u200f\u2067zero\u200bwidth\ufeff",
	"nul\x00\x01\x1b[31m\nline\ttab",
	"bytes\xff\xfe\xc3",
	"  spaces  ",
	`back\slash`,
	"a+b%20c&limit=1#frag?x=y/../z",
	"עברית:42", "emoji:🔒", "z\u0335\u0351a\u0336\u0352l\u0337\u0353g\u0338\u0354o",
	strings.Repeat("long/", 102) + "42",
}
