package main

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"os"
	"regexp"
	"testing"
)

// TestAuthoritiesCanBeRead, all of them, and sign themselves.
func TestAuthoritiesCanBeRead(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	if err := write(&b); err != nil {
		t.Fatal(err)
	}
	n := 0
	for block, rest := pem.Decode(b.Bytes()); block != nil; block, rest = pem.Decode(rest) {
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil || !cert.IsCA {
			t.Errorf("%v: no authority: %v", cert, err)
		}
		n++
	}
	if n < 50 {
		t.Errorf("%d authorities", n)
	}
}

// TestImageHasAuthorities where Go looks for them first.
func TestImageHasAuthorities(t *testing.T) {
	t.Parallel()
	for file, line := range map[string]string{
		"../../scripts/Dockerfile": `(?m)^COPY ca-certificates\.crt /etc/ssl/certs/$`,
		"../../scripts/release":    `(?m)^go run \./dev/roots >"\$work/ca-certificates\.crt"$`,
	} {
		if text, err := os.ReadFile(file); err != nil || !regexp.MustCompile(line).Match(text) {
			t.Errorf("%s: no %s: %v", file, line, err)
		}
	}
}
