package suite_test

import (
	"fmt"

	"github.com/lockbeat/lockbeat/testutil/suite"
)

// make test plays 25,000 grants, make test-long four times as many.
func ExampleSize() {
	fmt.Println(suite.Size(25_000, 100_000) >= 25_000)
	// Output: true
}
