package script_test

import (
	"testing"
	"time"

	"github.com/lockbeat/lockbeat/renewer/store"
	"github.com/lockbeat/lockbeat/testutil/script"
	"github.com/lockbeat/lockbeat/testutil/storetest"
)

func TestPassKeepsTheContract(t *testing.T) {
	t.Parallel()
	storetest.RunInBubble(t, func(*testing.T) storetest.Fixture {
		s := script.New()
		return storetest.Fixture{
			NoLimits: true,
			Store:    s,
			Reserves: true,
			Delete:   s.Delete,
			Overwrite: func(name string) {
				s.Overwrite(name, store.Holder{Node: "outsider"}, time.Minute)
			},
		}
	})
}
