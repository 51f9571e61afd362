package connect_test

import (
	"encoding/pem"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/cmd/lockbeat/internal/connect"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/redistest"
)

// lock opens the store that s leads to, and takes and frees a lock there.
func lock(t *testing.T, s connect.Source) (mode rueidis.ClientMode) {
	t.Helper()
	store, client, err := connect.Open(connect.With(t.Context(), s))
	require.NoError(t, err)
	defer client.Close()
	defer store.Close()
	keeper, err := renewer.New(store, renewer.Config{TTL: 5 * time.Second})
	require.NoError(t, err)
	lease, err := keeper.Acquire(t.Context(), "job", renewer.MaxWait(10*time.Second))
	require.NoError(t, err)
	require.NoError(t, lease.Release(t.Context()))
	require.NoError(t, keeper.Shutdown(t.Context()))
	return client.Mode()
}

// The environment comes before the file, and the file before the default.
func TestOneServer(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, "--requirepass", secret)
	s := source()
	s.File = write(t, 0o600, "# where", "", " LOCKBEAT_URL = \"redis://"+server.Addr()+"/3\"",
		"LOCKBEAT_PASSWORD_FILE="+write(t, 0o600, secret, ""), "LOCKBEAT_PREFIX=mine:")
	assert.Equal(t, rueidis.ClientModeStandalone, lock(t, s))
	look := server.Client(t, func(o *rueidis.ClientOption) { o.Password, o.SelectDB = secret, 3 })
	left, err := look.Do(t.Context(), look.B().Keys().Pattern("*").Build()).AsStrSlice()
	require.NoError(t, err)
	require.NotEmpty(t, left, "the mark of the fencing tokens")
	for _, key := range left {
		assert.True(t, strings.HasPrefix(key, "mine:"), key)
	}

	var warned string
	wrong := source("LOCKBEAT_PASSWORD_FILE=" + write(t, 0o604, "other-"+secret))
	wrong.File, wrong.Warn = s.File, func(text string) { warned = text }
	_, _, err = connect.Open(connect.With(t.Context(), wrong))
	require.ErrorIs(t, err, renewer.ErrConfig)
	assert.ErrorContains(t, err, "LOCKBEAT_PASSWORD_FILE")
	assert.NotContains(t, err.Error(), secret)
	assert.Contains(t, warned, "LOCKBEAT_PASSWORD_FILE")
}

func TestWrongPrefixAndNoCluster(t *testing.T) {
	t.Parallel()
	url := "LOCKBEAT_URL=redis://" + redistest.Start(t).Addr()
	for _, word := range []string{"LOCKBEAT_PREFIX=none", "LOCKBEAT_CLUSTER=true"} {
		_, _, err := connect.Open(connect.With(t.Context(), source(url, word)))
		require.ErrorIs(t, err, renewer.ErrConfig)
		assert.ErrorContains(t, err, word[:len("LOCKBEAT_PREFIX")])
	}
}

func TestTLS(t *testing.T) {
	t.Parallel()
	server := redistest.StartTLS(t)
	address := server.TLSOption().InitAddress[0]
	// That of the server too: all of the standard library's test servers have one certificate.
	other := httptest.NewTLSServer(nil)
	defer other.Close()
	authority := write(t, 0o644, string(pem.EncodeToMemory(&pem.Block{
		Type: "CERTIFICATE", Bytes: other.Certificate().Raw,
	})))
	url := "LOCKBEAT_URL=rediss://" + address
	lock(t, source(url, "LOCKBEAT_TLS_CA="+authority, "LOCKBEAT_TLS_SERVER_NAME=example.com"))

	_, _, err := connect.Open(connect.With(t.Context(), source(url)))
	require.ErrorIs(t, err, renewer.ErrUnavailable, "an unknown authority")
}

func TestSentinel(t *testing.T) {
	t.Parallel()
	s := redistest.StartSentinel(t)
	assert.Equal(t, rueidis.ClientModeSentinel, lock(t, source(
		"LOCKBEAT_URL=redis://"+s.Sentinels[0].Addr()+","+s.Sentinels[1].Addr(),
		"LOCKBEAT_SENTINEL_MASTER="+redistest.MasterSet)))
}

// A cluster is recognised by one of its nodes; with several hosts it has to be said.
func TestCluster(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, 3, 0)
	one := "LOCKBEAT_URL=redis://" + c.Masters[0].Addr()
	assert.Equal(t, rueidis.ClientModeCluster, lock(t, source(one)))
	assert.Equal(t, rueidis.ClientModeCluster, lock(t, source(
		one+","+c.Masters[1].Addr(), "LOCKBEAT_CLUSTER=true")))
}
