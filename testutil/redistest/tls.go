//go:build unix

package redistest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
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

// Secured is a server that speaks TLS on a second port, with a certificate authority of its own.
type Secured struct {
	*Server

	// Authority is what a client must trust.
	Authority *x509.CertPool
	// Name is the one that the server's certificate is for.
	Name string

	tlsPort string
}

// StartTLS is [Start] for a server with a certificate for name, of an
// authority that was made for the occasion.
func StartTLS(tb testing.TB, name string, args ...string) *Secured {
	tb.Helper()
	s := &Secured{Name: name}
	dir := tb.TempDir()
	var err error
	if s.Authority, err = certify(dir, name); err != nil {
		tb.Fatal(err)
	}
	r := recipe{port: freePort, args: func() ([]string, error) {
		port, err := freePort()
		s.tlsPort = strconv.Itoa(port)
		return append([]string{
			"--tls-port", s.tlsPort, "--tls-auth-clients", "no", "--tls-ca-cert-file",
			filepath.Join(dir, "ca.pem"),
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
// authority, and expects the name.
func (s *Secured) TLSOption() rueidis.ClientOption {
	option := s.ClientOption()
	option.InitAddress = []string{net.JoinHostPort("127.0.0.1", s.tlsPort)}
	option.TLSConfig = &tls.Config{
		RootCAs: s.Authority, ServerName: s.Name,
		MinVersion: tls.VersionTLS12,
	}
	return option
}

// certify makes an authority and a server's certificate for name,
// writes them into dir, and forgets the authority's key.
func certify(dir, name string) (*x509.CertPool, error) {
	caKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("redistest: %w", err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("redistest: %w", err)
	}
	now := time.Now()
	ca := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "redistest"},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	server := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name}, NotBefore: ca.NotBefore,
		NotAfter: ca.NotAfter,
		DNSNames: []string{name}, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	caDER, err := x509.CreateCertificate(rand.Reader, ca, ca, caKey.Public(), caKey)
	if err != nil {
		return nil, fmt.Errorf("redistest: %w", err)
	}
	certDER, err := x509.CreateCertificate(rand.Reader, server, ca, key.Public(), caKey)
	if err != nil {
		return nil, fmt.Errorf("redistest: %w", err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("redistest: %w", err)
	}
	for _, f := range []struct {
		name, kind string
		der        []byte
	}{{"ca.pem", "CERTIFICATE", caDER}, {"cert.pem", "CERTIFICATE", certDER}, {
		"key.pem",
		"PRIVATE KEY", keyDER,
	}} {
		block := pem.EncodeToMemory(&pem.Block{Type: f.kind, Bytes: f.der})
		if err := os.WriteFile(filepath.Join(dir, f.name), block, 0o600); err != nil {
			return nil, fmt.Errorf("redistest: %w", err)
		}
	}
	pool := x509.NewCertPool()
	parsed, err := x509.ParseCertificate(caDER)
	if err != nil {
		return nil, fmt.Errorf("redistest: %w", err)
	}
	pool.AddCert(parsed)
	return pool, nil
}
