package storetest_test

import (
	"testing"

	"github.com/lockbeat/lockbeat/renewer/memory"
	"github.com/lockbeat/lockbeat/testutil/storetest"
)

// The test of a store that does no I/O, with simulated time. A store with I/O
// takes Run.
func ExampleRunInBubble() {
	_ = func(t *testing.T) {
		storetest.RunInBubble(t, func(*testing.T) storetest.Fixture {
			return storetest.Fixture{Store: memory.New().Engine()}
		})
	}
}
