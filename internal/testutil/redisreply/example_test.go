package redisreply_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/internal/testutil/redisreply"
)

// What a script would answer goes to the code that reads it.
func ExampleList() {
	_ = func(t *testing.T) {
		message := redisreply.List(redisreply.Text("held"), redisreply.Number(15000)).Message(t)
		items, err := message.ToArray()
		require.NoError(t, err)
		require.Len(t, items, 2)
	}
}
