package main

import (
	"bytes"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Tasks are measured in a short run too.
func TestShortTasks(t *testing.T) {
	t.Parallel()
	var out, errs bytes.Buffer
	require.Equal(t, 0, run(t.Context(),
		[]string{"-peers", "-short", "-run", "tasks", "-row", "users|hot|idle"}, &out, &errs),
		"%s\n%s", out.String(), errs.String())
	for _, want := range []string{
		"| 50 tasks of 20ms, users: 20, time ÷ ideal",
		"| 50 tasks of one hot user, p99 of others ÷ without, once parked",
		"| idle server with Configure, requests ÷ asynq's own",
	} {
		assert.Contains(t, out.String(), want)
	}
	assert.Regexp(t, `users: 20, overlaps, run twice +\| 0, 0 `, out.String())
	assert.Equal(t, 1, strings.Count(out.String(), "| "+inSlot+" "))
}

// ran is a task of one user that was seen, had a place, began and ended at these instants.
func ran(user string, seen, placed, began, ended int64) delivered {
	return delivered{
		User: user, Seen: seen, Placed: placed, Began: began, Ended: ended, Deliveries: 1, Runs: 1,
	}
}

func TestTasksOutOfOrder(t *testing.T) {
	t.Parallel()
	assert.Zero(t, outOfOrder(nil))
	inOrder := []delivered{ran("a", 3, 4, 30, 40), ran("a", 1, 2, 10, 20), ran("a", 5, 6, 50, 60)}
	assert.Zero(t, outOfOrder(inOrder), "however they are listed")
	atOnce := []delivered{ran("a", 1, 5, 30, 40), ran("a", 2, 3, 10, 20)}
	assert.Zero(t, outOfOrder(atOnce), "who had a place first is not known")
	jumped := []delivered{ran("a", 1, 2, 30, 40), ran("a", 3, 4, 10, 20)}
	assert.InDelta(t, .5, outOfOrder(jumped), 1e-9)
	jumped[1].User = "b"
	assert.Zero(t, outOfOrder(jumped), "users have lines of their own")
	never := []delivered{{User: "a", Seen: 1, Placed: 2}, ran("a", 3, 4, 10, 20)}
	assert.Zero(t, outOfOrder(never), "what was not run has not been overtaken yet")
}

func TestTasksOverlap(t *testing.T) {
	t.Parallel()
	assert.Zero(t, overlapping(nil))
	assert.Zero(t, overlapping([]delivered{ran("a", 1, 2, 20, 30), ran("a", 1, 2, 10, 20)}))
	assert.Zero(t, overlapping([]delivered{ran("a", 1, 2, 10, 30), ran("b", 1, 2, 20, 40)}))
	assert.Equal(t, 1, overlapping([]delivered{ran("a", 1, 2, 20, 30), ran("a", 1, 2, 10, 21)}))
}

// A task that two servers were given is one.
func TestDeliveriesOfOneTask(t *testing.T) {
	t.Parallel()
	refused := delivered{ID: "x", User: "a", Seen: 1, Placed: 2, Deliveries: 3}
	d := ran("a", 5, 7, 6, 9)
	d.ID = "x"
	d.merge(refused)
	assert.Equal(t, delivered{
		ID: "x", User: "a", Seen: 1, Placed: 2, Began: 6, Ended: 9, Deliveries: 4, Runs: 1,
	}, d)
	assert.Equal(t, int64(4), earliest(0, 4), "0 is no instant")
}

// What was not over in its time is a miss, and shown with what was done by then.
func TestUnfinishedBurstIsAMiss(t *testing.T) {
	t.Parallel()
	c := taskCase{fleetOf{lock: inLine}, 2, 1, time.Second}
	all := served{Tasks: []delivered{ran("a", 1, 2, 3, 4), {ID: "y", Deliveries: 5}}}
	all.Tasks[0].ID = "x"
	b := new(burst)
	b.judge(c, all, map[string]int64{"x": 0, "y": 0}, 0, 12, false)
	got := b.time("", 1.15)
	assert.False(t, got.ok)
	assert.Equal(t, "1 done in 1m0s", got.measured)
	assert.True(t, b.time("", math.Inf(1)).ok, "which is reported only")
	assert.InDelta(t, 12, b.requests.median(), 0)
	assert.InDelta(t, 6, b.deliveries.median(), 0)

	all.Tasks[1] = ran("a", 1, 2, 4, int64(2100*time.Millisecond))
	all.Tasks[1].ID = "y"
	b = new(burst)
	b.judge(c, all, map[string]int64{"x": 0, "y": 0}, 0, 12, true)
	assert.InDelta(t, 1.05, b.ratio.median(), 1e-9)
	assert.True(t, b.time("", 1.15).ok)
}
