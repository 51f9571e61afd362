// Package suite sets how much of the tests is run: what a long run alone plays
// in full, and how many tests of a package run at once.
//
//	grants := suite.Size(10_000, 100_000) // make test, make test-long
//
//	func TestMain(m *testing.M) {
//		suite.AtOnce(6)
//		goleak.VerifyTestMain(m)
//	}
//
// It is test code: no production package may import it.
package suite

import (
	"flag"
	"os"
	"runtime"
	"strconv"
	"testing"
)

// LongEnv is the environment variable that, set to "1", asks for the long
// tests: every test at its full size. Make test-long sets it.
const LongEnv = "LOCKBEAT_LONG"

// Long reports whether the long tests are asked for.
func Long() bool { return os.Getenv(LongEnv) == "1" }

// Size returns long if the long tests are asked for, and short otherwise. A
// test at its short size still proves what it is about; at its long size it
// does so for more cases, or for longer.
func Size[T any](short, long T) T {
	if Long() {
		return long
	}
	return short
}

// OnlyLong skips a test that is too long for a short run.
func OnlyLong(t testing.TB) {
	t.Helper()
	if !Long() {
		t.Skip("a long test: make test-long")
	}
}

// AtOnce lets n tests of a package run at once, or as many as there are
// processors if that is more. It is for packages whose tests wait for servers
// and deadlines most of the time. It is to be called in TestMain before the
// tests are run; -parallel on the command line overrides it.
func AtOnce(n int) {
	n = max(n, runtime.GOMAXPROCS(0))
	if err := flag.Set("test.parallel", strconv.Itoa(n)); err != nil {
		panic(err) // called outside of a test
	}
}
