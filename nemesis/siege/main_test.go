//go:build linux

package main

import (
	"bytes"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The processes of a siege are lives of the test's own program.
func TestMain(m *testing.M) {
	if os.Getenv(roleEnv) != "" {
		main()
	}
	os.Exit(m.Run())
}

// A small siege: honest clients have no trouble with a few hundred attackers.
func TestSmallSiege(t *testing.T) { //nolint:paralleltest // it measures how long things take
	r, err := run(t.Context(),
		plan{attackers: 300, peace: 2 * time.Second, siege: 6 * time.Second, rate: 50})
	require.NoError(t, err)
	var table bytes.Buffer
	r.print(&table)
	require.Empty(t, r.siege.wrong, table.String())
	require.Zero(t, r.after.Lost, table.String())
	require.LessOrEqual(t, r.after.Goroutines, r.before.Goroutines+spareGoroutines, table.String())
	// The median, since the machine may hold all up for a second of these six.
	require.Less(t, r.siege.at(.5), time.Second, table.String())
}
