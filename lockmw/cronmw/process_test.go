package cronmw_test

import (
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw/cronmw"
	"github.com/lockbeat/lockbeat/testutil/redistest"
)

// longEnv asks for the whole of it, which takes minutes.
const longEnv = "LOCKBEAT_LONG"

const processes = 5

// Five processes on a real Redis, whose clocks differ, and a job of a
// millisecond: each tick is run once.
func TestProcessesWithSkewedClocks(t *testing.T) {
	t.Parallel()
	// The same in proportion, but that a busy machine is late by the same time in both.
	every, apart, ticks := 1200*time.Millisecond, 250*time.Millisecond, 12
	if os.Getenv(longEnv) == "1" {
		every, apart, ticks = 2400*time.Millisecond, 500*time.Millisecond, 60
	}
	server := redistest.Start(t)
	var children []*child
	for i := range processes {
		children = append(children, role{
			Node: fmt.Sprintf("node-%d", i+1), Redis: server.Addr(), Every: every,
			Ahead: time.Duration(i) * apart / (processes - 1), TTL: time.Second,
		}.start(t))
	}
	// From the first tick that all of them were there for, by any of their clocks.
	first := time.Now().Add(apart).Truncate(every).Add(every)
	last := first.Add(time.Duration(ticks-1) * every)
	<-time.After(time.Until(last) + every/2 + apart)

	met := make(map[int64]int) // the nodes that ran or skipped a tick
	for _, c := range children {
		for _, tell := range c.stop(t) {
			if tell.What == cronmw.OutcomeRan.String() ||
				tell.What == cronmw.OutcomeSkipped.String() {
				met[tell.Tick]++
			}
			if tell.Err != "" {
				t.Logf("%s: %+v", c.Node, tell)
			}
		}
	}
	once := 0
	for tick := first; !tick.After(last); tick = tick.Add(every) {
		switch n := runsOf(t, server, tick); {
		case n == 1:
			once++
		case n == 0 && met[tick.UnixMilli()] == 0:
			t.Logf("this machine was so busy that all nodes were late for the tick at %v, and "+
				"left it out", tick)
		default:
			assert.Fail(t, "not once",
				"%d runs of the tick at %v, which %d nodes took note of in time",
				n, tick, met[tick.UnixMilli()])
		}
	}
	assert.GreaterOrEqual(t, once, ticks*3/4)
	keys, err := server.Do("KEYS", "*cron*").AsStrSlice()
	require.NoError(t, err)
	for _, key := range keys {
		ttl, err := server.Do("PTTL", key).AsInt64()
		require.NoError(t, err)
		assert.NotEqual(t, int64(-1), ttl, "%s never lapses", key)
	}
}

// runsOf is how often a tick was run.
func runsOf(t *testing.T, server *redistest.Server, tick time.Time) int {
	t.Helper()
	text, err := server.Do("HGET", "runs", strconv.FormatInt(tick.UnixMilli(), 10)).ToString()
	if err != nil {
		return 0
	}
	n, err := strconv.Atoi(text)
	require.NoError(t, err)
	return n
}

// The node that runs is killed in the middle: the next tick is run
// elsewhere, and no node runs the rest of this one.
func TestTheRunningProcessIsKilled(t *testing.T) {
	t.Parallel()
	const every = 2 * time.Second
	server := redistest.Start(t)
	all := make(chan told, 1000)
	from := make(map[string]*child)
	for i := range processes {
		c := role{
			Node: fmt.Sprintf("node-%d", i+1), Redis: server.Addr(), Every: every,
			Ahead: time.Duration(i) * 20 * time.Millisecond, TTL: time.Second, Hangs: true,
		}.start(t)
		from[c.Node] = c
		go func() {
			for tell := range c.reports {
				all <- told{c.Node, tell}
			}
		}()
	}
	victim := await(t, all, func(r told) bool { return r.What == hangs })
	require.NoError(t, from[victim.node].cmd.Process.Kill())
	begun := time.UnixMilli(victim.Tick)
	next := await(t, all, func(r told) bool { return r.What == cronmw.OutcomeRan.String() })
	assert.NotEqual(t, victim.node, next.node)
	assert.Equal(t, every, time.UnixMilli(next.Tick).Sub(begun), "of all ticks, the next one")
	await(t, all, func(r told) bool {
		return r.What == cronmw.OutcomeRan.String() && r.Tick > next.Tick
	})
	assert.Equal(t, 1, runsOf(t, server, begun))
	assert.Equal(t, 1, runsOf(t, server, time.UnixMilli(next.Tick)))
}

// told is a report, and whose.
type told struct {
	node string
	report
}

// await waits for a report.
func await(t *testing.T, all <-chan told, is func(told) bool) told {
	t.Helper()
	late := time.After(30 * time.Second)
	for {
		select {
		case r := <-all:
			if is(r) {
				return r
			}
		case <-late:
			require.Fail(t, "it did not happen")
		}
	}
}
