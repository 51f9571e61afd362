package rivermw

import (
	"context"

	"github.com/lockbeat/lockbeat/lockmw/jobs"
)

// Stays are the jobs of a worker that stay.
type Stays struct{ stays }

// Until is how one of them runs.
func (s *Stays) Until(ctx context.Context, called bool, run func() jobs.Result) jobs.Result {
	return s.until(ctx, called, run)
}

// RankOf is how new a job is.
var RankOf = rankOf
