package deployment_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/internal/deployment"
	"github.com/lockbeat/lockbeat/renewer"
)

// A connection that could not be made says which variable may help, and which
// would not.
func TestNoConnectionHasAdvice(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	const closed = "; if the server wants TLS, begin the URL with rediss://; if it is a proxy that " +
		"does not know HELLO, such as twemproxy, lead around it: locks need scripts and messages"
	for _, c := range []struct {
		url    string
		err    error
		advice string
	}{
		{"", broken, "; if Redis is not at this default, set LOCKBEAT_URL"},
		{"redis://h", broken, ""},
		{"redis://h", io.EOF, closed},
		{"redis://127.0.0.1", syscall.ECONNRESET, closed},
		{"redis://h", context.DeadlineExceeded, ""},
		{"rediss://h", io.EOF, ""},
		{
			"rediss://h", context.DeadlineExceeded,
			"; if the server speaks no TLS, begin the URL with redis://",
		},
		{
			"rediss://h",
			tls.RecordHeaderError{Msg: "no TLS"},
			"; if the server speaks no TLS, begin the URL with redis://",
		},
		{
			"rediss://h",
			x509.UnknownAuthorityError{},
			"; set LOCKBEAT_TLS_CA to a file with the certificates to trust",
		},
		{
			"rediss://h",
			x509.HostnameError{Certificate: new(x509.Certificate), Host: "h"},
			"; set LOCKBEAT_TLS_SERVER_NAME to a name in the certificate",
		},
	} {
		s, err := deployment.FromLookup(lookup("LOCKBEAT_URL="+c.url,
			"LOCKBEAT_CLUSTER=false"))
		require.NoError(t, err)
		s.Option.DialCtxFn = func(
			context.Context, string, *net.Dialer, *tls.Config,
		) (net.Conn, error) {
			return nil, c.err
		}
		_, err = deployment.Dial(t.Context(), s.Option, s.Cluster)
		require.ErrorIs(t, err, renewer.ErrUnavailable)
		require.ErrorIs(t, err, c.err)
		_, said, _ := strings.Cut(err.Error(), c.err.Error())
		assert.Equal(t, c.advice, said, "%s: %v", c.url, c.err)
	}
}
