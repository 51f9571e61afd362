package main

import (
	"bytes"
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Everything is compared in a short run too. In a process of its own:
// a library that hangs may leave goroutines behind.
func TestShortRunAmongPeers(t *testing.T) {
	t.Parallel()
	var out, errs bytes.Buffer
	require.Equal(t, 0, run(t.Context(),
		[]string{
			"-peers", "-short", "-run",
			"cycle|onekey|wake|hold",
		}, &out, &errs), "%s\n%s", out.String(), errs.String())
	for _, want := range contenders {
		assert.GreaterOrEqual(t, strings.Count(out.String(), "| "+want+" "), 8,
			"a row in every table")
	}
	for _, want := range []string{
		"| acquire + release, goroutines: 1, p50 ÷ the best peer",
		"| acquire + release, goroutines: 16, cycles/s ÷ the best peer",
		"| acquire + release, goroutines: 64, client CPU ÷ the best peer",
		"| one key, 1 × 64, hand-offs/s",
		"| one key, 4 × 16, most ÷ least of a process",
		"| one key, 5 × 1, overtaken", "| wake-up, p50", "| 1000 leases, client CPU of the hold",
	} {
		assert.Contains(t, out.String(), want)
	}
	assert.Regexp(t, `one key, 1 × 64, overlaps, failed, hung +\| 0, 0, 0 +\|`, out.String())
	assert.Regexp(t, `one key, 4 × 16, overlaps, failed, hung +\| 0, 0, 0 +\|`, out.String())
}

func TestJain(t *testing.T) {
	t.Parallel()
	assert.InDelta(t, 1, jain([]int{7, 7, 7, 7}), 1e-9)
	assert.InDelta(t, .25, jain([]int{0, 9, 0, 0}), 1e-9)
	assert.Zero(t, jain([]int{0, 0}))
}

func TestGrantsThatOvertake(t *testing.T) {
	t.Parallel()
	assert.Zero(t, inverted(nil, 0))
	inOrder := []grant{{3, 30}, {1, 10}, {2, 20}}
	assert.Zero(t, inverted(inOrder, 0), "however they are listed")
	jumped := []grant{{1, 40}, {2, 20}, {3, 30}, {50, 60}}
	assert.InDelta(t, .5, inverted(jumped, 0), 1e-9,
		"two were served before the one who came first")
	assert.InDelta(t, .25, inverted(jumped, 1), 1e-9, "one of them came hardly later")
}

// fakeMutex hands out a lock to everybody at once, or fails. Its fourth lock ends the test's span.
type fakeMutex struct {
	err  error
	lent *atomic.Int32 // nil: nothing ends
	end  context.CancelFunc
}

//nolint:nilnil // as mutex says
func (m fakeMutex) lock(context.Context) (context.Context, error) {
	if m.lent != nil && m.lent.Add(1) == 4 {
		m.end()
	}
	return nil, m.err
}

func (m fakeMutex) extend(context.Context) error { return m.err }
func (m fakeMutex) unlock(context.Context) error { return nil }

func TestContendCountsFailures(t *testing.T) {
	t.Parallel()
	contendFour := func(err error, goroutines int) contended {
		ctx, end := context.WithCancel(t.Context())
		defer end()
		m := fakeMutex{err, new(atomic.Int32), end}
		c := &contender{mutex: func(string) mutex { return m }}
		return contend(ctx, c, "a", goroutines, time.Minute)
	}
	r := contendFour(errors.New("broken"), 2)
	assert.Zero(t, r.total())
	assert.Positive(t, r.Failed)
	assert.Equal(t, "broken", r.Err)
	assert.Zero(t, r.Hung)

	r = contendFour(nil, 1)
	assert.Positive(t, r.total())
	assert.Len(t, r.Grants, r.total())
	assert.Zero(t, r.Failed+r.Overlaps)
}

// Who renews for itself hears of a loss by the renewal that fails.
func TestKeepAliveTells(t *testing.T) {
	t.Parallel()
	gone := errors.New("gone")
	held, end := keepAlive(t.Context(), nil, fakeMutex{err: gone}, 30*time.Millisecond)
	defer end()
	<-held.Done()
	require.ErrorIs(t, context.Cause(held), gone)
	held, end = keepAlive(t.Context(), nil, fakeMutex{}, 30*time.Millisecond)
	require.NoError(t, held.Err())
	end()
	require.Error(t, held.Err())
}

func TestWhatHangsIsLeftBehind(t *testing.T) {
	t.Parallel()
	forever := make(chan struct{})
	defer close(forever)
	require.ErrorIs(t, within(10*time.Millisecond, func() error {
		<-forever
		return nil
	}), errNotEnded)
	require.NoError(t, within(time.Minute, func() error { return nil }))
}

func TestFiguresThatAreNone(t *testing.T) {
	t.Parallel()
	assert.Equal(t, "> 20s", msOf(math.Inf(1)))
	assert.Equal(t, "0.250 ms", msOf(.25))
	assert.Equal(t, "-2.5 ms", msOf(-2.5))
	assert.Equal(t, "-", times(1, 0))
	assert.Equal(t, "-", times(math.Inf(1), 2))
	assert.True(t, math.IsNaN(quantileOf(nil, .5)))
	assert.True(t, math.IsInf(quantileOf([]float64{1, math.Inf(1)}, .99), 1),
		"a cap is the longest")
	var s sample
	s.fail(nil)
	assert.Empty(t, s.failed)
	s.fail(errors.New("a|b\nc"))
	s.fail(errors.New("later"))
	assert.Equal(t, "a/b; c", s.failed)
}

// Results stand between the markers of their section, and nothing else is touched.
func TestPublish(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	page := filepath.Join(folder, peersPage)
	from, to := markers("wake")
	require.NoError(t, os.WriteFile(page, []byte("above\n"+from+"old\n"+to+"below\n"), 0o600))
	p := new(plots)
	p.add("wake", "Wake-up", "ms", func(who string) float64 {
		return map[string]float64{lockbeat: .2, peer: 3, redsyncRueidis: math.Inf(1)}[who]
	})
	p.add("nobody", "Nobody got there", "ms", func(string) float64 { return math.NaN() })
	for range 2 {
		require.NoError(t, publish(folder, "wake", "new\n", p))
	}
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	assert.Equal(t, "above\n"+from+"new\n\n![Wake-up](plots/wake.png)\n\n![Nobody got "+
		"there](plots/nobody.png)\n\n"+to+"below\n", string(text))
	for _, file := range []string{"wake.png", "nobody.png"} {
		image, err := os.ReadFile(filepath.Join(folder, "plots", file))
		require.NoError(t, err)
		assert.True(t, bytes.HasPrefix(image, []byte("\x89PNG")))
	}
	require.ErrorContains(t, publish(folder, "told", "", p), "told", "it has no markers there")
}

// The page has a place for every section.
func TestPageHasAllMarkers(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join("..", "docs", peersPage))
	require.NoError(t, err)
	for _, s := range peerSections {
		from, to := markers(s.name)
		assert.Equal(t, 1, strings.Count(string(page), from), s.name)
		assert.Equal(t, 1, strings.Count(string(page), to), s.name)
	}
}
