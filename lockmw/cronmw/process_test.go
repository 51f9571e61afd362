package cronmw_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw/cronmw"
	"github.com/lockbeat/lockbeat/testutil/redistest"
	"github.com/lockbeat/lockbeat/testutil/suite"
)

const processes = 5

// Five processes whose clocks are up to 10 minutes apart, a job of a millisecond, and a server that
// forgets nothing. Processes are killed and started again, and so is the server. Each tick is begun
// once, or the next one is told that it was missed.
func TestProcessesWithSkewedClocks(t *testing.T) {
	suite.OnlyLong(t)
	t.Parallel()
	every, ticks := suite.Size(600*time.Millisecond, time.Second), suite.Size(14, 200)
	server := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always")
	log := filepath.Join(t.TempDir(), "log")
	begin := func(i int) *child {
		return role{
			Node: fmt.Sprintf("node-%d", i+1), Redis: server.Addr(), Every: every, Log: log,
			Ahead: rand.N(10*time.Minute) - 5*time.Minute, TTL: time.Second,
		}.start(t)
	}
	children := make([]*child, processes)
	for i := range children {
		children[i] = begin(i)
	}
	first := time.Now().Truncate(every).Add(2 * every)
	last := first.Add(time.Duration(ticks-1) * every)
	faults, kills := 0, []time.Time(nil)
	for next := first; time.Now().Before(last.Add(-3 * every)); next = next.Add(4 * every) {
		<-time.After(time.Until(next.Add(rand.N(every))))
		faults++
		if faults%3 == 0 {
			server.Kill()
			<-time.After(rand.N(every))
			require.NoError(t, server.Restart())
			continue
		}
		i := rand.N(processes)
		kills = append(kills, time.Now())
		require.NoError(t, children[i].cmd.Process.Kill())
		children[i] = begin(i)
	}
	<-time.After(time.Until(last.Add(3 * every))) // a later tick shows if the last was missed
	for _, c := range children {
		for _, tell := range c.stop(t) {
			if tell.Err != "" {
				t.Logf("%s: %+v", c.Node, tell)
			}
		}
	}
	t.Logf("%d faults", faults)
	judge(t, log, first, last, every, kills)
}

// judge reads which ticks were begun, and which were missed. A process that was killed may have
// taken one, and not have come to write it down.
func judge(
	t *testing.T, log string, first, last time.Time, every time.Duration, kills []time.Time,
) {
	t.Helper()
	text, err := os.ReadFile(log)
	require.NoError(t, err)
	begun, missed := make(map[int64]int), make(map[int64]bool)
	for line := range strings.Lines(string(text)) {
		var tick int64
		var before int
		_, err := fmt.Sscan(line, &tick, &before)
		require.NoError(t, err)
		begun[tick]++
		for i := range before {
			missed[tick-int64(i+1)*every.Milliseconds()] = true
		}
	}
	once, told, killed := 0, 0, 0
	for tick := first; !tick.After(last); tick = tick.Add(every) {
		switch at := tick.UnixMilli(); {
		case begun[at] == 1 && !missed[at]:
			once++
		case begun[at] == 0 && missed[at]:
			told++
		case begun[at] == 0 && slices.ContainsFunc(kills, func(kill time.Time) bool {
			since := kill.Sub(tick)
			return since > -every/10 && since < 2*every
		}):
			killed++
		default:
			assert.Fail(t, "not once", "%d runs of the tick at %v, told as missed: %v",
				begun[at], tick, missed[at])
		}
	}
	t.Logf("%d ticks begun once, %d missed, %d taken by a killed process", once, told, killed)
	assert.GreaterOrEqual(t, once, (once+told+killed)*2/3)
	assert.LessOrEqual(t, killed, len(kills)/5)
}

// runsOf is how often a tick was run.
func runsOf(t *testing.T, log string, tick time.Time) (n int) {
	t.Helper()
	text, err := os.ReadFile(log)
	require.NoError(t, err)
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, strconv.FormatInt(tick.UnixMilli(), 10)+" ") {
			n++
		}
	}
	return n
}

// The node that runs is killed in the middle: the next tick is run
// elsewhere, and no node runs the rest of this one.
func TestTheRunningProcessIsKilled(t *testing.T) {
	t.Parallel()
	const every = 4 * time.Second
	server, log := redistest.Start(t), filepath.Join(t.TempDir(), "log")
	all := make(chan told, 1000)
	from := make(map[string]*child)
	for i := range processes {
		c := role{
			Node: fmt.Sprintf("node-%d", i+1), Redis: server.Addr(), Every: every,
			Ahead: time.Duration(i) * 20 * time.Millisecond, TTL: time.Second, Hangs: true,
			Log: log,
		}.start(t)
		from[c.Node] = c
		go func() {
			for tell := range c.reports {
				all <- told{c.Node, tell}
			}
		}()
	}
	require.NoError(t, server.Do("SET", "hang", "1").Error()) // now that all may run the next tick
	victim := await(t, all, func(r told) bool { return r.What == hangs })
	require.NoError(t, from[victim.node].cmd.Process.Kill())
	begun := time.UnixMilli(victim.Tick)
	next := await(t, all, func(r told) bool {
		return r.What == string(cronmw.OutcomeRan) && r.Tick > victim.Tick
	})
	assert.NotEqual(t, victim.node, next.node)
	assert.Equal(t, every, time.UnixMilli(next.Tick).Sub(begun), "of all ticks, the next one")
	await(t, all, func(r told) bool {
		return r.What == string(cronmw.OutcomeRan) && r.Tick > next.Tick
	})
	assert.Equal(t, 1, runsOf(t, log, begun))
	assert.Equal(t, 1, runsOf(t, log, time.UnixMilli(next.Tick)))
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
