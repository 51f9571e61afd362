package lockmw_test

import (
	"context"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/script"
)

// tripwire is an observer that unwinds once, at one of its methods and for one
// name.
type tripwire struct {
	renewer.NopObserver

	at     string
	unwind func()
	armed  atomic.Bool
}

func (o *tripwire) trip(at, name string) {
	if at == o.at && name == "b" && o.armed.CompareAndSwap(true, false) {
		o.unwind()
	}
}

func (o *tripwire) AcquireStart(ctx context.Context, e renewer.AcquireStart) context.Context {
	o.trip("AcquireStart", e.Name)
	return ctx
}

func (o *tripwire) AcquireEnd(ctx context.Context, e renewer.AcquireEnd) context.Context {
	if e.Err == nil {
		o.trip("AcquireEnd", e.Name)
	}
	return ctx
}

func (o *tripwire) Released(_ context.Context, e renewer.Released) { o.trip("Released", e.Name) }

// An observer that panics, or ends the goroutine, while several locks are taken
// or freed does so in the caller's goroutine, where it can be recovered, and
// leaves none of the names dead.
func TestAPanicAmongSeveralLocksLeavesNoNameDead(t *testing.T) {
	t.Parallel()
	for how, unwind := range map[string]func(){"panic": func() {
		panic("boom")
	}, "Goexit": runtime.Goexit} {
		for _, at := range []string{"AcquireStart", "AcquireEnd", "Released"} {
			for _, contended := range []bool{false, true} {
				if contended && at != "AcquireEnd" {
					continue // as if it were not contended
				}
				t.Run(fmt.Sprint(how, " in ", at, ", contended: ", contended), func(t *testing.T) {
					t.Parallel()
					synctest.Test(t, func(t *testing.T) {
						o := &tripwire{at: at, unwind: unwind}
						s := script.New()
						k, err := renewer.New(s,
							renewer.Config{TTL: renewer.DefaultTTL, Observer: o})
						require.NoError(t, err)
						defer func() { assert.NoError(t, k.Shutdown(context.Background())) }()
						if contended { // then the names are taken one after the other
							holder, err := k.Acquire(t.Context(), renewer.Request{Name: "b"})
							require.NoError(t, err)
							time.AfterFunc(time.Second, func() {
								o.armed.Store(true)
								assert.NoError(t, holder.Release(context.Background()))
							})
						} else {
							o.armed.Store(true)
						}
						var recovered any
						ended := make(chan struct{})
						go func() {
							defer close(ended)
							defer func() { recovered = recover() }()
							_, _ = lockmw.Do(t.Context(), k, lockmw.All("a", "b", "c"), answer)
						}()
						<-ended
						require.False(t, o.armed.Load(), "it has unwound")
						if how == "panic" {
							require.Equal(t, "boom", recovered)
						}
						begun := time.Now()
						_, err = lockmw.Do(t.Context(), k, lockmw.All("a", "b", "c"), answer)
						require.NoError(t, err)
						require.Zero(t, time.Since(begun))
						synctest.Wait()
						for _, name := range []string{"a", "b", "c"} {
							require.Empty(t, s.Owner(name))
						}
					})
				})
			}
		}
	}
}
