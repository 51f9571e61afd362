package renewer_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/internal/testutil/engine"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/store"
	"github.com/lockbeat/lockbeat/testutil/script"
)

func TestDefaults(t *testing.T) {
	t.Parallel()
	k, err := renewer.New(script.New(), renewer.Config{})
	require.NoError(t, err)
	defer func() { require.NoError(t, k.Shutdown(t.Context())) }()
	c := k.Config()
	assert.Equal(t, 15*time.Second, c.TTL)
	assert.Equal(t, 5*time.Second, c.Heartbeat)
	assert.Equal(t, 1500*time.Millisecond, c.Margin)
	assert.Equal(t, 5*time.Second, c.Poll)
	assert.InDelta(t, 0.01, c.ClockDrift, 0)
	assert.NotEmpty(t, c.Node)
	assert.Less(t, c.TTL, 30*time.Second, "below the lease of asynq's tasks")
	// Three requests fit between a missed heartbeat and the end of belief.
	good := 15*time.Second*99/101 - time.Millisecond - c.Margin
	assert.InDelta(t, good-c.Heartbeat, 3*c.RequestTimeout, float64(10*time.Nanosecond))
	assert.Greater(t, good-c.Heartbeat, 8*time.Second, "the outage that is survived")
}

// Every fault is told at once, with the field's name and what to do.
func TestBadConfigIsRefused(t *testing.T) {
	t.Parallel()
	s := time.Second
	tests := []struct {
		name string
		cfg  renewer.Config
		want []string
	}{
		{
			"500 µs",
			renewer.Config{TTL: 500 * time.Microsecond},
			[]string{"Config.TTL is 500µs", "at least 1ms"},
		},
		{"negative TTL", renewer.Config{TTL: -s}, []string{"Config.TTL is -1s"}},
		{"1 ms", renewer.Config{TTL: time.Millisecond}, []string{"TTL of 1ms"}},
		{
			"margin above TTL",
			renewer.Config{TTL: s, Margin: 2 * s},
			[]string{"Config.Margin is 2s", "TTL/10"},
		},
		{
			"margin above what a TTL is good for",
			renewer.Config{TTL: s, Margin: 990 * time.Millisecond},
			[]string{"Config.Margin is 990ms", "979"},
		},
		{
			"margin leaves no time for the default heartbeat",
			renewer.Config{TTL: 15 * s, Margin: 10 * s},
			[]string{"Config.Margin is 10s", "before a Heartbeat of 5s", "TTL/10 (1.5s)"},
		},
		{
			"heartbeat above TTL",
			renewer.Config{TTL: s, Heartbeat: 2 * s},
			[]string{"Config.Heartbeat is 2s", "TTL/3"},
		},
		{
			"two requests don't fit",
			renewer.Config{TTL: s, RequestTimeout: s / 2},
			[]string{"Config.RequestTimeout is 500ms", "at most"},
		},
		{
			"two requests don't fit after the heartbeat",
			renewer.Config{TTL: 9 * s, Heartbeat: 6 * s, RequestTimeout: s},
			[]string{"Config.RequestTimeout is 1s"},
		},
		{
			"requests of no length",
			renewer.Config{TTL: 6 * time.Millisecond},
			[]string{"TTL of 6ms", "below 1ms"},
		},
		{"drift", renewer.Config{TTL: s, ClockDrift: 1}, []string{"Config.ClockDrift is 1"}},
		{
			"drift that is no number",
			renewer.Config{TTL: s, ClockDrift: math.NaN()},
			[]string{"Config.ClockDrift is NaN"},
		},
		{
			"heartbeat without a unit",
			renewer.Config{TTL: 15 * s, Heartbeat: 5},
			[]string{
				"Config.Heartbeat is 5ns",
				"which is below 1ms: give it a unit, such as 5*time.Second or " +
					"5*time.Millisecond, or leave it 0",
			},
		},
		{
			"no other without a unit",
			renewer.Config{
				TTL: 15 * s, Margin: 1500, RequestTimeout: 2, MaxHold: 60,
				CancelGrace: 30, Poll: 5000, HandOffFor: 10,
			},
			[]string{
				"Config.Margin is 1.5µs", "1500*time.Millisecond", "Config.RequestTimeout is 2ns",
				"Config.MaxHold is 60ns", "Config.CancelGrace is 30ns",
				"Config.Poll is 5µs", "Config.HandOffFor is 10ns",
			},
		},
		{
			"just below",
			renewer.Config{TTL: 15 * s, Poll: time.Millisecond - 1},
			[]string{"Config.Poll is 999.999µs, which is below 1ms: take a longer one, or leave " +
				"it 0 for the default"},
		},
		{
			"max hold below a heartbeat",
			renewer.Config{TTL: 9 * s, MaxHold: s},
			[]string{"Config.MaxHold is 1s"},
		},
		{"several", renewer.Config{
			TTL: s, Heartbeat: -1, Margin: -1, RequestTimeout: -1,
			MaxHold: -1, CancelGrace: -1, Poll: -1, ClockDrift: -1,
		}, []string{
			"Config.Heartbeat is -1ns", "Config.Margin is", "Config.RequestTimeout is",
			"Config.MaxHold is", "Config.CancelGrace is", "Config.Poll is", "Config.ClockDrift is",
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			k, err := renewer.New(script.New(), tt.cfg)
			require.Nil(t, k)
			require.ErrorIs(t, err, renewer.ErrConfig)
			for _, want := range tt.want {
				require.ErrorContains(t, err, want)
			}
		})
	}
}

func TestANilStoreIsRefused(t *testing.T) {
	t.Parallel()
	var typed *script.Store
	for _, s := range []renewer.Store{nil, typed, engine.Of(nil)} {
		_, err := renewer.New(s, renewer.Config{Margin: -1})
		require.ErrorIs(t, err, renewer.ErrConfig)
		require.ErrorContains(t, err, "store is nil: make one with redisstore.New or memory.New")
		require.ErrorContains(t, err, "Config.Margin is -1", "along with the other faults")
	}
}

// tuned is a store that is made for leases of three seconds.
type tuned struct{ store.Store }

func (s tuned) Engine() store.Store { return s }

func (tuned) LeastTTL() time.Duration { return 3 * time.Second }

func TestAStoreMadeForLongerLeasesIsRefused(t *testing.T) {
	t.Parallel()
	_, err := renewer.New(tuned{script.New()}, renewer.Config{TTL: 3*time.Second - 1})
	require.ErrorIs(t, err, renewer.ErrConfig)
	require.ErrorContains(t, err, "Config.TTL is 2.999s, but the store is made for at least 3s")
	k, err := renewer.New(tuned{script.New()}, renewer.Config{TTL: 3 * time.Second})
	require.NoError(t, err)
	require.NoError(t, k.Shutdown(t.Context()))
}

// Any configuration that is accepted leaves room for two requests after a
// missed heartbeat.
func FuzzAcceptedConfigsLeaveRoom(f *testing.F) {
	f.Add(int64(15*time.Second), int64(0), int64(0), int64(0), 0.0)
	f.Add(int64(time.Second), int64(300*time.Millisecond), int64(200*time.Millisecond),
		int64(time.Millisecond), 0.2)
	f.Fuzz(func(t *testing.T, ttl, heartbeat, margin, request int64, drift float64) {
		k, err := renewer.New(script.New(), renewer.Config{
			TTL: time.Duration(ttl), Heartbeat: time.Duration(heartbeat),
			Margin:         time.Duration(margin),
			RequestTimeout: time.Duration(request), ClockDrift: drift,
		})
		if err != nil {
			require.ErrorIs(t, err, renewer.ErrConfig)
			return
		}
		require.NoError(t, k.Shutdown(t.Context()))
		c := k.Config()
		require.Positive(t, c.Margin)
		require.Positive(t, c.Heartbeat)
		require.GreaterOrEqual(t, c.RequestTimeout, time.Millisecond)
		worst := float64(c.TTL)*(1-c.ClockDrift)/(1+c.ClockDrift) - float64(time.Millisecond)
		require.LessOrEqual(t, float64(c.Heartbeat)+2*float64(c.RequestTimeout)+float64(c.Margin),
			worst)
	})
}

func TestNames(t *testing.T) {
	t.Parallel()
	for name, bad := range map[string]string{
		"": "it is empty, or made of an empty part; name what the lock protects",
		strings.Repeat("x", 600): "it has 600 bytes, above the limit of 512; hash what makes " +
			"it long",
		strings.Repeat("x", 512):   "",
		"a\x00{b}% \n\xff:fence ü": "",
		"\x00lockbeat quorum": `it begins with "\x00lockbeat", which stores keep for ` +
			`themselves; begin names with a prefix`,
		"\x00lockbeat":         "which stores keep for themselves",
		"\x00lockbea":          "",
		"lockbeat quorum":      "",
		"a\x00lockbeat quorum": "",
	} {
		err := renewer.CheckName(name)
		if bad == "" {
			require.NoError(t, err)
			continue
		}
		require.ErrorIs(t, err, renewer.ErrName)
		require.ErrorContains(t, err, bad)
	}
}

func TestOwnersAreUnique(t *testing.T) {
	t.Parallel()
	seen := make(map[string]bool)
	for range 10_000 {
		owner := renewer.NewOwner()
		require.Len(t, owner, store.OwnerLen)
		require.False(t, seen[owner])
		seen[owner] = true
	}
}

func TestMillisRefusesLessThanOne(t *testing.T) {
	t.Parallel()
	ms, err := store.Millis(1999 * time.Microsecond)
	require.NoError(t, err)
	require.EqualValues(t, 1, ms)
	_, err = store.Millis(999 * time.Microsecond)
	require.ErrorIs(t, err, renewer.ErrConfig)
}
