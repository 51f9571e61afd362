package simtest_test

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if isChild() {
		jitterByInstant()
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		_ = os.RemoveAll(buildDir) // "" if nothing was built, which removes nothing
		os.Exit(code)
	}))
}
