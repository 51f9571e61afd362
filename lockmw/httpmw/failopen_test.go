package httpmw_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/httpmw"
	"github.com/lockbeat/lockbeat/lockmw/internal/httpguard"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/script"
)

// unlockedObserver hears of operations that run without their lock.
type unlockedObserver struct {
	renewer.NopObserver

	mu    sync.Mutex
	heard []renewer.Unlocked
}

func (o *unlockedObserver) Unlocked(_ context.Context, e renewer.Unlocked) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.heard = append(o.heard, e)
	if e.Operation == "panics" {
		panic("observer")
	}
}

// inOutage calls f in a bubble in which the store has not answered for long enough.
func inOutage(
	t *testing.T, f func(t *testing.T, k *renewer.Keeper, s *script.Store, o *unlockedObserver),
) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s, o := script.New(), &unlockedObserver{}
		k, err := renewer.New(s,
			renewer.Config{TTL: renewer.DefaultTTL, Observer: o, Log: renewer.Silent})
		require.NoError(t, err)
		s.Default(script.Acquire, script.Fail(errDown))
		_, err = k.TryAcquire(t.Context(), "any")
		require.ErrorIs(t, err, renewer.ErrUnavailable)
		<-time.After(k.Config().FailOver)
		synctest.Wait()
		f(t, k, s, o)
		require.NoError(t, k.Shutdown(t.Context()))
	})
}

func TestFailOpenInAnOutage(t *testing.T) {
	t.Parallel()
	inOutage(t, func(t *testing.T, k *renewer.Keeper, _ *script.Store, o *unlockedObserver) {
		h := httpmw.Exclusive(k, byName("a"), httpmw.Wait(time.Second), httpmw.FailOpen(9),
			httpmw.Operation("transfer"))(
			http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				assert.False(t, lockmw.Held(r.Context(), "a"))
				assert.Zero(t, lockmw.Fence(r.Context()), "nor that of an outer lock")
				ok(w, r)
			}))
		begun := time.Now()
		assert.Equal(t, "done",
			do(h, get(t, "/").WithContext(lockmw.WithFence(t.Context(), 7))).Text)
		assert.Zero(t, time.Since(begun))
		require.Len(t, o.heard, 1)
		require.ErrorIs(t, o.heard[0].Err, renewer.ErrUnavailable)
		o.heard[0].Err = nil
		assert.Equal(t, renewer.Unlocked{
			Name: "a", Operation: "transfer",
			Outage: k.Config().FailOver,
		}, o.heard[0])
	})
}

// Under load requests run out of time while the store answers others: a client could get rid of
// the lock by making the store busy.
func TestFailOpenIsForOutagesAndNotForLoad(t *testing.T) {
	t.Parallel()
	inOutage(t, func(t *testing.T, k *renewer.Keeper, s *script.Store, o *unlockedObserver) {
		h := httpmw.Exclusive(k, byName("a"), httpmw.Wait(time.Second),
			httpmw.FailOpen(9))(never(t))
		s.Script(script.Acquire, script.Pass())
		for k.Outage("") != 0 {
			<-time.After(time.Millisecond)
		}
		s.Script(script.Acquire, script.Hang())
		requireProblem(t, do(h, get(t, "/")), http.StatusServiceUnavailable, httpguard.TypeUnavailable)
		for _, up := range []error{renewer.ErrOverloaded, renewer.ErrRejected} {
			s.Default(script.Acquire, script.Fail(fmt.Errorf("%w: by a server that is up", up)))
			for range 3 {
				requireProblem(t, do(h, get(t, "/")), http.StatusServiceUnavailable,
					httpguard.TypeUnavailable)
				<-time.After(k.Config().FailOver)
			}
		}
		assert.Empty(t, o.heard)
	})
}

func TestFailOpenIsBounded(t *testing.T) {
	t.Parallel()
	inOutage(t, func(t *testing.T, k *renewer.Keeper, _ *script.Store, o *unlockedObserver) {
		var running sync.WaitGroup
		finish := make(chan struct{})
		byHeader := func(r *http.Request) (string, error) { return r.Header.Get("X"), nil }
		h := httpmw.Exclusive(k, byHeader, httpmw.Refuse(409), httpmw.FailOpen(2))(http.HandlerFunc(
			func(w http.ResponseWriter, r *http.Request) {
				<-finish
				ok(w, r)
			}))
		ask := func(name string) answer {
			r := get(t, "/")
			r.Header.Set("X", name)
			return do(h, r)
		}
		running.Go(func() { assert.Equal(t, "done", ask("a").Text) })
		synctest.Wait()
		requireProblem(t, ask("a"), http.StatusServiceUnavailable, httpguard.TypeUnavailable)
		running.Go(func() { assert.Equal(t, "done", ask("b").Text) })
		synctest.Wait()
		requireProblem(t, ask("c"), http.StatusServiceUnavailable, httpguard.TypeUnavailable)
		close(finish)
		running.Wait()
		assert.Equal(t, "done", ask("a").Text)
		assert.Equal(t, "done", ask("c").Text)
		assert.Len(t, o.heard, 4)
	})
}

// What ends by a panic does not count for ever.
func TestFailOpenAfterPanics(t *testing.T) {
	t.Parallel()
	inOutage(t, func(t *testing.T, k *renewer.Keeper, _ *script.Store, _ *unlockedObserver) {
		broken := true
		handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if broken {
				panic("handler")
			}
			ok(w, r)
		})
		h := httpmw.Exclusive(k, byName("a"), httpmw.Refuse(409), httpmw.FailOpen(1))(handler)
		assert.PanicsWithValue(t, "handler", func() { do(h, get(t, "/")) })
		broken = false
		assert.Equal(t, "done", do(h, get(t, "/")).Text)

		operation := httpmw.Operation("panics")
		h = httpmw.Exclusive(k, byName("a"), httpmw.Refuse(409), httpmw.FailOpen(1),
			operation)(handler)
		for range 2 {
			assert.PanicsWithValue(t, "observer", func() { do(h, get(t, "/")) })
		}
	})
}

// Several names are each one's own, also without their locks.
func TestFailOpenTakesEachOfSeveralNames(t *testing.T) {
	t.Parallel()
	inOutage(t, func(t *testing.T, k *renewer.Keeper, _ *script.Store, o *unlockedObserver) {
		finish := make(chan struct{})
		shared := newShared(k, finish)
		var first sync.WaitGroup
		first.Go(func() { assert.Equal(t, "done", shared("a", "c").Text) })
		synctest.Wait()
		for _, names := range [][]string{{"a"}, {"b", "a"}, {"c"}} {
			requireProblem(t, shared(names...), http.StatusServiceUnavailable,
				httpguard.TypeUnavailable)
		}
		close(finish)
		first.Wait()
		assert.Equal(t, "done", shared("b", "a").Text)
		var told []string
		for _, e := range o.heard {
			told = append(told, e.Name)
		}
		assert.Equal(t, []string{"a", "c", "a", "b"}, told)
	})
}

// newShared returns a way to ask one handler for names.
func newShared(k *renewer.Keeper, finish <-chan struct{}) func(names ...string) answer {
	byHeader := func(r *http.Request) (string, error) {
		return lockmw.Keys(r.Header.Values("X")...), nil
	}
	h := httpmw.Exclusive(k, byHeader, httpmw.Refuse(409),
		httpmw.FailOpen(9))(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		<-finish
		ok(w, r)
	}))
	return func(names ...string) answer {
		r := httptest.NewRequest(http.MethodGet, "/", http.NoBody) //nolint:noctx // a bubble's
		for _, name := range names {
			r.Header.Add("X", name)
		}
		return do(h, r)
	}
}

// Of a limit as many run without a slot as it says, within those of the handler; a lock of the same
// name is another thing.
func TestFailOpenOfALimit(t *testing.T) {
	t.Parallel()
	byHeader := func(r *http.Request) (string, error) {
		if user := r.Header.Get("X"); user != "lock" {
			return lockmw.Limits(lockmw.Limit(user, 2), lockmw.Limit("all", 9)), nil
		}
		return "all", nil
	}
	for name, c := range map[string]struct {
		key  httpmw.KeyFunc
		opts []httpmw.Option
	}{
		"named":  {byHeader, nil},
		"AtMost": {byUserHeader, []httpmw.Option{httpmw.AtMost(2)}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inOutage(t, func(t *testing.T, k *renewer.Keeper, _ *script.Store, _ *unlockedObserver) {
				finish := make(chan struct{})
				h := httpmw.Exclusive(k, c.key, append(c.opts, httpmw.Refuse(409),
					httpmw.FailOpen(4))...)(http.HandlerFunc(
					func(w http.ResponseWriter, r *http.Request) {
						<-finish
						ok(w, r)
					}))
				of := func(user string) *http.Request {
					r := get(t, "/")
					r.Header.Set("X", user)
					return r
				}
				refused := func(user string) {
					requireProblem(t, do(h, of(user)), http.StatusServiceUnavailable,
						httpguard.TypeUnavailable)
				}
				eve := crowd(t, 2, h, func() *http.Request { return of("eve") })
				refused("eve")
				lock := crowd(t, 1, h, func() *http.Request { return of("lock") })
				ann := crowd(t, 1, h, func() *http.Request { return of("ann") })
				refused("ann") // the fifth
				close(finish)
				eve()
				lock()
				ann()
				assert.Equal(t, "done", do(h, of("eve")).Text)
			})
		})
	}
}

func byUserHeader(r *http.Request) (string, error) { return r.Header.Get("X"), nil }
