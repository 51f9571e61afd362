package simtest_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// edit changes one place of the engine's source for a build of these tests: that
// it has to be there, and only once, is what tells us when the engine has changed.
type edit struct{ file, from, to string }

// seeded takes the engine's jitter from the instant, which in a bubble
// is the same whenever a world is played again, and counts owner tokens.
var seeded = []edit{
	{"jitter.go", "import (\n\t\"math/rand/v2\"\n\t\"time\"\n)", "import \"time\""},
	{"jitter.go", "return rand.N(d) + 1", "return simulatedJitter(d)"},
	{"ownertoken.go", "rand.Read(raw[:])", "rand.Read(raw[:0]); simulatedOwner(raw[:])"},
}

// simulated is a file more of the engine's package in that build.
const simulated = `package renewer

import (
	"encoding/base64"
	"encoding/binary"
	"os"
	"sync/atomic"
	"time"
)

var owners atomic.Uint32

func simulatedOwner(raw []byte) { binary.BigEndian.PutUint32(raw, owners.Add(1)<<8) }

func simulatedPlace(n uint64) (token ownerToken) {
	raw := make([]byte, 16)
	binary.BigEndian.PutUint64(raw, n)
	base64.RawURLEncoding.Encode(token[:], raw)
	return token
}

func simulatedJitter(d time.Duration) time.Duration {
	x := uint64(time.Now().UnixNano())
	x = (x ^ x>>31) * 0x9e3779b97f4a7c15
	x = (x ^ x>>29) * 0xbf58476d1ce4e5b9
	return time.Duration((x^x>>32)%uint64(d)) + 1
}

var theFault = os.Getenv("` + faultVariable + `")

// planted reports whether the engine is to be at fault in this way.
func planted(fault string) bool { return fault == theFault }
`

const (
	faultVariable = "LOCKBEAT_SIM_FAULT"
	childVariable = "LOCKBEAT_SIM_CHILD"
)

// isChild reports whether this process is such a build.
func isChild() bool { return os.Getenv(childVariable) != "" }

// build makes a test binary of this package in which the engine's jitter is
// seeded and each planted fault can be had by name. The source is not touched. It
// is built without the race detector, under which goroutines are woken in a
// random order, and which takes five times as long: TestEngineAsItIs is for that.
var build = sync.OnceValues(func() (binary string, err error) {
	dir, err := os.MkdirTemp("", "lockbeat-simtest")
	if err != nil {
		return "", err
	}
	buildDir = dir
	overlay, err := writeOverlay(dir)
	if err != nil {
		return "", err
	}
	binary = filepath.Join(dir, "simtest.test")
	args := []string{"test", "-c", "-overlay", overlay, "-o", binary, "."}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	if out, err := exec.CommandContext(ctx, "go", args...).CombinedOutput(); err != nil {
		return "", fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return binary, nil
})

// buildDir is to be removed at the end.
var buildDir string

func writeOverlay(dir string) (string, error) {
	edits := slices.Clone(seeded)
	for _, m := range engineFaults {
		edits = append(edits, m.switched()...)
	}
	sources, err := edited(edits)
	if err != nil {
		return "", err
	}
	sources["simulated.go"] = simulated
	replace := map[string]string{}
	for file, text := range sources {
		original, err := filepath.Abs(filepath.Join("..", file))
		if err != nil {
			return "", err
		}
		replace[original] = filepath.Join(dir, filepath.Base(file))
		if err := os.WriteFile(replace[original], []byte(text), 0o600); err != nil {
			return "", err
		}
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	overlay := filepath.Join(dir, "overlay.json")
	return overlay, os.WriteFile(overlay, text, 0o600)
}

// edited gives the files of the engine with all edits made.
func edited(edits []edit) (map[string]string, error) {
	sources := map[string]string{}
	for _, e := range edits {
		if sources[e.file] == "" {
			text, err := os.ReadFile(filepath.Join("..", e.file))
			if err != nil {
				return nil, err
			}
			sources[e.file] = string(text)
		}
		if n := strings.Count(sources[e.file], e.from); n != 1 {
			return nil, fmt.Errorf("the engine has changed: what is to be edited is %d times in "+
				"renewer/%s, not once; mend the edit\n%s", n, e.file, e.from)
		}
		sources[e.file] = strings.Replace(sources[e.file], e.from, e.to, 1)
	}
	return sources, nil
}

// runChild runs TestSimulation in the other build, with a fault or none,
// and gives its output. It runs on one processor, so that goroutines
// take their turns in the same order when a world is played again.
func runChild(t *testing.T, fault string, flags ...string) (out string, passed bool) {
	t.Helper()
	binary, err := build()
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), binary,
		append([]string{"-test.run=^TestSimulation$", "-test.v"}, flags...)...)
	cmd.Env = append(os.Environ(), childVariable+"=1", faultVariable+"="+fault, "GOMAXPROCS=1")
	text, err := cmd.CombinedOutput()
	if err != nil {
		require.ErrorAs(t, err, new(*exec.ExitError))
	}
	return string(text), err == nil
}
