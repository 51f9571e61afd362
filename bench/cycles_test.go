package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/testutil/redistest"
)

// took is a contestant whose cycles took so many µs, with one goroutine.
func took(who, way string, us float64) *cycling {
	one := &cycling{who: who, way: way, times: []time.Duration{time.Duration(us * 1e3)}}
	one.rate.add(1e6 / us)
	one.allocs.add(1)
	one.client.add(us)
	return one
}

func TestCyclesEndWhenOneFails(t *testing.T) {
	t.Parallel()
	failure := errors.New("out of order")
	cycles := 0
	workers := []*cycleWorker{
		{cycle: func(context.Context) error { return nil }},
		{cycle: func(context.Context) error {
			cycles++
			if cycles == 3 {
				return failure
			}
			return nil
		}},
	}
	done, err := runCycles(t.Context(), workers, time.Hour)
	require.ErrorIs(t, err, failure)
	require.ErrorContains(t, err, "goroutine 1")
	assert.Len(t, done.Times, done.Cycles)
	assert.GreaterOrEqual(t, done.Cycles, 2)
	assert.Positive(t, done.Took)
}

// answering is a process that gives these answers, whatever it reads.
func answering(answers string) *childProcess {
	return &childProcess{
		stdin: deaf{io.Discard}, said: json.NewDecoder(strings.NewReader(answers)),
	}
}

type deaf struct{ io.Writer }

func (deaf) Close() error { return nil }

func TestLibraryThatFailsIsOutOfTheCase(t *testing.T) {
	t.Parallel()
	const cycle, failure = `{"Cycles": 2, "Times": [3000, 5000], "Took": 8000, "Allocs": 6}`,
		`{"Err": "out of order"}`
	server := redistest.Start(t)
	floor := &cycling{who: byHand, way: pipelined, child: answering(strings.Repeat(cycle, turns))}
	library := &cycling{who: peer, child: answering(cycle + failure + cycle)}
	all := cyclings{floor, library}
	require.NoError(t, cyclesRound(t.Context(), server, all, 1, time.Second))
	assert.Equal(t, "out of order", library.rate.failed)
	assert.True(t, math.IsNaN(library.p50()))
	assert.Len(t, floor.times, 2*turns)
	assert.InDelta(t, 250_000, floor.rate.median(), 1)
	assert.Equal(t, []float64{3}, floor.allocs.values)

	floor.child = answering(failure)
	require.ErrorContains(t, cyclesRound(t.Context(), server, all, 1, time.Second),
		"by hand (pipelined), 1 goroutines: out of order")
}

func TestEachConnectsByTheFastestWay(t *testing.T) {
	t.Parallel()
	failing := func(who, way string) *cycling {
		one := &cycling{who: who, way: way}
		one.rate.fail(errors.New("it hung"))
		return one
	}
	left := withFastest([]*cycling{
		took(byHand, synchronous, 50), took(byHand, pipelined, 40), took(byHand, gathered, 60),
		took(ourScripts, synchronous, 70), took(ourScripts, pipelined, 80), took(lockbeat, "", 90),
		failing(peer, ""), took(peer, gathered, 900),
		failing(redsyncRueidis, ""), failing(redsyncRueidis, gathered),
	})
	names := make([]string, len(left))
	for i, one := range left {
		names[i] = one.name()
		assert.Empty(t, one.times, "the warm-up does not count")
		assert.Empty(t, one.rate.values)
	}
	assert.Equal(t, []string{
		"by hand (pipelined)", "our scripts by hand (synchronous)", lockbeat,
		"rueidislock (MaxFlushDelay)", redsyncRueidis,
	}, names)
	assert.Empty(t, left[3].rate.failed)
	assert.Equal(t, "it hung", left[4].rate.failed)
}

// A request's context can be cancelled, and rueidis would pipeline for it.
func TestFloorOfARequestIsSynchronous(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	r, err := newRaw(t.Context(), server.Addr(), synchronous, cycleTTL)
	require.NoError(t, err)
	defer r.client.Close()
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	require.NoError(t, r.cycle(cancelled, "7"), "the client does not hear of it")
	left, err := leaseKeys(server)
	require.NoError(t, err)
	assert.Zero(t, left)
}

func TestTargetsOfCycles(t *testing.T) {
	t.Parallel()
	judge := func(c cycleCase, all cyclings) map[bool]int {
		verdicts := make(map[bool]int)
		for _, target := range append(floorTargets(c, all), peerTargets(c, all)...) {
			verdicts[target.ok]++
		}
		return verdicts
	}
	all := cyclings{
		took(byHand, synchronous, 50), took(ourScripts, synchronous, 60), took(lockbeat, "", 55),
		took(inBackground, "", 30), took(peer, "", 60), took(redsyncRueidis, "", 70),
	}
	lone, delayed := cycleCase{1, 0}, cycleCase{1, networkDelay}
	assert.Equal(t, map[bool]int{true: 7}, judge(lone, all))
	assert.Equal(t, map[bool]int{false: 1, true: 1}, judge(delayed, all))
	assert.Equal(t, map[bool]int{false: 1}, judge(cycleCase{4, 0}, all))
	all[2] = took(lockbeat, "", 10)
	assert.Equal(t, map[bool]int{true: 2}, judge(delayed, all))
	assert.Equal(t, map[bool]int{true: 3}, judge(cycleCase{64, 0}, all))
	assert.Equal(t, map[bool]int{true: 1}, judge(cycleCase{1024, 0}, all))
	all[2].rate.fail(errors.New("it hung"))
	assert.Equal(t, map[bool]int{false: 2}, judge(delayed, all[:3]), "what failed reaches nothing")
	assert.Equal(t, map[bool]int{false: 1}, judge(cycleCase{16, 0}, all[:3]),
		"without a peer there is none to be faster than")
	assert.Contains(t, all.table().String(), "it hung")
}
