package renewer_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/store"
)

func TestRunsInTheLog(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	o := renewer.NewLogObserver(slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{
		Level: slog.LevelDebug,
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		},
	})))
	for i, run := range []renewer.Run{
		{Outcome: renewer.OutcomeAdded},
		{Outcome: renewer.OutcomeRan, Took: time.Second},
		{Outcome: renewer.OutcomeRan, Due: time.Unix(0, 0).UTC(), Missed: 2},
		{Outcome: renewer.OutcomeRan, Err: errors.New("failed")},
		{
			Outcome: renewer.OutcomeSkipped,
			Holder:  store.Holder{Node: "b", PID: 7, Operation: "j"},
		},
		{Outcome: renewer.OutcomeSkipped},
		{Outcome: renewer.OutcomeCut, Err: errors.New("cut"), Attempt: 1, Left: 1},
		{Outcome: renewer.OutcomeCut, Err: errors.New("cut"), Attempt: 2},
		{Outcome: renewer.OutcomeMissed},
		{Outcome: renewer.OutcomeNotRun, Err: renewer.ErrUnavailable},
		{Outcome: renewer.OutcomeNotRun, Err: context.Canceled},
		{Outcome: renewer.OutcomeConflict, Err: renewer.ErrConfig},
	} {
		run.Job, run.DueBy = fmt.Sprint("j", i), time.Unix(60, 0)
		o.Ran(t.Context(), run)
	}
	o.Ran(t.Context(), renewer.Run{Job: "once", Outcome: renewer.OutcomeRan, Err: errDown})
	o.Ran(t.Context(), renewer.Run{Job: "once", Outcome: renewer.OutcomeRan, Err: errDown})
	const job = ` msg="run of a job" job=j `
	assert.Equal(t, "level=DEBUG"+job+`outcome=added took=0s
level=DEBUG`+job+`outcome=ran took=1s
level=WARN`+job+`outcome=ran took=0s due=1970-01-01T00:00:00.000Z missed=2
level=ERROR`+job+`outcome=ran took=0s error=failed
level=DEBUG`+job+`outcome=skipped took=0s holder="b pid 7 (j)"
level=DEBUG`+job+`outcome=skipped took=0s
level=WARN`+job+`outcome=cut took=0s attempt=1 left=1 error=cut
level=ERROR`+job+`outcome=cut took=0s attempt=2 left=0 error=cut
level=WARN`+job+`outcome=missed took=0s
level=ERROR`+job+`outcome="not run" took=0s error="lockbeat: lock store unavailable"
level=INFO`+job+`outcome="not run" took=0s error="context canceled"
level=WARN`+job+`outcome=conflict took=0s error="lockbeat: invalid configuration"
level=WARN msg="run of a job" job=once outcome=ran took=0s error="connection refused"
level=DEBUG msg="run of a job" job=once outcome=ran took=0s error="connection refused"
`, regexp.MustCompile(`job=j\d+`).ReplaceAllString(out.String(), "job=j"))
}
