//go:build unix

package redistest

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/redis/rueidis"
)

// serverName is the one that the certificate is for.
const serverName = "example.com"

// Secured is a server that speaks TLS on a second port, with a certificate that nobody else trusts.
type Secured struct {
	*Server

	authority *x509.CertPool // what a client must trust
	tlsPort   string
}

// StartTLS is [Start] for a server with a certificate.
func StartTLS(tb testing.TB, args ...string) *Secured {
	tb.Helper()
	s := new(Secured)
	dir := tb.TempDir()
	var err error
	if s.authority, err = certify(dir); err != nil {
		tb.Fatal(err)
	}
	r := recipe{port: freePort, args: func() ([]string, error) {
		port, err := freePort()
		s.tlsPort = strconv.Itoa(port)
		return append([]string{
			"--tls-port", s.tlsPort, "--tls-auth-clients", "no", "--tls-ca-cert-file",
			filepath.Join(dir, "cert.pem"),
			"--tls-cert-file", filepath.Join(dir, "cert.pem"), "--tls-key-file",
			filepath.Join(dir, "key.pem"),
		}, args...), err
	}}
	s.Server, err = open(r)
	check(tb, err)
	tidy(tb, s.Server)
	return s
}

// TLSOption returns options for a client that speaks TLS, trusts the
// certificate, and expects its name.
func (s *Secured) TLSOption() rueidis.ClientOption {
	option := s.ClientOption()
	option.InitAddress = []string{net.JoinHostPort("127.0.0.1", s.tlsPort)}
	option.TLSConfig = &tls.Config{
		RootCAs: s.authority, ServerName: serverName,
		MinVersion: tls.VersionTLS12,
	}
	return option
}

// certify writes into dir a certificate and its key, those of the standard library's test servers.
func certify(dir string) (*x509.CertPool, error) {
	server := httptest.NewTLSServer(nil)
	defer server.Close()
	pair := server.TLS.Certificates[0]
	key, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		return nil, fmt.Errorf("redistest: %w", err)
	}
	for name, block := range map[string]*pem.Block{
		"cert.pem": {Type: "CERTIFICATE", Bytes: pair.Certificate[0]},
		"key.pem":  {Type: "PRIVATE KEY", Bytes: key},
	} {
		err := os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(block), 0o600)
		if err != nil {
			return nil, fmt.Errorf("redistest: %w", err)
		}
	}
	pool := x509.NewCertPool()
	pool.AddCert(server.Certificate())
	return pool, nil
}
