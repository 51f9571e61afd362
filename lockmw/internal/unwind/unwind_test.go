package unwind_test

import (
	"errors"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw/internal/unwind"
)

var (
	errFn    = errors.New("fn")
	errAfter = errors.New("after")
)

func TestAfterGetsTheFunctionsErrorAndSettlesTheCallers(t *testing.T) {
	t.Parallel()
	for _, own := range []error{nil, errFn} {
		calls := 0
		err := unwind.Then(func() error { return own }, func(err error) error {
			calls++
			require.Equal(t, own, err)
			return errAfter
		})
		require.Equal(t, errAfter, err)
		require.Equal(t, 1, calls)
	}
}

func TestAfterHearsThatTheFunctionDidNotReturn(t *testing.T) {
	t.Parallel()
	for name, fn := range map[string]func() error{
		"panic":  func() error { panic("boom") },
		"Goexit": func() error { runtime.Goexit(); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got error
			var recovered any
			returned, over := false, make(chan struct{})
			go func() {
				defer close(over)
				defer func() { recovered = recover() }()
				_ = unwind.Then(fn, func(err error) error { got = err; return nil })
				returned = true
			}()
			<-over
			require.Equal(t, unwind.Err, got)
			require.False(t, returned, "what fn did goes on")
			require.Equal(t, name == "panic", recovered == "boom")
		})
	}
}
