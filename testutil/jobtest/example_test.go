package jobtest_test

import (
	"crypto/rand"
	"testing"

	"github.com/lockbeat/lockbeat/testutil/jobtest"
)

// The test of an adapter. Each case gets a framework with no jobs in it.
func ExampleRun() {
	_ = func(t *testing.T) {
		jobtest.Run(t, func(t *testing.T) jobtest.Framework {
			return framework{t, &Toy[jobtest.Job]{
				Name: rand.Text(), jobs: make(map[string]*toyJob[jobtest.Job]),
			}}
		})
	}
}
