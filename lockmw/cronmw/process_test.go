package cronmw_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
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
	f := startProcesses(t, processes, role{Every: every, TTL: time.Second})
	f.next(t, "hang")
	victim := await(t, f.told, func(r told) bool { return r.What == hangs })
	require.NoError(t, f.nodes[victim.node].cmd.Process.Kill())
	begun := time.UnixMilli(victim.Tick)
	next := await(t, f.told, func(r told) bool {
		return r.What == string(cronmw.OutcomeRan) && r.Tick > victim.Tick
	})
	assert.NotEqual(t, victim.node, next.node)
	assert.Equal(t, every, time.UnixMilli(next.Tick).Sub(begun), "of all ticks, the next one")
	await(t, f.told, func(r told) bool {
		return r.What == string(cronmw.OutcomeRan) && r.Tick > next.Tick
	})
	assert.Equal(t, 1, runsOf(t, f.log, begun))
	assert.Equal(t, 1, runsOf(t, f.log, time.UnixMilli(next.Tick)))
}

// The process that runs is told to stop, or dies of a panic: another one runs the tick again, long
// before the lock would have lapsed.
func TestTheRunningProcessIsCut(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"hang", "panic"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			const ttl = time.Minute
			f := startProcesses(t, 3, role{Every: 4 * time.Second, TTL: ttl, TakeOver: 2})
			f.next(t, how)
			begun := time.Now()
			if how == "hang" {
				victim := await(t, f.told, func(r told) bool { return r.What == hangs })
				require.NoError(t, f.nodes[victim.node].cmd.Process.Signal(syscall.SIGTERM))
			}
			again := await(t, f.told, func(r told) bool {
				return r.What == string(cronmw.OutcomeRan) && r.Attempt == 2
			})
			assert.Less(t, time.Since(begun), ttl)
			assert.Equal(t, 2, runsOf(t, f.log, time.UnixMilli(again.Tick)))
		})
	}
}

// family is processes that have the same job.
type family struct {
	server *redistest.Server
	log    string
	nodes  map[string]*child
	told   chan told
}

// startProcesses starts n, whose clocks are 20 ms apart.
func startProcesses(t *testing.T, n int, r role) *family {
	t.Helper()
	f := &family{
		server: redistest.Start(t), log: filepath.Join(t.TempDir(), "log"),
		nodes: make(map[string]*child), told: make(chan told, 1000),
	}
	r.Redis, r.Log, r.Hangs = f.server.Addr(), f.log, true
	for i := range n {
		r.Node, r.Ahead = fmt.Sprintf("node-%d", i+1), time.Duration(i)*20*time.Millisecond
		c := r.start(t)
		f.nodes[c.Node] = c
		go func() {
			for tell := range c.reports {
				f.told <- told{c.Node, tell}
			}
		}()
	}
	return f
}

// next says what the next run does.
func (f *family) next(t *testing.T, what string) {
	t.Helper()
	require.NoError(t, f.server.Do("SET", "hang", what).Error())
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
