package renewer_test

import (
	"context"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/memory"
	"github.com/lockbeat/lockbeat/renewer/store"
	"github.com/lockbeat/lockbeat/testutil/script"
)

// A trap goes off once in the method that it is set for, in the caller's goroutine.
type trap struct {
	in   atomic.Value // string
	spin func()       // panics, or ends the goroutine
	hits atomic.Int32
}

func (p *trap) set(in string) { p.in.Store(in) }

func (p *trap) step(in string) {
	if p.in.CompareAndSwap(in, "") {
		p.hits.Add(1)
		p.spin()
	}
}

// noContext is the trap of an observer whose AcquireEnd returns nil.
const noContext = "AcquireEnd, no context"

// trapObserver is an Observer with a trap in each method.
func trapObserver(p *trap) renewer.Observer {
	return hearer{hear: func(ctx context.Context, method string) context.Context {
		p.step(method)
		if method+", no context" == noContext && p.in.CompareAndSwap(noContext, "") {
			p.hits.Add(1)
			return nil
		}
		return ctx
	}}
}

// trapStore is a store with a trap before and after each question of a caller.
type trapStore struct {
	*script.Store
	*trap
}

func (s trapStore) Engine() store.Store { return s }

func (s trapStore) Acquire(ctx context.Context, claims []store.Claim) []store.Grant {
	s.step("store.Acquire")
	defer s.step("store.Acquire, carried out")
	return s.Store.Acquire(ctx, claims)
}

func (s trapStore) Release(ctx context.Context, holds []store.Hold) []store.Answer {
	s.step("store.Release")
	defer s.step("store.Release, carried out")
	return s.Store.Release(ctx, holds)
}

func (s trapStore) Renew(ctx context.Context, holds []store.Hold) []store.Answer {
	s.step("store.Renew")
	return s.Store.Renew(ctx, holds)
}

func (s trapStore) Watch(name string, limit bool, wake func(error)) func() {
	s.step("store.Watch")
	stop := s.Store.Watch(name, limit, wake)
	return func() {
		stop()
		s.step("unwatch")
	}
}

func (s trapStore) Shard(string) int { s.step("store.Shard"); return 0 }

// trapped is what a path runs in.
type trapped struct {
	t *testing.T
	s *script.Store
	k *renewer.Keeper
	*trap
}

// cycle acquires a lock and gives it back.
func (p trapped) cycle(ctx context.Context, more ...renewer.Request) {
	if l, err := p.k.Acquire(ctx, named("a", more)); err == nil {
		_ = l.Context() // as one who runs under it
		_ = l.Release(context.WithoutCancel(ctx))
	}
}

// lateCycle is cycle, in a goroutine of its own: it gets the lock when another lets it go.
func (p trapped) lateCycle(ctx context.Context, more ...renewer.Request) (done <-chan struct{}) {
	c := make(chan struct{})
	go func() {
		defer func() { _ = recover(); close(c) }()
		p.cycle(ctx, more...)
	}()
	synctest.Wait()
	return c
}

// The paths that a caller may take, each with the traps that it may step into.
var trappedPaths = map[string]struct {
	walk func(p trapped, in string)
	in   []string
}{
	"plain": {
		func(p trapped, in string) { p.set(in); p.cycle(p.t.Context()) },
		[]string{
			"AcquireStart", "Claim", "AcquireEnd", noContext, "Released",
			"store.Acquire", "store.Acquire, carried out", "store.Release",
			"store.Release, carried out", "store.Shard",
		},
	},
	"several at once": {
		func(p trapped, in string) {
			p.set(in)
			leases, _ := p.k.AcquireEach(p.t.Context(), requests("b", "a"))
			leases = granted(leases)
			for _, l := range leases {
				_ = l.Context()
			}
			defer p.k.ReleaseEach(p.t.Context(), leases, true)
			p.k.ReleaseEach(p.t.Context(), leases, false)
		},
		[]string{
			"AcquireStart", "Claim", "AcquireEnd", noContext, "Released",
			"store.Acquire", "store.Acquire, carried out", "store.Release",
			"store.Release, carried out", "store.Shard",
		},
	},
	"without a context that ends": {
		func(p trapped, in string) { p.set(in); p.cycle(context.Background()) },
		[]string{
			"Claim", "AcquireEnd", "Released", "store.Acquire", "store.Acquire, carried out",
			"store.Release",
		},
	},
	"waited for another process": {
		func(p trapped, in string) {
			p.s.Script(script.Acquire, script.Taken(other, time.Hour),
				script.Taken(other, time.Hour))
			p.set(in)
			p.cycle(p.t.Context())
		},
		[]string{"Claim", "AcquireEnd", "Released", "store.Acquire", "store.Watch", "unwatch"},
	},
	"waited in line": {
		func(p trapped, in string) {
			l, err := p.k.Acquire(p.t.Context(), renewer.Request{Name: "a"})
			require.NoError(p.t, err)
			time.AfterFunc(time.Second, func() { p.set(in); _ = l.Abort(context.Background()) })
			p.cycle(p.t.Context())
		},
		[]string{"Claim", "AcquireEnd", "store.Acquire"},
	},
	"with others behind": {
		func(p trapped, in string) {
			p.s.Script(script.Acquire, script.Pass().Late(time.Second))
			time.AfterFunc(time.Second/2, func() {
				for _, r := range []renewer.Request{{MaxWait: time.Hour}, {Try: true}} {
					go func() {
						defer func() { _ = recover() }()
						p.cycle(context.Background(), r)
					}()
				}
				waitFor(time.Millisecond) // they stand in line
				p.set(in)
			})
			p.cycle(p.t.Context())
		},
		[]string{"AcquireEnd", "Released", "store.Acquire, carried out", "store.Release"},
	},
	"refused by another process": {
		func(p trapped, in string) {
			p.s.Script(script.Acquire, script.Taken(other, 0))
			p.set(in)
			_, _ = p.k.Acquire(p.t.Context(), renewer.Request{Name: "a", Try: true})
		},
		[]string{
			"AcquireStart", "Claim", "AcquireEnd", "store.Acquire",
			"store.Acquire, carried out",
		},
	},
	"refused in this process": {
		func(p trapped, in string) {
			l, err := p.k.Acquire(p.t.Context(), renewer.Request{Name: "a"})
			require.NoError(p.t, err)
			defer func() { _ = l.Release(context.Background()) }()
			p.set(in)
			_, _ = p.k.Acquire(p.t.Context(), renewer.Request{Name: "a", Try: true})
		},
		[]string{"AcquireStart", "AcquireEnd"},
	},
	"the store is down": {
		func(p trapped, in string) {
			p.s.Script(script.Acquire, script.Fail(errDown))
			p.set(in)
			_, _ = p.k.Acquire(p.t.Context(), renewer.Request{Name: "a", Try: true})
		},
		[]string{"Claim", "AcquireEnd", "store.Acquire"},
	},
	"left while it asked": {
		func(p trapped, in string) {
			p.s.Script(script.Acquire, script.Pass().Late(time.Second))
			ctx, cancel := context.WithTimeout(p.t.Context(), time.Millisecond)
			defer cancel()
			p.set(in)
			p.cycle(ctx)
		},
		[]string{"AcquireEnd", "store.Acquire, carried out"},
	},
	"found lost at its release": {
		func(p trapped, in string) {
			l, err := p.k.Acquire(p.t.Context(), renewer.Request{Name: "a"})
			require.NoError(p.t, err)
			p.s.Delete("a")
			p.set(in)
			_ = l.Release(p.t.Context())
		},
		[]string{"Lost", "Released", "store.Release"},
	},
	"lost before its release": {
		func(p trapped, in string) {
			l, err := p.k.Acquire(p.t.Context(), renewer.Request{
				Name: "a", Manual: 2 * time.Second,
			})
			require.NoError(p.t, err)
			<-l.Context().Done()
			p.set(in)
			_ = l.Release(p.t.Context())
		},
		[]string{"Released"},
	},
	"extended": {
		func(p trapped, in string) {
			l, err := p.k.Acquire(p.t.Context(), renewer.Request{
				Name: "a", Manual: 10 * time.Second,
			})
			require.NoError(p.t, err)
			defer func() { _ = l.Release(context.Background()) }()
			p.set(in)
			_ = l.Extend(p.t.Context(), 20*time.Second)
		},
		[]string{"RenewStart", "Renewed", "store.Renew"},
	},
	"found lost when extended": {
		func(p trapped, in string) {
			l, err := p.k.Acquire(p.t.Context(), renewer.Request{
				Name: "a", Manual: 10 * time.Second,
			})
			require.NoError(p.t, err)
			defer func() { _ = l.Release(context.Background()) }()
			p.s.Delete("a")
			p.set(in)
			_ = l.Extend(p.t.Context(), 20*time.Second)
		},
		[]string{"Lost", "Renewed"},
	},
}

// whoEnds are the ways in which a goroutine leaves a method without returning from it.
var whoEnds = map[string]func(){"panic": func() { panic("trapped") }, "Goexit": runtime.Goexit}

// A name is never dead: an observer or a store panics once, the
// program recovers, and the next caller has the lock at once.
func TestAPanicLeavesNoNameDead(t *testing.T) {
	t.Parallel()
	for way, spin := range whoEnds {
		for name, path := range trappedPaths {
			for _, in := range path.in {
				t.Run(way+"/"+name+"/"+in, func(t *testing.T) {
					t.Parallel()
					walkTrapped(t, spin, func(p trapped) { path.walk(p, in) })
				})
			}
		}
	}
}

// The same for a caller who is handed the lock, and for one who hands it on.
func TestAPanicInAHandOffLeavesNoNameDead(t *testing.T) {
	t.Parallel()
	for way, spin := range whoEnds {
		for _, in := range []string{"Claim", "AcquireEnd", noContext, "Released", "store.Shard"} {
			t.Run(way+"/"+in, func(t *testing.T) {
				t.Parallel()
				walkTrapped(t, spin, func(p trapped) {
					callers := line(p.t, p.s, p.k, 1)
					handed := p.lateCycle(p.t.Context())
					last := p.lateCycle(p.t.Context())
					p.set(in)
					_ = callers[0].lease.Release(p.t.Context())
					<-handed
					<-last
				})
			})
		}
	}
}

// walkTrapped walks a path into the trap that is set on it, and sees
// that the lock can be had afterwards.
func walkTrapped(t *testing.T, spin func(), walk func(trapped)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p := trapped{t: t, s: script.New(), trap: &trap{spin: spin}}
		p.set("")
		cfg := config
		cfg.Observer = trapObserver(p.trap)
		var err error
		p.k, err = renewer.New(trapStore{p.s, p.trap}, cfg)
		require.NoError(t, err)
		defer func() { _ = p.k.Shutdown(within(t, time.Minute)) }()
		over := make(chan struct{})
		go func() {
			defer close(over)
			defer func() { _ = recover() }() // as a server does
			walk(p)
		}()
		<-over
		require.EqualValues(t, 1, p.hits.Load(), "the trap went off")
		for p.s.Left(script.Acquire) > 0 { // what nobody came to ask
			p.s.Acquire(t.Context(),
				[]store.Claim{{Name: "b", Owner: "nobody", TTL: time.Millisecond}})
		}
		if p.s.Owner("a") == "stranger" { // by the script
			p.s.Delete("a")
		}

		begun := time.Now()
		l, err := p.k.Acquire(t.Context(), renewer.Request{Name: "a", MaxWait: time.Minute})
		require.NoError(t, err)
		require.Zero(t, time.Since(begun), "the next has the lock at once")
		waitFor(5 * time.Minute)
		require.True(t, l.Valid(), "and keeps it")
		require.NoError(t, l.Release(t.Context()))
		synctest.Wait()
		require.Empty(t, p.s.Owner("a"))
		names, orphans := p.k.NamesAndOrphans()
		require.Zero(t, names+orphans)
		begun = time.Now()
		require.NoError(t, p.k.Shutdown(within(t, time.Minute)))
		require.Zero(t, time.Since(begun), "nothing is waited for")
	})
}

// The head's watch has panicked: the next in line watches for itself.
func TestAPanicOfAWatchLeavesTheNextOneWatching(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := trapped{t: t, s: script.New(), trap: &trap{spin: whoEnds["panic"]}}
		p.set("")
		var err error
		p.k, err = renewer.New(trapStore{p.s, p.trap}, config)
		require.NoError(t, err)
		p.s.Script(script.Acquire, script.Taken(other, time.Hour).Late(time.Second))
		p.set("store.Watch")
		head := p.lateCycle(t.Context())
		next := p.lateCycle(t.Context())
		<-head
		synctest.Wait()
		require.Equal(t, 1, p.s.Watchers("a"))
		p.s.Delete("a")
		begun := time.Now()
		p.s.Wake("a", nil)
		<-next
		require.Zero(t, time.Since(begun))
		require.NoError(t, p.k.Shutdown(t.Context()))
	})
}

// An observer panics when Shutdown tells an operation: the panic
// passes through Shutdown, which is finished all the same.
func TestAPanicInShutdown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := trapped{t: t, s: script.New(), trap: &trap{spin: whoEnds["panic"]}}
		p.set("Lost")
		cfg := config
		cfg.Observer = trapObserver(p.trap)
		var err error
		p.k, err = renewer.New(p.s, cfg)
		require.NoError(t, err)
		l := acquire(t, p.k, "a")
		require.Panics(t, func() { _ = p.k.Shutdown(ended()) })
		require.ErrorIs(t, context.Cause(l.Context()), renewer.ErrLost)
		require.ErrorContains(t, p.k.Shutdown(t.Context()), "1 operations still ran")
		require.Empty(t, p.s.Owner("a"))
		require.ErrorIs(t, l.Release(t.Context()), renewer.ErrLost)
	})
}

// The observer panics when it hears of the lease that a call replaces: the call stands in line by
// then, and leaves it.
func TestAPanicOfACallThatReplaces(t *testing.T) {
	t.Parallel()
	for way, spin := range whoEnds {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p := trapped{t: t, trap: &trap{spin: spin}}
				cfg := config
				cfg.Observer, cfg.Log = trapObserver(p.trap), renewer.Silent
				var err error
				p.k, err = renewer.New(memory.New(), cfg)
				require.NoError(t, err)
				replaces := renewer.Request{Newest: renewer.NewestReplaces}
				holder, err := p.k.Acquire(t.Context(), named("a", []renewer.Request{replaces}))
				require.NoError(t, err)
				next := p.lateCycle(t.Context())
				p.set("Lost")
				<-p.lateCycle(t.Context(), replaces)
				require.EqualValues(t, 1, p.hits.Load())
				require.Len(t, slices.Collect(p.k.Waiting()), 1, "the other alone waits still")
				require.ErrorIs(t, holder.Release(t.Context()), renewer.ErrReplaced)
				<-next
				last, err := p.k.Acquire(t.Context(), renewer.Request{Name: "a", Try: true})
				require.NoError(t, err)
				require.NoError(t, last.Release(t.Context()))
				require.NoError(t, p.k.Shutdown(t.Context()))
			})
		})
	}
}
