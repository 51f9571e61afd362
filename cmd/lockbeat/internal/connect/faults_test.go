package connect_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/cmd/lockbeat/internal/connect"
	"github.com/lockbeat/lockbeat/renewer"
)

// secret is what no error may show.
const secret = "sesame-open"

// write makes a file with a mode that no umask changes, and returns its name.
func write(t *testing.T, mode os.FileMode, lines ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(path, []byte(strings.Join(lines, "\n")), 0o600))
	require.NoError(t, os.Chmod(path, mode))
	return path
}

// source has the variables of words NAME=value, and none of the process's.
func source(words ...string) connect.Source {
	return connect.Source{Lookup: func(name string) (string, bool) {
		for _, word := range words {
			if key, value, _ := strings.Cut(word, "="); key == name {
				return value, true
			}
		}
		return "", false
	}}
}

// Each fault names the variable that it is about, all of them at once, and no secret.
func TestFaultsNameTheirVariable(t *testing.T) {
	t.Parallel()
	const url = "LOCKBEAT_URL=redis://u:" + secret + "@127.0.0.1:1"
	for _, c := range []struct {
		words []string
		named string // with spaces between
	}{
		{[]string{"LOCKBEAT_URL=redis://u:" + secret + "%@h:1"}, "LOCKBEAT_URL"},
		{[]string{"LOCKBEAT_URL=" + secret}, "LOCKBEAT_URL"},
		{[]string{"LOCKBEAT_URL=redis://a,b"}, "LOCKBEAT_URL"},
		{[]string{url, "LOCKBEAT_CLUSTER=perhaps"}, "LOCKBEAT_CLUSTER"},
		{[]string{url + "/2", "LOCKBEAT_CLUSTER=true"}, "LOCKBEAT_URL"},
		{
			[]string{url, "LOCKBEAT_CLUSTER=true", "LOCKBEAT_SENTINEL_MASTER=m"},
			"LOCKBEAT_CLUSTER",
		},
		{[]string{url, "LOCKBEAT_SENTINEL_USER=u"}, "LOCKBEAT_SENTINEL_USER"},
		{
			[]string{url, "LOCKBEAT_TLS_CA=x", "LOCKBEAT_TLS_SERVER_NAME=x"},
			"LOCKBEAT_TLS_CA LOCKBEAT_TLS_SERVER_NAME",
		},
		{
			[]string{"LOCKBEAT_URL=rediss://h", "LOCKBEAT_TLS_CA=/", "LOCKBEAT_TLS_KEY=x"},
			"LOCKBEAT_TLS_CA LOCKBEAT_TLS_CERT",
		},
		{
			[]string{"LOCKBEAT_URL=rediss://h", "LOCKBEAT_TLS_CA=" + write(t, 0o600, secret)},
			"LOCKBEAT_TLS_CA",
		},
		{
			[]string{"LOCKBEAT_PASSWORD_FILE=" + write(t, 0o600, secret, secret)},
			"LOCKBEAT_PASSWORD_FILE",
		},
		{
			[]string{"LOCKBEAT_PASSWORD_FILE=" + write(t, 0o620, secret)},
			"LOCKBEAT_PASSWORD_FILE",
		},
		{[]string{"LOCKBEAT_PASSWORD_FILE=/does/not/exist"}, "LOCKBEAT_PASSWORD_FILE"},
		{
			[]string{url, "LOCKBEAT_PASSWORD_FILE=" + write(t, 0o600, secret)},
			"LOCKBEAT_PASSWORD_FILE",
		},
		{[]string{"LOCKBEAT_CONFIG=/does/not/exist"}, "LOCKBEAT_CONFIG"},
		{[]string{"LOCKBEAT_CONFIG=" + write(t, 0o602, url)}, "LOCKBEAT_CONFIG"},
		{[]string{"LOCKBEAT_CONFIG=" + write(t, 0o644, url)}, "LOCKBEAT_CONFIG"},
		{[]string{"LOCKBEAT_CONFIG=" + write(t, 0o600, secret)}, "LOCKBEAT_CONFIG"},
		{[]string{"LOCKBEAT_CONFIG=" + write(t, 0o600, "LOCKBEAT_ULR="+secret)}, "LOCKBEAT_CONFIG"},
	} {
		_, _, err := connect.Open(connect.With(t.Context(), source(c.words...)))
		require.ErrorIs(t, err, renewer.ErrConfig, c.words)
		for name := range strings.FieldsSeq(c.named) {
			assert.ErrorContains(t, err, name+": ")
		}
		assert.NotContains(t, err.Error(), secret)
	}
}

// A file in hand is looked at, not its name; and --config is what its faults are about.
func TestFlagNamesItself(t *testing.T) {
	t.Parallel()
	s := source()
	s.File = write(t, 0o622, "LOCKBEAT_URL=redis://h")
	_, _, err := connect.Open(connect.With(t.Context(), s))
	require.ErrorContains(t, err, "--config: "+s.File)
}

// A server that is not there is no wrong variable; neither is a context that ends.
func TestAway(t *testing.T) {
	t.Parallel()
	const nobody = "LOCKBEAT_URL=redis://:" + secret + "@127.0.0.1:1"
	_, _, err := connect.Open(connect.With(t.Context(), source(nobody)))
	require.ErrorIs(t, err, renewer.ErrUnavailable)
	assert.NotErrorIs(t, err, renewer.ErrConfig)
	assert.ErrorContains(t, err, "127.0.0.1:1")
	assert.NotContains(t, err.Error(), secret)

	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	<-ctx.Done()
	_, _, err = connect.OpenFor(connect.With(ctx, source("LOCKBEAT_URL=redis://192.0.2.1")),
		100*time.Millisecond)
	require.ErrorIs(t, err, context.DeadlineExceeded)
}
