package libraries_test

import (
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/internal/testutil/suite"
	"github.com/lockbeat/lockbeat/testutil/redistest"
)

// While processes are replaced one by one, there and back, two of them never have the lock at once.
func TestRollingDeploy(t *testing.T) {
	suite.OnlyLong(t)
	t.Parallel()
	const rounds = 500
	for library := range open {
		t.Run(library, func(t *testing.T) {
			t.Parallel()
			p := part{
				Library: library, Step: "old", Addr: redistest.Start(t).Addr(),
				Inside: filepath.Join(t.TempDir(), "inside"),
			}
			runs := start(t, p)
			for _, step := range []string{"both", "both", "new", "new", "both", "both", "old"} {
				p.Step = step
				next := start(t, p)
				next.hears("asks", 1)
				var both sync.WaitGroup
				both.Go(func() { runs.hears("in", rounds) })
				both.Go(func() { next.hears("in", rounds) })
				both.Wait()
				runs.stop()
				runs = next
			}
			runs.stop()
		})
	}
}

// A process that is killed under the lock costs the others the rest of its TTL, and nothing else.
func TestKilledHolder(t *testing.T) {
	suite.OnlyLong(t)
	t.Parallel()
	for library := range open {
		for _, steps := range [][2]string{{"old", "both"}, {"both", "both"}, {"both", "old"}} {
			t.Run(library+" "+steps[0]+" "+steps[1], func(t *testing.T) {
				t.Parallel()
				server := redistest.Start(t)
				p := part{
					Library: library, Step: steps[0], Addr: server.Addr(), Stay: true,
					Inside: filepath.Join(t.TempDir(), "inside"),
				}
				dies := start(t, p)
				dies.hears("in", 1)
				p.Step, p.Stay = steps[1], false
				waits := start(t, p)
				waits.hears("asks", 1)
				dies.kill()
				require.NoError(t, os.Remove(p.Inside))

				keys := locksOf(t, server)
				require.NotEmpty(t, keys, "its locks outlive it")
				for _, key := range keys {
					require.NoError(t, server.Do("PEXPIRE", key, "1").Error())
				}
				waits.hears("in", 2)
				waits.stop()
			})
		}
	}
}
