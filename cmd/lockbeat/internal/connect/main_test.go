package connect_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/lockbeat/lockbeat/testutil/redistest"
	"github.com/lockbeat/lockbeat/testutil/suite"
)

func TestMain(m *testing.M) {
	suite.AtOnce(4)
	goleak.VerifyTestMain(m, redistest.Lingering()...)
}
