package jobs_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/lockbeat/lockbeat/internal/contract"
	"github.com/lockbeat/lockbeat/lockmw/jobs"
)

// broken is a queue without a database.
type broken struct{ jobs.Queue }

// A line calls its queue in the background, where a panic would end the process.
func TestQueueThatPanics(t *testing.T) {
	t.Parallel()
	q, job := jobs.Marked(broken{}), contract.Task{Queue: "q", ID: "1"}
	_, home := q.Home(context.Background(), job)
	_, state := q.State("order:u1", job)
	for _, err := range []error{home, state, q.Run(job)} {
		assert.ErrorContains(t, err, "the queue of jobs has panicked: ")
	}
}
