package jobs_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/lockbeat/lockbeat/lockmw/jobs"
)

// broken is a queue without a database.
type broken struct{ jobs.Queue }

// A line calls its queue in the background, where a panic would end the
// process.
func TestQueueThatPanics(t *testing.T) {
	t.Parallel()
	for _, err := range jobs.Ask(broken{}, "q", "1") {
		assert.ErrorContains(t, err, "the queue of jobs has panicked: ")
	}
}
