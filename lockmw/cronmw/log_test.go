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
	"github.com/lockbeat/lockbeat/lockmw/cronmw/internal/ticks"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/store"
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
			Holder: store.Holder{Node: "b", PID: 7, Operation: "j"},
		},
		{Job: "j", Outcome: cronmw.OutcomeSkipped},
		{Job: "j", Outcome: cronmw.OutcomeCut, Err: errors.New("cut"), Attempt: 1, Left: 1},
		{Job: "j", Outcome: cronmw.OutcomeCut, Err: errors.New("cut"), Attempt: 2},
		{Job: "j", Outcome: cronmw.OutcomeMissed},
		{Job: "j", Outcome: cronmw.OutcomeNotRun, Err: renewer.ErrUnavailable},
		{Job: "j", Outcome: cronmw.OutcomeNotRun, Err: ticks.ErrRecordAhead},
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
