package jobs_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/jobs"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/memory"
)

// A job that is older than one that has begun is done, unrun, though that one
// failed, which runs again.
func TestOlderJobs(t *testing.T) {
	t.Parallel()
	newest := lockmw.Latest()
	named := func(key string) lockmw.Set { return lockmw.All(key) }
	ranked := func(string) lockmw.Set { return lockmw.Ranked("u1", 6) }
	for name, c := range map[string]struct {
		key   func(string) lockmw.Set // of those on the way
		opts  []jobs.Option
		older jobs.Outcome
	}{
		"Latest":             {named, []jobs.Option{newest}, jobs.OutcomeDone},
		"Replace":            {named, []jobs.Option{lockmw.Replace()}, jobs.OutcomeDone},
		"of no such handler": {named, nil, jobs.OutcomeRan},
		"by the key":         {ranked, []jobs.Option{newest}, jobs.OutcomeRan},
		"by the key alone":   {ranked, nil, jobs.OutcomeRan},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				k, err := renewer.New(memory.New(), renewer.Config{TTL: renewer.DefaultTTL})
				require.NoError(t, err)
				run := jobs.Wrap(k, c.key, func(context.Context, string) error { return errOwn },
					c.opts...)
				is := func(want jobs.Outcome, rank int64) {
					t.Helper()
					d := jobs.Delivery{Kind: "export", Queue: "q", ID: "1", Rank: rank, Last: true}
					assert.Equal(t, want, run(t.Context(), d, "u1").Outcome, rank)
				}
				is(jobs.OutcomeRan, 6)
				<-time.After(time.Hour)
				is(c.older, 5)
				is(jobs.OutcomeRan, 6)
				is(jobs.OutcomeRan, 7)
				is(c.older, 6)
				older := jobs.Wrap(k, func(string) lockmw.Set { return lockmw.Ranked("u1", 5) },
					func(context.Context, string) error { return nil }, c.opts...)
				want := jobs.OutcomeDone
				if name == "of no such handler" { // where none has had a rank
					want = jobs.OutcomeRan
				}
				r := older(t.Context(), jobs.Delivery{Kind: "export", Rank: 9}, "u1")
				assert.Equal(t, want, r.Outcome, "by the key's, and not by its own")
				assert.NoError(t, r.Err)
				require.NoError(t, k.Shutdown(t.Context()))
			})
		})
	}
}
