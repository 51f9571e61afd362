package main

import (
	"context"
	"testing"

	"go.uber.org/goleak"

	"github.com/lockbeat/lockbeat/examples/internal/demo"
	"github.com/lockbeat/lockbeat/examples/internal/demo/demotest"
	"github.com/lockbeat/lockbeat/internal/testutil/pgtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestStory(t *testing.T) {
	t.Parallel()
	url := pgtest.Start(t).DSN()
	tell := func(ctx context.Context, d *demo.Demo) error { return tell(ctx, d, url) }
	demotest.AtOnce(
		func() { demotest.Untouched(t, tell) },
		func() {
			demotest.Breaks(t, demo.Setting{Apart: true}, tell, "numbers given twice")
		},
	)
}
