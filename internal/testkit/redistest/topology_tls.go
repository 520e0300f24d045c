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
	"testing"
	"time"

	"github.com/berth-go/berth/internal/testkit/redisserver"
)

// StartTLS starts a server that uses TLS on a port of 127.0.0.1 and, for the test's own
// commands, plain text on its unix socket. It returns the address and a client's TLS
// configuration: a CA made for this test, and a client certificate, which the server
// requires. CertDir has the same in files.
func StartTLS(t testing.TB, opts ...Option) (*Server, string, *tls.Config) {
	t.Helper()
	dir := t.TempDir()
	conf := certify(t, dir)
	port, err := redisserver.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	s := Start(t, append([]Option{WithConfig(
		fmt.Sprintf("tls-port %d", port),
		fmt.Sprintf("tls-cert-file %q", filepath.Join(dir, "cert.pem")),
		fmt.Sprintf("tls-key-file %q", filepath.Join(dir, "key.pem")),
		fmt.Sprintf("tls-ca-cert-file %q", filepath.Join(dir, "ca.pem")),
	)}, opts...)...)
	s.certDir = dir
	return s, fmt.Sprintf("127.0.0.1:%d", port), conf
}

// CertDir returns the directory of ca.pem, cert.pem and key.pem of a server from StartTLS.
func (s *Server) CertDir() string { return s.certDir }

// certify writes ca.pem, cert.pem and key.pem into dir and returns the configuration of a
// client. Server and client use the same certificate.
func certify(t testing.TB, dir string) *tls.Config {
	t.Helper()
	caKey, key := newKey(t), newKey(t)
	ca := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "berth test authority"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "berth test"},
		NotBefore: ca.NotBefore, NotAfter: ca.NotAfter,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	caDER := sign(t, ca, ca, &caKey.PublicKey, caKey)
	leafDER := sign(t, leaf, ca, &key.PublicKey, caKey)
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for name, block := range map[string]*pem.Block{
		"ca.pem":   {Type: "CERTIFICATE", Bytes: caDER},
		"cert.pem": {Type: "CERTIFICATE", Bytes: leafDER},
		"key.pem":  {Type: "PRIVATE KEY", Bytes: keyDER},
	} {
		if err := os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	authority, err := x509.ParseCertificate(caDER)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(authority)
	return &tls.Config{
		RootCAs: roots, MinVersion: tls.VersionTLS12,
		Certificates: []tls.Certificate{{Certificate: [][]byte{leafDER}, PrivateKey: key}},
	}
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func sign(t testing.TB, cert, parent *x509.Certificate, pub *ecdsa.PublicKey, by *ecdsa.PrivateKey) []byte {
	t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, cert, parent, pub, by)
	if err != nil {
		t.Fatal(err)
	}
	return der
}
