package sql_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/httpmw"
	"github.com/lockbeat/lockbeat/lockmw/idempotent"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/memory"
)

// waiting is an observer that counts who has asked for a lock, and keeps what it is told of trouble.
type waiting struct {
	renewer.NopObserver

	name   string
	asked  chan struct{}
	mu     sync.Mutex
	faults []renewer.Fault
}

func (o *waiting) AcquireStart(ctx context.Context, e renewer.AcquireStart) context.Context {
	if e.Name == o.name {
		o.asked <- struct{}{}
	}
	return ctx
}

func (o *waiting) Fault(f renewer.Fault) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.faults = append(o.faults, f)
}

// payments are requests of one customer, as many as the pool has connections, and each with a key
// of its own. They come while a job has the customer's lock, which asks the database for something
// when all of them wait. pay has them answered.
func payments(t *testing.T, d *database, o *waiting, k *renewer.Keeper, pool int, pay http.Handler) {
	t.Helper()
	d.SetMaxOpenConns(pool)
	o.name, o.asked = lockmw.Key("customer", "7"), make(chan struct{}, 2*pool)
	var all sync.WaitGroup
	err := lockmw.Run(t.Context(), k, o.name, func(ctx context.Context) error {
		<-o.asked
		for i := range pool {
			all.Go(func() {
				r := httptest.NewRequestWithContext(t.Context(), http.MethodPost,
					"/customers/7/payments", strings.NewReader("{}"))
				r.Header.Set("Idempotency-Key", strconv.Itoa(i))
				w := httptest.NewRecorder()
				pay.ServeHTTP(w, r)
				assert.Equal(t, http.StatusOK, w.Code, w.Body.String())
			})
		}
		for range pool {
			<-o.asked
		}
		ctx, cancel := context.WithTimeout(ctx, lockmw.DefaultWait/2)
		defer cancel()
		_, err := d.ExecContext(ctx, "INSERT INTO "+d.effects+" (name, by) VALUES ('job', 1)")
		return err
	})
	require.NoError(t, err)
	all.Wait()
}

// Ten payments of a customer, whose lock a job had, took all connections of the pool for ten
// seconds: each waited for the lock in a transaction.
func TestWhatWaitsForALockHasNoConnection(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, d *database) {
		pool := 3
		if d.isSQLite() {
			pool = 1
		}
		o := new(waiting)
		k, err := renewer.New(memory.New(), renewer.Config{Observer: o})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, k.Shutdown(context.WithoutCancel(t.Context()))) })
		guard := idempotent.Middleware(k, idempotent.Config{
			Caller:   func(*http.Request) string { return "ann" },
			Lock:     httpmw.PathInt("customer", "id"),
			Recorder: d.recorder(t),
		})
		mux := http.NewServeMux()
		mux.Handle("POST /customers/{id}/payments", guard(http.HandlerFunc(
			func(_ http.ResponseWriter, r *http.Request) {
				assert.NoError(t, d.affect(r.Context(), "paid", 1))
			})))
		payments(t, d, o, k, pool, mux)
		require.Len(t, d.affectedBy(t, "paid"), pool)
		require.Empty(t, o.faults)
	})
}

// A lock further in is waited for in the transaction. The observer is told, once.
func TestALockFurtherInIsReported(t *testing.T) {
	t.Parallel()
	d := onSQLite(t)
	o := &waiting{asked: make(chan struct{}, 9)}
	k, err := renewer.New(memory.New(), renewer.Config{Observer: o})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, k.Shutdown(context.WithoutCancel(t.Context()))) })
	guard := idempotent.Middleware(k, idempotent.Config{
		Caller:   func(*http.Request) string { return "ann" },
		Recorder: d.recorder(t),
	})
	h := guard(httpmw.Middleware(k, func(*http.Request) string { return "customer:7" })(
		http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})))
	for i := range 3 {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", http.NoBody)
		r.Header.Set("Idempotency-Key", strconv.Itoa(i))
		h.ServeHTTP(httptest.NewRecorder(), r)
	}
	require.Len(t, o.faults, 1)
	require.ErrorIs(t, o.faults[0].Err, renewer.ErrConfig)
	require.Equal(t, "customer:7", o.faults[0].Name)
	require.Contains(t, o.faults[0].Err.Error(), "idempotent.Config.Lock")
}
