package jobtest_test

import (
	"testing"

	"github.com/lockbeat/lockbeat/testutil/jobtest"
)

// The test of an adapter. newFramework is a func(*testing.T) jobtest.Framework:
// each case gets one with no jobs in it.
func ExampleRun() {
	_ = func(t *testing.T) { jobtest.Run(t, newFramework) }
}
