package suite_test

import (
	"fmt"

	"github.com/lockbeat/lockbeat/internal/testutil/suite"
)

// make test plays 10,000 grants, make test-long ten times as many.
func ExampleSize() {
	fmt.Println(suite.Size(10_000, 100_000) >= 10_000)
	// Output: true
}
