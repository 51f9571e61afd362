package script_test

import (
	"testing"
	"time"

	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/script"
	"github.com/lockbeat/lockbeat/testutil/storetest"
)

func TestPassKeepsTheContract(t *testing.T) {
	t.Parallel()
	storetest.RunInBubble(t, func(*testing.T) storetest.Fixture {
		s := script.New()
		return storetest.Fixture{
			Store:    s,
			Reserves: true,
			Delete:   s.Delete,
			Overwrite: func(name string) {
				s.Overwrite(name, renewer.Holder{Node: "outsider"}, time.Minute)
			},
		}
	})
}
