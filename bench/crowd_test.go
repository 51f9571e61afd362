package main

import (
	"bytes"
	"context"
	"io"
	"math"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/testutil/redistest"
)

// Every row of crowd is measured in a short run too.
func TestShortCrowd(t *testing.T) {
	t.Parallel()
	var out, errs bytes.Buffer
	require.Equal(t, 0, run(t.Context(), []string{"-peers", "-short", "-run", "crowd"}, &out,
		&errs), "%s\n%s", out.String(), errs.String())
	for _, want := range []string{
		"| crowd of 2, hand-offs/s ÷ ring", "| crowd of 9, hand-offs/s ÷ ring",
		"| crowd of 4 ÷ crowd of 2, client CPU of a hand-off",
		"| crowd of 4 ÷ crowd of 2, Redis CPU of a hand-off",
		"| crowd of 4, cluster ÷ standalone", "| crowd of 5, overtaken by > 1 ms",
		"| 2 of 3 waiters killed, the first in line, Lockbeat: the next live one has it after",
		"| 2000 names, locked and freed once, keys left",
		"| 2000 names, locked and freed once, cluster, keys left ÷ slots touched",
	} {
		assert.Contains(t, out.String(), want)
	}
	assert.NotContains(t, out.String(), "NaN", "every contestant got somewhere")
	assert.Regexp(t, `requests seen of those granted +\| 1\.00`, out.String())
	assert.Equal(t, 3, strings.Count(out.String(), "| by hand "))
}

func TestRowsAreChosen(t *testing.T) {
	t.Parallel()
	var ran []string
	part := func(name string) section {
		return section{name, func(context.Context, options, io.Writer) ([]target, error) {
			ran = append(ran, name)
			return []target{{what: name}}, nil
		}}
	}
	all := inRows("all", []section{part("one"), part("two"), part("three")})
	targets, err := all.measure(t.Context(), options{row: regexp.MustCompile("^t")}, io.Discard)
	require.NoError(t, err)
	assert.Equal(t, []string{"two", "three"}, ran)
	assert.Len(t, targets, 2)
}

func TestNothingMeasuredIsAMiss(t *testing.T) {
	t.Parallel()
	none := ratioOf(new(sample), new(sample))
	assert.True(t, math.IsNaN(none))
	assert.False(t, atLeast("", none, 0).ok)
	assert.False(t, atMost("", none, 1).ok)
	assert.True(t, atLeast("", 1, 1).ok)
	assert.True(t, atMost("", 1, 1).ok)
}

func TestRatiosAreOfOneRound(t *testing.T) {
	t.Parallel()
	a, b := &sample{values: []float64{10, 200, 30}}, &sample{values: []float64{10, 100, 0}}
	assert.Equal(t, []float64{1, 2}, ratios(a, b), "of nothing there is none")
}

// A program is no slower than itself, and half as quick is.
func TestSlowerIsSeenThroughTheNoise(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	var same, slower []float64
	for range 100 {
		noise := math.Exp(random.NormFloat64() / 10)
		same, slower = append(same, noise), append(slower, .9*noise)
	}
	assert.True(t, noSlower(1, same).ok)
	assert.False(t, noSlower(1, slower).ok)
	low, high := confidence([]float64{3})
	assert.Equal(t, []float64{3, 3}, []float64{low, high})
}

// A ring passes the key from member to member, in order.
func TestRing(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	const of = 3
	members := make([]*ringMember, of)
	for i := range members {
		m, err := newRingMember(t.Context(), server.Addr(), "a", i, of, time.Minute)
		require.NoError(t, err)
		defer m.close()
		members[i] = m
	}
	require.NoError(t, members[0].begin(t.Context()))
	for i := range 2 * of {
		m := members[i%of]
		_, err := m.lock(t.Context())
		require.NoError(t, err)
		assert.Empty(t, members[(i+1)%of].turns, "its turn has not come")
		require.NoError(t, m.unlock(t.Context()))
	}
	_, err := members[0].lock(t.Context())
	require.NoError(t, err)
	require.NoError(t, server.Do("SET", "a", "another").Error())
	require.NoError(t, members[0].unlock(t.Context()))
	require.NoError(t, server.Do("SET", "a", "another").Error())
	_, err = members[1].lock(t.Context())
	require.Error(t, err, "the key is another's by now")
}

// A spy knows who sent which request, and when, by the clock that all processes share.
func TestSpy(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s, err := watchServer(server.Addr())
	require.NoError(t, err)
	defer s.close()
	d := deployment{addr: server.Addr(), client: memberName(7)}
	c, err := newContender(lockbeat, d, cycleTTL)
	require.NoError(t, err)
	defer c.close()
	m := c.mutex("a")
	_, err = m.lock(t.Context())
	require.NoError(t, err)
	require.NoError(t, m.unlock(t.Context()), "so that the server knows the scripts")
	asked := monotonic()
	_, err = m.lock(t.Context())
	require.NoError(t, err)
	had := monotonic()
	require.NoError(t, m.unlock(t.Context()))
	arrivals, err := s.arrivals()
	require.NoError(t, err)
	came := arrivals[memberName(7)]
	require.GreaterOrEqual(t, len(came), 2)
	within := 0
	for _, at := range came {
		if asked < at && at < had {
			within++
		}
	}
	assert.Equal(t, 1, within, "the acquire")
}
