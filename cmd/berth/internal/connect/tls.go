package connect

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"strings"
)

// mostFile bounds the size of a file of certificates.
const mostFile = 1 << 20

// secure completes the TLS configuration by the URL's options, or else by the environment.
// Its errors name the option or variable, never its value: in a malformed URL the password
// can be anywhere.
func (t *Target) secure(options url.Values) error {
	if t.tls == nil {
		return nil
	}
	setting := func(name string) (value, source string) {
		if options.Has(name) {
			return options.Get(name), "its " + name
		}
		variable := "BERTH_TLS_" + strings.ToUpper(name)
		return os.Getenv(variable), "$" + variable
	}
	if name, _ := setting("server_name"); name != "" {
		t.tls.ServerName = name
	}
	if file, source := setting("ca_file"); file != "" {
		pem, err := readFile(file, source)
		if err != nil {
			return err
		}
		t.tls.RootCAs = x509.NewCertPool()
		if !t.tls.RootCAs.AppendCertsFromPEM(pem) {
			return fmt.Errorf("%s names a file without a certificate in PEM form", source)
		}
	}
	certFile, certSource := setting("cert_file")
	keyFile, keySource := setting("key_file")
	switch {
	case certFile == "" && keyFile == "":
		return nil
	case certFile == "" || keyFile == "":
		return fmt.Errorf("a client certificate needs both a certificate and its key: set %s and %s", certSource, keySource)
	}
	cert, err := readFile(certFile, certSource)
	if err != nil {
		return err
	}
	key, err := readFile(keyFile, keySource)
	if err != nil {
		return err
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return fmt.Errorf("the files of %s and %s are not a pair in PEM form, without a passphrase: %w", certSource, keySource, err)
	}
	t.tls.Certificates = []tls.Certificate{pair}
	return nil
}

func readFile(name, source string) ([]byte, error) {
	f, err := os.Open(name)
	if err == nil {
		defer f.Close()
		var text []byte
		if text, err = io.ReadAll(io.LimitReader(f, mostFile)); err == nil {
			return text, nil
		}
	}
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		err = path.Err
	}
	return nil, fmt.Errorf("%s names a file that cannot be read: %w", source, err)
}
