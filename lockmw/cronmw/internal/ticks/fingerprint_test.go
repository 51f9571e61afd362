package ticks_test

import (
	"testing"
	"time"

	"github.com/robfig/cron/v3"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw/cronmw/internal/ticks"
)

// Schedules of the same ticks are the same, whatever their texts are; others are not.
func TestFingerprint(t *testing.T) {
	t.Parallel()
	known := make(map[string]string)
	for _, same := range [][]string{
		{"* * * * *", "*/1 * * * *", "TZ=Asia/Tokyo * * * * *"},
		{"*/5 * * * *", "0-59/5 * * * *", "0,5,10,15,20,25,30,35,40,45,50,55 * * * *"},
		{"*/10 * * * *"},
		{"5,35 * * * *"},
		{"@hourly", "0 * * * *"},
		{"0 2 * * *", "0 2 * * 0-6"},
		{"0 12 * * *"},
		{"0 2 * * 1-5"},
		{"0 2 * * 0"},
		{"0 2 1 * *"},
		{"0 2 31 * *"},
		{"0 2 29 2 *"},
		{"0 2 1 1 *"},
		{"0 2 1 7 *"},
		{"* 0-22 * * *"},
		{"* 8-18 * * 1-5"},
		{"TZ=Europe/London 0 2 * * *"},
		{"TZ=Europe/Berlin 0 2 * * *", "TZ=Europe/Paris 0 2 * * *"},
		{"TZ=America/New_York 0 2 * * *"},
		{"TZ=Asia/Kolkata 0 2 * * *"},
	} {
		first := ""
		for _, spec := range same {
			s, err := cron.ParseStandard(spec)
			require.NoError(t, err)
			got := ticks.Fingerprint(inUTC{s})
			if first == "" {
				first = got
				assert.Empty(t, known[got], "it is that of %s", spec)
				known[got] = spec
			}
			assert.Equal(t, first, got, spec)
			assert.Len(t, got, 16)
		}
	}
	assert.Equal(t, "* * * * *", known[ticks.Fingerprint(every(time.Minute))])
	assert.NotEqual(t, ticks.Fingerprint(at{time.Hour}), ticks.Fingerprint(at{2 * time.Hour}))
}

// inUTC asks a schedule that has no zone by times of UTC.
type inUTC struct{ cron.Schedule }

func (u inUTC) Next(t time.Time) time.Time { return u.Schedule.Next(t.UTC()) }
