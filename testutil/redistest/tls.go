package redistest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/redis/rueidis"
)

// serverName is the one that the certificate is for.
const serverName = "example.com"

// Secured is a server that speaks TLS on a second port, with a certificate that
// nobody else trusts.
type Secured struct {
	*Server

	authority *x509.CertPool // what a client must trust
	tlsPort   string
	dir       string
}

// StartTLS is [Start] for a server with a certificate.
func StartTLS(tb testing.TB, args ...string) *Secured {
	tb.Helper()
	s := new(Secured)
	s.dir = tb.TempDir()
	var err error
	if s.authority, err = certify(s.dir); err != nil {
		tb.Fatal(err)
	}
	cert, key := s.Pair()
	r := recipe{port: freePort, args: func() ([]string, error) {
		port, err := freePort()
		s.tlsPort = strconv.Itoa(port)
		return append([]string{
			"--tls-port", s.tlsPort, "--tls-auth-clients", "no", "--tls-ca-cert-file",
			s.Authority(),
			"--tls-cert-file", cert, "--tls-key-file", key,
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

// Authority returns a file with the certificate that a client must trust.
func (s *Secured) Authority() string { return filepath.Join(s.dir, "cert.pem") }

// Pair returns files with a certificate and its key, which the server trusts a
// client with.
func (s *Secured) Pair() (cert, key string) {
	return filepath.Join(s.dir, "cert.pem"), filepath.Join(s.dir, "key.pem")
}

// certify writes into dir a certificate and its key, for servers and for
// clients, signed by itself.
func certify(dir string) (*x509.CertPool, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("redistest: %w", err)
	}
	certificate := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{serverName},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		BasicConstraintsValid: true, IsCA: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{
			x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth,
		},
	}
	signed, err := x509.CreateCertificate(rand.Reader, certificate, certificate, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("redistest: %w", err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("redistest: %w", err)
	}
	pool := x509.NewCertPool()
	for name, block := range map[string]*pem.Block{
		"cert.pem": {Type: "CERTIFICATE", Bytes: signed},
		"key.pem":  {Type: "PRIVATE KEY", Bytes: secret},
	} {
		text := pem.EncodeToMemory(block)
		pool.AppendCertsFromPEM(text)
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			return nil, fmt.Errorf("redistest: %w", err)
		}
	}
	return pool, nil
}
