package connect_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/lockbeat/lockbeat/testutil/redistest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m, redistest.Lingering()...) }
