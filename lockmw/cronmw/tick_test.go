package cronmw_test

import (
	"bytes"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw/cronmw"
	"github.com/lockbeat/lockbeat/renewer"
)

func TestLogTicks(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	tell := cronmw.LogTicks(slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{
		Level: slog.LevelDebug,
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		},
	})))
	for _, tick := range []cronmw.Tick{
		{Job: "j", Outcome: cronmw.OutcomeRan, Took: time.Second},
		{Job: "j", Outcome: cronmw.OutcomeRan, Due: start, Missed: 2},
		{Job: "j", Outcome: cronmw.OutcomeRan, Err: errors.New("failed")},
		{
			Job: "j", Outcome: cronmw.OutcomeSkipped,
			Holder: renewer.Holder{Node: "b", PID: 7, Operation: "j"},
		},
		{Job: "j", Outcome: cronmw.OutcomeSkipped},
		{Job: "j", Outcome: cronmw.OutcomeCut, Err: errors.New("cut"), Attempt: 1, Left: 1},
		{Job: "j", Outcome: cronmw.OutcomeCut, Err: errors.New("cut"), Attempt: 2},
		{Job: "j", Outcome: cronmw.OutcomeMissed},
		{Job: "j", Outcome: cronmw.OutcomeNotRun, Err: renewer.ErrUnavailable},
		{Job: "j", Outcome: cronmw.OutcomeNotRun, Err: cronmw.ErrRecordAhead},
		{Job: "j", Outcome: cronmw.OutcomeConflict, Err: renewer.ErrConfig},
	} {
		tell(t.Context(), tick)
	}
	assert.Equal(t, `level=DEBUG msg="scheduled job" job=j outcome=ran took=1s
level=WARN msg="scheduled job" job=j outcome=ran took=0s due=2000-01-01T00:00:00.000Z missed=2
level=ERROR msg="scheduled job" job=j outcome=ran took=0s error=failed
level=DEBUG msg="scheduled job" job=j outcome=skipped took=0s holder="b pid 7 (j)"
level=DEBUG msg="scheduled job" job=j outcome=skipped took=0s
level=WARN msg="scheduled job" job=j outcome=cut took=0s attempt=1 left=1 error=cut
level=ERROR msg="scheduled job" job=j outcome=cut took=0s attempt=2 left=0 error=cut
level=WARN msg="scheduled job" job=j outcome=missed took=0s
level=ERROR msg="scheduled job" job=j outcome="not run" took=0s error="lockbeat: lock store unavailable"
level=WARN msg="scheduled job" job=j outcome="not run" took=0s error="lockbeat: the record is of a tick to come"
level=WARN msg="scheduled job" job=j outcome=conflict took=0s error="lockbeat: invalid configuration"
`, out.String())
	require.NotNil(t, cronmw.LogTicks(nil))
}

func TestEvery(t *testing.T) {
	t.Parallel()
	at := func(clock string) time.Time {
		u, err := time.Parse("15:04:05.000", clock)
		require.NoError(t, err)
		return u
	}
	for _, c := range []struct {
		every       time.Duration
		after, want string
	}{
		{minute, "12:00:30.000", "12:01:00.000"},
		{minute, "12:01:00.000", "12:02:00.000"},
		{15 * minute, "12:59:59.999", "13:00:00.000"},
		{250 * time.Millisecond, "12:00:00.251", "12:00:00.500"},
	} {
		assert.Equal(t, at(c.want), cronmw.Every(c.every).Next(at(c.after)))
	}
	elsewhere := time.FixedZone("half past", 5*3600+1800)
	assert.Equal(t, at("14:00:00.000"),
		cronmw.Every(2*time.Hour).Next(at("12:30:00.000").In(elsewhere)).UTC(), "of UTC's hours")
	require.PanicsWithValue(t,
		"lockbeat: cronmw.Every(999µs) can't be meant: give at least a millisecond, such as a "+
			"minute",
		func() { cronmw.Every(999 * time.Microsecond) })
}
