package fault_test

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/lockbeat/lockbeat/nemesis/internal/clock"
	"github.com/lockbeat/lockbeat/testutil/redistest"
)

func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "4"); err != nil { // the tests wait more than they work
		panic(err)
	}
	remove, err := clock.Install()
	if errors.Is(err, redistest.ErrMissing) {
		remove, err = func() error { return nil }, nil // each test says so
	}
	if err != nil {
		panic(err)
	}
	code := m.Run()
	if code == 0 {
		if err := goleak.Find(redistest.Lingering()...); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	if err := remove(); err != nil {
		panic(err)
	}
	os.Exit(code)
}
